"""The whole state as canonical bytes, and back.

Canonical: members that applied the same log write the same bytes, whatever order their tables
grew in and whatever process wrote them; so bytes can be compared. Only persisted fields are
written; counts, shelves and what workers hold are rebuilt (`derive`).

One version byte, then a msgpack array. Fields are appended with defaults and raise VERSION; older
versions stay readable. Jobs go in chunks, so that writing and reading need little more memory than
the state and the bytes.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from operator import attrgetter
from sys import intern
from typing import Final

import msgspec

from rollq.base.errors import DiskError, ErrorCode, LocalError
from rollq.base.ids import ClientId, JobId, WorkerId
from rollq.base.jobs import DEFAULT_OPTIONS, JobOptions
from rollq.grid.admission import admit_queue, share_options
from rollq.grid.commands import Settings
from rollq.grid.derive import derive
from rollq.grid.state import (
    PREFIX_BYTES,
    ArrayRecord,
    BatchRecord,
    ClientRecord,
    EndRecord,
    GridState,
    JobRecord,
    JobState,
    PastRecord,
    WorkerRecord,
)

VERSION: Final = 1
_JOBS_PER_CHUNK: Final = 4_096


class JobRow(msgspec.Struct, array_like=True, gc=False):
    """A `JobRecord` with names in place of references."""

    job_id: JobId
    client_id: ClientId
    queue: str
    exec_name: str
    body: bytes | None  # None: that of the array
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


class BatchRow(msgspec.Struct, array_like=True, gc=False):
    """A batch key with its `BatchRecord`."""

    client_id: ClientId
    batch_key: str
    batch: BatchRecord


class SnapshotFile(msgspec.Struct, array_like=True):
    """Everything, in order."""

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
    job_chunks: list[bytes]  # each a list of JobRow, by seq


_encoder = msgspec.msgpack.Encoder()
_file_decoder = msgspec.msgpack.Decoder(SnapshotFile)
_chunk_decoder = msgspec.msgpack.Decoder(list[JobRow])
_by_seq = attrgetter("seq")


def encode_snapshot(state: GridState) -> bytes:
    """The state as bytes."""
    file = SnapshotFile(
        state.applied_index,
        state.log_hash,
        state.last_seq,
        state.last_fence,
        state.settings,
        sorted(queue.name for queue in state.queues.values() if queue.paused),
        [
            ClientRow(client.client_id, client.cap, client.idle_seq)
            for client in sorted(state.clients.values(), key=attrgetter("client_id"))
        ],
        [
            WorkerRow(
                worker.worker_id, worker.incarnation, worker.name, worker.patterns, worker.slots
            )
            for worker in sorted(state.workers.values(), key=attrgetter("worker_id"))
        ],
        [BatchRow(*key, batch) for key, batch in state.batches.items()],
        [_array_row(array) for array in sorted(state.arrays.values(), key=_by_seq)],
        list(_job_chunks(state)),
    )
    return bytes([VERSION]) + _encoder.encode(file)


def _job_chunks(state: GridState) -> Iterator[bytes]:
    records = iter(sorted(state.jobs.values(), key=_by_seq))
    while rows := [_job_row(record) for record in islice(records, _JOBS_PER_CHUNK)]:
        yield _encoder.encode(rows)


def _job_row(record: JobRecord) -> JobRow:
    array = record.array
    return JobRow(
        record.job_id,
        record.client.client_id,
        record.queue,
        record.exec_name,
        None if array is not None and record.body == array.body else record.body,
        _options_or_none(record.options),
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
        array is not None,
    )


def _array_row(array: ArrayRecord) -> ArrayRow:
    return ArrayRow(
        array.array_id,
        array.client.client_id,
        array.queue,
        array.exec_name,
        array.body,
        _options_or_none(array.options),
        array.task_count,
        array.running_max,
        array.seq,
        array.stamp_ms,
        array.delayed,
        array.next_number,
        array.cut_at,
        array.cut_as,
        array.forget_asked,
        [(number, bytes(array.chunks[number])) for number in sorted(array.chunks)],
        array.ended_counts,
    )


def _options_or_none(options: JobOptions) -> JobOptions | None:
    return None if options == DEFAULT_OPTIONS else options


def decode_snapshot(data: bytes) -> GridState:
    """The state that was encoded; it goes on exactly as the original would have.

    Raises:
        LocalError: UNSUPPORTED_VERSION if a newer version wrote it.
        DiskError: SNAPSHOT_CORRUPT if it cannot be read or contradicts itself.
    """
    if data[:1] != bytes([VERSION]):
        raise LocalError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"snapshot of version {data[0] if data else None}, not {VERSION}",
            "upgrade this member before it takes part again",
        )
    try:
        file = _file_decoder.decode(memoryview(data)[1:])
        state = _tables(file)
        for chunk in file.job_chunks:
            for row in _chunk_decoder.decode(chunk):
                _put_row(state, row)
        derive(state)
    except (msgspec.DecodeError, KeyError, ValueError) as error:
        raise DiskError(
            ErrorCode.SNAPSHOT_CORRUPT, f"snapshot cannot be read: {error!r}"
        ) from error
    return state


def _tables(file: SnapshotFile) -> GridState:
    state = GridState()
    state.applied_index = file.applied_index
    state.log_hash = file.log_hash
    state.last_seq = file.last_seq
    state.last_fence = file.last_fence
    state.settings = file.settings
    for name in file.paused_queues:
        admit_queue(state, name).paused = True
    for client in file.clients:
        state.clients[client.client_id] = ClientRecord(
            client.client_id, client.cap, client.idle_seq
        )
    for worker in file.workers:
        state.workers[worker.worker_id] = WorkerRecord(
            worker.worker_id, worker.incarnation, worker.name, worker.patterns, worker.slots
        )
    for batch in file.batches:
        state.batches[batch.client_id, batch.batch_key] = batch.batch
    for row in file.arrays:
        state.arrays[row.array_id[:PREFIX_BYTES]] = _array(state, row)
    return state


def _array(state: GridState, row: ArrayRow) -> ArrayRecord:
    return ArrayRecord(
        row.array_id,
        state.clients[row.client_id],
        intern(row.queue),
        intern(row.exec_name),
        row.body,
        share_options(state, row.options),
        row.task_count,
        row.running_max,
        row.seq,
        row.stamp_ms,
        row.delayed,
        row.next_number,
        row.cut_at,
        JobState(row.cut_as),
        row.forget_asked,
        {number: bytearray(bits) for number, bits in row.chunks},
        row.ended_counts,
    )


def _put_row(state: GridState, row: JobRow) -> None:
    array = state.arrays[row.job_id[:PREFIX_BYTES]] if row.is_task else None
    body = row.body
    if body is None:
        body = b"" if array is None else array.body
    worker = state.workers.get(row.worker_id)
    state.jobs[row.job_id] = JobRecord(
        row.job_id,
        state.clients[row.client_id],
        intern(row.queue),
        intern(row.exec_name),
        body,
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
    )
