"""Builders of events and effects: they fill in the fields that identify a record."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby, islice
from operator import attrgetter
from typing import TypeVar

import msgspec

from rollq.base.ids import WorkerId
from rollq.base.jobs import Status
from rollq.base.limits import RUN_JOBS_MAX
from rollq.base.staged import join_keys
from rollq.grid.commands import AckJob, Cause
from rollq.grid.effects import SendResult
from rollq.grid.events import Event, Run, asked_by
from rollq.grid.state import CANCELLED, DEAD, DONE, ArrayRecord, EndRecord, JobRecord, JobState

Value = TypeVar("Value")

OUTCOME_WORDS: dict[JobState, str] = {DONE: "done", DEAD: "dead", CANCELLED: "cancelled"}

_shared = attrgetter(
    "client", "queue", "exec_name", "options", "array", "state", "attempt", "worker_id"
)


def fact(
    kind: str,
    record: JobRecord,
    *,
    worker_id: WorkerId = b"",
    fence: int = 0,
    delay_ms: int = 0,
    cause: int = 0,
    detail: str = "",
    ack: AckJob | None = None,
    by: str = "",
) -> Event:
    """An event about a job, with the figures of its worker's ack and the requester, if given."""
    return Event(
        kind,
        record.job_id,
        record.client.client_id,
        record.queue,
        record.exec_name,
        worker_id,
        record.attempt,
        fence,
        record.options.priority,
        delay_ms,
        cause=cause,
        exit_code=0 if ack is None else ack.exit_code,
        signal=0 if ack is None else ack.signal,
        run_ms=0 if ack is None else ack.run_ms,
        peak_bytes=0 if ack is None else ack.peak_bytes,
        array_id=b"" if record.array is None else record.array.array_id,
        detail=detail,
        fetched_bytes=0 if ack is None else ack.fetched_bytes,
        held_bytes=0 if ack is None else ack.held_bytes,
        job_key=record.key,
        access=asked_by(by),
    )


def run_fact(kind: str, records: Sequence[JobRecord]) -> Event:
    """One event about each of these equal jobs, which have the same attempt number."""
    event = fact(kind, records[0])
    if len(records) == 1:
        return event
    job_ids = b"".join([record.job_id for record in records])
    return msgspec.structs.replace(event, job_id=b"", run=Run(job_ids, keys=keys_of(records)))


def alike_groups(records: Sequence[JobRecord]) -> Iterator[Sequence[JobRecord]]:
    """Split records, in order, into groups of equal ones, which one event or effect can cover: they
    share client, queue, exec, options, array and state, and their last attempts have the same
    number and worker. By value: which of them are one object differs between members."""
    if len(records) == 1:  # the jobs of many clients come alone, and need not be compared
        yield records
        return
    for _, alike in groupby(records, _shared):
        while group := list(islice(alike, RUN_JOBS_MAX)):
            yield group


def array_fact(
    kind: str,
    array: ArrayRecord,
    count: int,
    *,
    delay_ms: int = 0,
    cause: int = 0,
    detail: str = "",
    blob_bytes: int = 0,
    request: bytes = b"",
    by: str = "",
) -> Event:
    """An event about an array, or `count` tasks of it that are not records."""
    return Event(
        kind,
        b"",
        array.client.client_id,
        array.queue,
        array.exec_name,
        priority=array.options.priority,
        delay_ms=delay_ms,
        cause=cause,
        body_bytes=len(array.body),
        count=count,
        array_id=array.array_id,
        detail=detail,
        blob_bytes=blob_bytes,
        request=request,
        access=asked_by(by),
    )


def cut_result_of(array: ArrayRecord) -> SendResult:
    """The message to the client about all tasks that ended unassigned."""
    is_cancelled = array.cut_as is CANCELLED
    return SendResult(
        array.client.client_id,
        array.first_cut_id,
        array.exec_name,
        OUTCOME_WORDS[array.cut_as],
        (
            EndRecord(
                array.cut_seq,
                Status.CANCELLED if is_cancelled else Status.FAILED,
                b"",
                cause=Cause.NONE if is_cancelled else Cause.EXPIRED,
                detail=array.cut_by,
            ),
        ),
        count=array.task_count - array.cut_at,
    )


def result_of(record: JobRecord, end: EndRecord) -> SendResult:
    """The message to the client about an ended job."""
    return results_of((record,), (end,))


def results_of(records: Sequence[JobRecord], ends: Sequence[EndRecord]) -> SendResult:
    """The message to the client about equal jobs that ended."""
    record = records[0]
    return SendResult(
        record.client.client_id,
        record.job_id if len(records) == 1 else b"".join([one.job_id for one in records]),
        record.exec_name,
        OUTCOME_WORDS[record.state],
        tuple(ends),
        record.attempt,
        keys=keys_of(records),
        worker_id=record.worker_id,
    )


def keys_of(records: Sequence[JobRecord]) -> str:
    """The keys of these jobs as a column."""
    if len(records) == 1:
        return records[0].key
    return join_keys([record.key for record in records])


def column_of(values: Sequence[Value]) -> tuple[Value, ...]:
    """A column of a run's event; empty if all values are equal."""
    return tuple(values) if values and values.count(values[0]) != len(values) else ()
