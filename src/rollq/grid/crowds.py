"""Waiting jobs in a snapshot, column by column.

Jobs that wait for their first attempt differ only in id, seq, stamp, key and body. Writing and
reading a million of them one by one would delay the start of a member by seconds; columns need a
few calls for all of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, groupby, repeat
from sys import intern

from rollq.base.ids import GUID_BYTES
from rollq.base.sealed import sealed_bytes
from rollq.base.staged import KEY_END, ids_of, join_keys
from rollq.grid.admission import admit_queue, share_options
from rollq.grid.bodies import Adopt
from rollq.grid.snapshot_rows import Crowd, options_or_none
from rollq.grid.state import QUEUED, GridState, JobRecord


def is_fresh(record: JobRecord) -> bool:
    """Whether a job waits for its first attempt, so that it can be part of a crowd."""
    return (
        record.state is QUEUED
        and not record.attempt
        and record.past is None
        and record.array is None
    )


def gather(records: Iterable[JobRecord]) -> list[list[JobRecord]]:
    """Groups of fresh jobs, given by seq, that differ only in the columns."""
    crowds: dict[tuple[object, ...], list[JobRecord]] = {}
    last: JobRecord | None = None
    crowd: list[JobRecord] = []
    for record in records:
        if (
            last is None
            or record.client is not last.client
            or record.queue is not last.queue
            or record.exec_name is not last.exec_name
            or record.options is not last.options
        ):
            key = (record.client.client_id, record.queue, record.exec_name, record.options)
            crowd = crowds.setdefault(key, [])
        crowd.append(record)
        last = record
    return list(crowds.values())


def crowd_of(records: Sequence[JobRecord], body_sizes: Iterable[int]) -> Crowd:
    """The columns of one such group."""
    first = records[0]
    return Crowd(
        first.client.client_id,
        first.queue,
        exec_name=first.exec_name,
        options=options_or_none(first.options),
        job_ids=b"".join(record.job_id for record in records),
        seqs=_ranges(record.seq for record in records),
        stamps_ms=_runs(record.stamp_ms for record in records),
        body_sizes=_runs(body_sizes),
        keys=join_keys([record.key for record in records]),
    )


def admit(state: GridState, crowd: Crowd, adopt: Adopt, offset: int) -> int:
    """Restore a crowd into a state, counts included; returns the offset after its bodies.

    Raises:
        ValueError: if the columns contradict each other.
        KeyError: if its client is unknown.
    """
    blob = crowd.job_ids
    count = len(blob) // GUID_BYTES
    sizes = _spread(crowd.body_sizes, count)
    if len(blob) % GUID_BYTES or not count:
        raise ValueError("a column that is not one of ids")
    job_ids = list(ids_of(blob))
    client = state.clients[crowd.client_id]
    queue = admit_queue(state, crowd.queue)
    records = map(
        JobRecord,
        job_ids,
        repeat(client),
        repeat(queue.name),
        repeat(intern(crowd.exec_name)),
        adopt(offset, sizes),
        repeat(share_options(state, crowd.options)),
        repeat(QUEUED),
        _spread_ranges(crowd.seqs, count),
        _spread(crowd.stamps_ms, count),
    )
    before = len(state.jobs)
    state.jobs.update(zip(job_ids, records, strict=True))
    if crowd.keys:
        for job_id, key in zip(job_ids, crowd.keys.split(KEY_END), strict=True):
            state.jobs[job_id].key = key
    if len(state.jobs) - before != count:
        raise ValueError("a crowd with a job that is known already")
    queue.counts[QUEUED] += count
    client.record_count += count
    runs = zip(crowd.body_sizes[::2], crowd.body_sizes[1::2], strict=True)
    return offset + sum(sealed_bytes(size) * length for size, length in runs)


def _runs(values: Iterable[int]) -> list[int]:
    runs: list[int] = []
    for value, same in groupby(values):
        runs += (value, len(list(same)))
    return runs


def _ranges(values: Iterable[int]) -> list[int]:
    ranges: list[int] = []
    first = last = -2
    for value in values:
        if value != last + 1:
            if first >= 0:
                ranges += (first, last - first + 1)
            first = value
        last = value
    return [*ranges, first, last - first + 1]


def _spread(runs: list[int], count: int) -> list[int]:
    _check(runs, count)
    return list(chain.from_iterable(map(repeat, runs[::2], runs[1::2])))


def _spread_ranges(ranges: list[int], count: int) -> Iterable[int]:
    _check(ranges, count)
    starts = ranges[::2]
    ends = [first + length for first, length in zip(starts, ranges[1::2], strict=True)]
    return chain.from_iterable(map(range, starts, ends))


def _check(runs: list[int], count: int) -> None:
    lengths = runs[1::2]
    if len(runs) % 2 or not runs or min(runs) < 0 or min(lengths) < 1 or sum(lengths) != count:
        raise ValueError(f"a column that is not one of {count} jobs")
