"""The layout of a snapshot's head: rows with names in place of references. No logic here.

Compatibility: fields are appended with defaults and raise `snapshot.VERSION`; older versions stay
readable. Bodies of jobs are not in the head: they follow it, in the order of the sizes in it
(crowds first, then rows, then the pieces of what is staged and of what is committed, then the
payloads of topics).
"""

from __future__ import annotations

import msgspec

from rollq.base.access_rules import AccessRole, Account
from rollq.base.hints import ExecHint
from rollq.base.ids import ClientId, JobId, WorkerId
from rollq.base.jobs import DEFAULT_OPTIONS, BlobRef, CacheEntry, JobOptions
from rollq.grid.commands import Settings
from rollq.grid.schedule_records import ScheduleRecord
from rollq.grid.state import (
    HASH_BYTES,
    ArrayRecord,
    BatchRecord,
    DrainMark,
    EndRecord,
    GridState,
    JobRecord,
    Leap,
    PastRecord,
    QueuePolicy,
    ReaderRecord,
)
from rollq.grid.topic_records import Cursor

ARRAY_BODY = -1  # in place of a size: the job shares the body of its array


class Crowd(msgspec.Struct, array_like=True, gc=False):
    """Jobs that wait for their first attempt and differ only in the columns, by seq. A column of
    numbers is run-length encoded as pairs: first number and length for `seqs`, which are
    consecutive in a run; value and count for the others."""

    client_id: ClientId
    queue: str
    exec_name: str
    options: JobOptions | None
    job_ids: bytes  # one behind another
    seqs: list[int]
    stamps_ms: list[int]
    body_sizes: list[int]
    keys: str = ""  # version 4; with KEY_END between two; empty: no job has one


class JobRow(msgspec.Struct, array_like=True, gc=False):
    """Any other `JobRecord`."""

    job_id: JobId
    client_id: ClientId
    queue: str
    exec_name: str
    body_bytes: int  # length of its body, or ARRAY_BODY
    options: JobOptions | None
    state: int
    seq: int
    stamp_ms: int
    attempt: int
    delay_ms: int
    worker_id: WorkerId
    fence: int
    lease_ms: int
    cancel_requested: bool
    end: EndRecord | None
    past: PastRecord | None
    is_task: bool
    key: str = ""  # version 4


class ArrayRow(msgspec.Struct, array_like=True):
    """An `ArrayRecord` with names in place of references."""

    array_id: JobId
    client_id: ClientId
    queue: str
    exec_name: str
    body: bytes
    options: JobOptions | None
    task_count: int
    running_max: int
    seq: int
    stamp_ms: int
    delayed: bool
    next_number: int
    cut_at: int
    cut_as: int
    forget_asked: bool
    chunks: list[tuple[int, bytes]]
    ended_counts: list[int]
    cut_by: str = ""  # version 2
    cut_seq: int = 0
    blobs: tuple[BlobRef, ...] = ()  # version 3
    caches: tuple[str, ...] = ()
    first_task: int = 0  # version 6
    failed: int | None = None  # version 6


class CacheRow(msgspec.Struct, array_like=True):
    """The persisted part of a `CacheRecord`."""

    cache_id: str
    entries: tuple[CacheEntry, ...]
    targets: tuple[str, ...]
    stamp_ms: int
    removed: bool


class ClientRow(msgspec.Struct, array_like=True, gc=False):
    """The persisted part of a `ClientRecord`."""

    client_id: ClientId
    cap: int
    idle_seq: int


class WorkerRow(msgspec.Struct, array_like=True):
    """The persisted part of a `WorkerRecord`."""

    worker_id: WorkerId
    incarnation: int
    name: str
    patterns: tuple[str, ...]
    slots: int
    labels: tuple[str, ...] = ()  # version 10
    resources: tuple[tuple[str, int], ...] = ()


class LimitRow(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The persisted part of a `LimitRecord`."""

    scope: str
    name: str
    running_max: int
    rate: int
    burst: int
    due_us: int


class BatchRow(msgspec.Struct, array_like=True, gc=False):
    """A batch key with its `BatchRecord`."""

    client_id: ClientId
    batch_key: str
    batch: BatchRecord


class ChunkRow(msgspec.Struct, array_like=True):
    """A `StagedChunk`; its pieces follow the head, with the bodies."""

    job_ids: bytes
    crc: int
    sizes: list[int]  # of its pieces
    blobs: tuple[BlobRef, ...]
    caches: tuple[str, ...]
    redrives: bool
    parents: bytes = b""  # version 11


class StagedRow(msgspec.Struct, array_like=True):
    """A `StagedBatch`."""

    client_id: ClientId
    batch_key: str
    stamp_ms: int
    parts: list[tuple[str, list[tuple[int, ChunkRow]]]]  # by name and number


class CommittedRow(msgspec.Struct, array_like=True):
    """A `CommittedBatch`."""

    client_id: ClientId
    batch_key: str
    chunks: list[ChunkRow]
    known: bytes  # ids one behind another, sorted
    position: int
    stamp_ms: int = 0


class TopicRow(msgspec.Struct, array_like=True):
    """A `TopicRecord`; its payloads are at the end of the snapshot. Columns: one value per message,
    oldest first."""

    name: str
    patterns: tuple[str, ...]
    age_ms: int
    bytes_max: int
    count_max: int
    stamp_ms: int
    by: str
    first_index: int
    cursors: list[tuple[str, Cursor]]  # by name
    subjects: list[str]
    reply_to: list[str]
    stamps_ms: list[int]
    sizes: list[int]  # of the payloads


class EdgeRows(msgspec.Struct, array_like=True):
    """An `EdgeTable`, each table in its order. Ids of children are concatenated."""

    parents: list[tuple[JobId, bytes]]  # by child
    children: list[tuple[JobId, bytes]]
    unsettled: list[tuple[JobId, int, bytes]]
    position: int


class Head(msgspec.Struct, array_like=True):
    """Everything but the bodies, in order."""

    applied_index: int
    log_hash: bytes
    last_seq: int
    last_fence: int
    settings: Settings
    paused_queues: list[str]  # sorted
    clients: list[ClientRow]  # by client_id
    workers: list[WorkerRow]  # by worker_id
    batches: list[BatchRow]  # oldest first
    arrays: list[ArrayRow]  # by seq
    crowds: list[Crowd]  # by the seq of their first
    row_chunks: list[bytes]  # each a list of JobRow, by seq
    caches: list[CacheRow] = msgspec.field(default_factory=list)  # version 3; by cache_id
    staged: list[StagedRow] = msgspec.field(default_factory=list)  # version 4; oldest first
    committed: list[CommittedRow] = msgspec.field(default_factory=list)  # oldest first
    # version 5; by name, the one that was heard of longest ago first
    readers: list[tuple[str, ReaderRecord]] = msgspec.field(default_factory=list)
    hints: list[ExecHint] = msgspec.field(default_factory=list)  # version 5; by exec_name
    time_ms: int = 0  # version 6
    leaps: list[Leap] = msgspec.field(default_factory=list)  # version 6; oldest first
    state_hash: bytes = bytes(HASH_BYTES)  # version 6
    accounts: list[Account] = msgspec.field(default_factory=list)  # version 8; by name
    roles: list[AccessRole] = msgspec.field(default_factory=list)  # version 8; by name
    access_version: int = 0  # version 8
    # version 9; in the order of the drains
    drained: list[tuple[WorkerId, DrainMark]] = msgspec.field(default_factory=list)
    policies: list[QueuePolicy] = msgspec.field(default_factory=list)  # version 10; by pattern
    limits: list[LimitRow] = msgspec.field(default_factory=list)  # version 10; by scope and name
    # version 10; by client_id
    weights: list[tuple[ClientId, int]] = msgspec.field(default_factory=list)
    topics: list[TopicRow] = msgspec.field(default_factory=list)  # version 10; by name
    topics_removed_index: int = 0  # version 10
    edges: EdgeRows | None = None  # version 11; None: no job waits for another, or did
    schedules: list[ScheduleRecord] = msgspec.field(default_factory=list)  # version 12; by name


def job_row(record: JobRecord, body_bytes: int) -> tuple[object, ...]:
    """A `JobRow` as a tuple, which is encoded the same and faster to make."""
    return (
        record.job_id,
        record.client.client_id,
        record.queue,
        record.exec_name,
        body_bytes,
        options_or_none(record.options),
        record.state,
        record.seq,
        record.stamp_ms,
        record.attempt,
        record.delay_ms,
        record.worker_id,
        record.fence,
        record.lease_ms,
        record.cancel_requested,
        record.end,
        record.past,
        record.array is not None,
        record.key,
    )


def array_row(array: ArrayRecord) -> ArrayRow:
    """The row of an array."""
    return ArrayRow(
        array.array_id,
        array.client.client_id,
        queue=array.queue,
        exec_name=array.exec_name,
        body=array.body,
        options=options_or_none(array.options),
        task_count=array.task_count,
        running_max=array.running_max,
        seq=array.seq,
        stamp_ms=array.stamp_ms,
        delayed=array.delayed,
        next_number=array.next_number,
        cut_at=array.cut_at,
        cut_as=array.cut_as,
        forget_asked=array.forget_asked,
        chunks=[(number, bytes(array.chunks[number])) for number in sorted(array.chunks)],
        ended_counts=array.ended_counts,
        cut_by=array.cut_by,
        cut_seq=array.cut_seq,
        blobs=array.blobs,
        caches=array.caches,
        first_task=array.first_task,
        failed=array.failed,
    )


def policy_rows(state: GridState) -> list[QueuePolicy]:
    """The policies of queues, by pattern."""
    return [state.policies[pattern] for pattern in sorted(state.policies)]


def limit_rows(state: GridState) -> list[LimitRow]:
    """The limits, by scope and name."""
    limits = [state.limits[key] for key in sorted(state.limits)]
    return [
        LimitRow(
            limit.scope,
            limit.name,
            running_max=limit.running_max,
            rate=limit.rate,
            burst=limit.burst,
            due_us=limit.due_us,
        )
        for limit in limits
    ]


def weight_rows(state: GridState) -> list[tuple[ClientId, int]]:
    """The shares of clients that have one."""
    return sorted(state.weights.items())


def schedule_rows(state: GridState) -> list[ScheduleRecord]:
    """The schedules, by name."""
    by_name = state.schedules.by_name
    return [by_name[name] for name in sorted(by_name)]


def options_or_none(options: JobOptions) -> JobOptions | None:
    """None for default options."""
    return None if options == DEFAULT_OPTIONS else options
