"""The whole state as canonical bytes, and back.

Canonical: members that applied the same log write the same bytes, independent of table order,
process and storage of bodies; so bytes can be compared. Only persisted fields are written; derived
ones are rebuilt (`derive`).

    version 1 | length of the head 8, little-endian | head (msgpack, `snapshot_rows`) | bodies

The bodies of jobs follow the head, at offsets given by the sizes in the head and each with its own
checksum, so that a reader may leave them in place and load them on demand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from operator import attrgetter
from sys import intern
from typing import Final, TypeVar

import msgspec
from msgspec import structs

from rollq.base.access_table import AccessTable
from rollq.base.errors import DiskError, ErrorCode, LocalError
from rollq.base.jobs import Status
from rollq.base.sealed import sealed_bytes
from rollq.grid.admission import admit_queue, share_options
from rollq.grid.bodies import Adopt, Bodies, Token, slices_of
from rollq.grid.crowds import admit, crowd_of, gather, is_fresh
from rollq.grid.derive import derive
from rollq.grid.hints import listed_hints
from rollq.grid.snapshot_edges import edge_rows, put_edges_back
from rollq.grid.snapshot_rows import (
    ARRAY_BODY,
    ArrayRow,
    BatchRow,
    CacheRow,
    ClientRow,
    Head,
    JobRow,
    WorkerRow,
    array_row,
    job_row,
    limit_rows,
    policy_rows,
    schedule_rows,
    weight_rows,
)
from rollq.grid.snapshot_staged import committed_rows, pieces_of, put_back, staged_rows
from rollq.grid.snapshot_topics import payloads_of, put_topics_back, topic_rows
from rollq.grid.state import (
    DONE,
    PREFIX_BYTES,
    ArrayRecord,
    CacheRecord,
    ClientRecord,
    GridState,
    JobRecord,
    JobState,
    LimitRecord,
    WorkerRecord,
)

P = TypeVar("P")

VERSION: Final = 13
VERSIONS: Final = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13)  # that can be read
PREFACE_BYTES: Final = 9  # version and length of the head
_ROWS_PER_CHUNK: Final = 4_096

_encoder = msgspec.msgpack.Encoder()
_head_decoder = msgspec.msgpack.Decoder(Head)
_chunk_decoder = msgspec.msgpack.Decoder(list[JobRow])
_by_seq = attrgetter("seq")


def encode_snapshot(state: GridState) -> bytes:
    """The state as bytes."""
    _, pieces = snapshot_pieces(state, state.bodies.sealed)
    return b"".join(pieces)


def snapshot_pieces(
    state: GridState, sealed: Callable[[Sequence[Token]], Iterator[P]]
) -> tuple[int, Iterator[bytes | P]]:
    """The size of a snapshot, and its bytes in pieces. The state must not change before the last
    piece is taken. Pieces of `sealed`, which is that of its `Bodies` or an equivalent, may also be
    references to bytes stored elsewhere."""
    bodies = state.bodies
    fresh: list[JobRecord] = []
    rows: list[JobRecord] = []
    for record in sorted(state.jobs.values(), key=_by_seq):
        (fresh if is_fresh(record) else rows).append(record)
    crowds = gather(fresh)
    crowd_sizes = [[bodies.size(record.body) for record in crowd] for crowd in crowds]
    sizes = [_own_bytes(bodies, record) for record in rows]
    head = Head(
        state.applied_index,
        state.log_hash,
        last_seq=state.last_seq,
        last_fence=state.last_fence,
        settings=state.settings,
        paused_queues=sorted(queue.name for queue in state.queues.values() if queue.paused),
        clients=[
            ClientRow(client.client_id, client.cap, client.idle_seq)
            for client in sorted(state.clients.values(), key=attrgetter("client_id"))
        ],
        workers=[
            _worker_row(one) for one in sorted(state.workers.values(), key=attrgetter("worker_id"))
        ],
        batches=[BatchRow(*key, batch) for key, batch in state.batches.items()],
        arrays=[array_row(array) for array in sorted(state.arrays.values(), key=_by_seq)],
        crowds=list(map(crowd_of, crowds, crowd_sizes)),
        row_chunks=list(_row_chunks(zip(rows, sizes, strict=True))),
        caches=[
            CacheRow(
                cache.cache_id,
                cache.entries,
                targets=cache.targets,
                stamp_ms=cache.stamp_ms,
                removed=cache.removed,
            )
            for cache in sorted(state.caches.values(), key=attrgetter("cache_id"))
        ],
        staged=staged_rows(state),
        committed=committed_rows(state),
        readers=list(state.readers.items()),
        hints=listed_hints(state),
        time_ms=state.time_ms,
        leaps=state.leaps,
        state_hash=state.state_hash,
        accounts=state.access.listed_accounts(),
        roles=state.access.listed_roles(),
        access_version=state.access.version,
        drained=list(state.drained.items()),
        policies=policy_rows(state),
        limits=limit_rows(state),
        weights=weight_rows(state),
        topics=topic_rows(state),
        topics_removed_index=state.topics.removed_index,
        edges=edge_rows(state),
        schedules=schedule_rows(state),
    )
    data = _encoder.encode(head)
    tokens = [record.body for crowd in crowds for record in crowd]
    tokens += [row.body for row, size in zip(rows, sizes, strict=True) if size > 0]
    tokens += (pieces := pieces_of(state) + payloads_of(state))
    lengths = chain(*crowd_sizes, (s for s in sizes if s > 0), map(bodies.size, pieces))
    bodies_bytes = sum(map(sealed_bytes, lengths))
    total = PREFACE_BYTES + len(data) + bodies_bytes
    preface = bytes([VERSION]) + len(data).to_bytes(8, "little")
    return total, chain((preface, data), sealed(tokens))


def _worker_row(worker: WorkerRecord) -> WorkerRow:
    return WorkerRow(
        worker.worker_id,
        worker.incarnation,
        name=worker.name,
        patterns=worker.patterns,
        slots=worker.slots,
        labels=worker.labels,
        resources=worker.resources,
    )


def _own_bytes(bodies: Bodies, record: JobRecord) -> int:
    """The length of a job's body; ARRAY_BODY if it is that of its array."""
    body = record.body
    size = len(body) if isinstance(body, bytes) else bodies.size(body)
    array = record.array
    if array is not None and size == len(array.body) and bodies.load(record.body) == array.body:
        return ARRAY_BODY
    return size


def _row_chunks(rows: Iterator[tuple[JobRecord, int]]) -> Iterator[bytes]:
    while chunk := [job_row(record, size) for record, size in islice(rows, _ROWS_PER_CHUNK)]:
        yield _encoder.encode(chunk)


def head_bytes(preface: bytes) -> int:
    """The length of everything but the bodies, from the first PREFACE_BYTES of a snapshot.

    Raises:
        LocalError: UNSUPPORTED_VERSION if a newer version wrote it.
        DiskError: SNAPSHOT_CORRUPT if it is too short.
    """
    if not preface or preface[0] not in VERSIONS:
        raise LocalError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"snapshot of version {preface[0] if preface else None}, not up to {VERSION}",
            "upgrade this member before it takes part again",
        )
    if len(preface) < PREFACE_BYTES:
        raise _corrupt("it ends in its first line")
    return PREFACE_BYTES + int.from_bytes(preface[1:PREFACE_BYTES], "little")


def decode_snapshot(
    data: bytes, bodies: Bodies | None = None, adopt: Adopt | None = None
) -> GridState:
    """The encoded state; it behaves exactly as the original.

    Args:
        data: the snapshot; with `adopt` its first `head_bytes` are enough.
        bodies: stores the bodies of this state; default: memory.
        adopt: returns tokens of `bodies` for the bodies after the head, which are not read then.

    Raises:
        LocalError: UNSUPPORTED_VERSION if a newer version wrote it.
        DiskError: SNAPSHOT_CORRUPT if it cannot be read or contradicts itself.
    """
    end = head_bytes(data[:PREFACE_BYTES])
    try:
        head = _head_decoder.decode(memoryview(data)[PREFACE_BYTES:end])
        state = _tables(head, GridState(bodies))
        end = _jobs(head, state, adopt or slices_of(data), end)
    except (msgspec.DecodeError, KeyError, ValueError, OverflowError) as error:
        raise _corrupt(repr(error)) from error
    if adopt is None and end != len(data):
        raise _corrupt(f"it has {len(data)} bytes, not {end}")
    return state


def _jobs(head: Head, state: GridState, adopt: Adopt, offset: int) -> int:
    """Restore the jobs; returns the offset after the last body."""
    for crowd in head.crowds:
        offset = admit(state, crowd, adopt, offset)
    others: list[JobRecord] = []
    for chunk in head.row_chunks:
        rows = _chunk_decoder.decode(chunk)
        sizes = [max(row.body_bytes, 0) for row in rows]
        for row, token in zip(rows, adopt(offset, sizes), strict=True):
            others.append(_job(state, row, token))
        offset += sum(map(sealed_bytes, sizes))
    derive(state, others)
    _count_failed(head, others)
    state.time_ms = head.time_ms
    state.leaps = head.leaps
    offset = put_back(state, head, adopt, offset)
    put_edges_back(state, head.edges)
    return put_topics_back(state, head, adopt, offset)


def _count_failed(head: Head, records: list[JobRecord]) -> None:
    """Older snapshots do not have the failed tasks of an array: count those still known."""
    untold = {row.array_id: None for row in head.arrays if row.failed is None}
    for record in records:
        array, end = record.array, record.end
        if array is not None and array.array_id in untold and record.state is DONE:
            array.failed += end is not None and end.status == Status.FAILED


def _tables(head: Head, state: GridState) -> GridState:
    state.applied_index = head.applied_index
    state.log_hash = head.log_hash
    state.state_hash = head.state_hash
    state.last_seq = head.last_seq
    state.last_fence = head.last_fence
    state.settings = head.settings
    state.hints = {hint.exec_name: hint for hint in head.hints}
    for name in head.paused_queues:
        admit_queue(state, name).paused = True
    for client in head.clients:
        state.clients[client.client_id] = ClientRecord(
            client.client_id, client.cap, client.idle_seq
        )
    for worker in head.workers:
        state.workers[worker.worker_id] = WorkerRecord(
            worker.worker_id,
            worker.incarnation,
            name=worker.name,
            patterns=worker.patterns,
            slots=worker.slots,
            labels=worker.labels,
            resources=worker.resources,
        )
    for policy in head.policies:
        state.policies[policy.pattern] = policy
    for row in head.limits:
        state.limits[row.scope, row.name] = LimitRecord(*structs.astuple(row))
    state.weights.update(head.weights)
    for schedule in head.schedules:
        state.schedules.by_name[schedule.name] = schedule
        state.schedules.next_sum += schedule.next_ms
    for batch in head.batches:
        state.batches[batch.client_id, batch.batch_key] = batch.batch
    for cache in head.caches:
        state.caches[cache.cache_id] = CacheRecord(
            cache.cache_id,
            cache.entries,
            targets=cache.targets,
            stamp_ms=cache.stamp_ms,
            removed=cache.removed,
        )
    state.readers.update(head.readers)
    state.drained.update(head.drained)
    state.access = AccessTable(head.accounts, head.roles, head.access_version)
    for array in head.arrays:
        state.arrays[array.array_id[:PREFIX_BYTES]] = _array(state, array)
    return state


def _array(state: GridState, row: ArrayRow) -> ArrayRecord:
    return ArrayRecord(
        row.array_id,
        state.clients[row.client_id],
        queue=intern(row.queue),
        exec_name=intern(row.exec_name),
        body=row.body,
        options=share_options(state, row.options),
        task_count=row.task_count,
        running_max=row.running_max,
        seq=row.seq,
        stamp_ms=row.stamp_ms,
        delayed=row.delayed,
        next_number=row.next_number,
        cut_at=row.cut_at,
        cut_as=JobState(row.cut_as),
        cut_by=row.cut_by,
        cut_seq=row.cut_seq,
        forget_asked=row.forget_asked,
        chunks={number: bytearray(bits) for number, bits in row.chunks},
        ended_counts=row.ended_counts,
        blobs=row.blobs,
        caches=row.caches,
        first_task=row.first_task,
        failed=row.failed or 0,
    )


def _job(state: GridState, row: JobRow, token: Token) -> JobRecord:
    array = state.arrays[row.job_id[:PREFIX_BYTES]] if row.is_task else None
    worker = state.workers.get(row.worker_id)
    record = state.jobs[row.job_id] = JobRecord(
        row.job_id,
        state.clients[row.client_id],
        intern(row.queue),
        intern(row.exec_name),
        array.body if array is not None and row.body_bytes == ARRAY_BODY else token,
        share_options(state, row.options),
        JobState(row.state),
        row.seq,
        row.stamp_ms,
        row.attempt,
        row.delay_ms,
        row.worker_id if worker is None else worker.worker_id,
        row.fence,
        row.lease_ms,
        row.cancel_requested,
        row.end,
        row.past,
        array,
        row.key,
    )
    return record


def _corrupt(reason: str) -> DiskError:
    return DiskError(ErrorCode.SNAPSHOT_CORRUPT, f"snapshot cannot be read: {reason}")
