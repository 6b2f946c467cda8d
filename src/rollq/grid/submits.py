"""Handlers that accept jobs, one or many, each exactly once. Arrays are accepted in `arrays`."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from sys import intern
from zlib import crc32

import msgspec

from rollq.base.digests import Digest
from rollq.base.errors import ErrorCode
from rollq.base.ids import ClientId, JobId
from rollq.base.jobs import DEFAULT_OPTIONS, BulkItem
from rollq.base.limits import (
    BATCH_KEY_BYTES_MAX,
    BATCHES_KEPT_MAX,
    BLOBS_PER_JOB_MAX,
    BULK_JOBS_MAX,
    JOBS_MAX,
)
from rollq.base.requests import kept_of
from rollq.base.staged import StagedGroup
from rollq.grid.admission import (
    admit_client,
    admit_queue,
    is_long,
    refuse_job,
    refuse_key,
    refuse_submit,
    refused_bounds,
    share_options,
)
from rollq.grid.commands import SubmitBulk, SubmitJob
from rollq.grid.effects import Applied, Done, Outcome, Refused
from rollq.grid.events import (
    JOB_DELAYED,
    JOB_ENQUEUED,
    Event,
)
from rollq.grid.facts import result_of
from rollq.grid.moves import next_seq, put_job, submitted_crc
from rollq.grid.outcomes import DONE_ONE, JOBS_FULL, KNOWN_ENDED, KNOWN_OPEN
from rollq.grid.refs import blob_bytes, files_crc, past_with, refuse_blobs, refuse_files
from rollq.grid.state import (
    DELAYED,
    HASH_BYTES,
    QUEUED,
    BatchRecord,
    ClientRecord,
    GridState,
    JobRecord,
)

_encoder = msgspec.msgpack.Encoder()
_BULK_TAG = 2  # of the command, in front of its fields


def submit_job(state: GridState, command: SubmitJob, out: Applied) -> Outcome:
    """Accept a new job; answer a repeated one as before, with its result if it has one."""
    record = state.jobs.get(command.job_id)
    if record is not None:
        return repeat_submit(state, record, command, out)
    refusal = refuse_submit(
        state, command.client_id, command.queue, command.exec_name, command.options
    ) or refuse_job(state, command.job_id, command.body)
    if refusal is None and (command.blobs or command.caches):
        refusal = refuse_files(state, command.blobs, command.caches)
    if refusal is None and command.key:
        refusal = refuse_key(command.key)
    if refusal is not None:
        return refusal
    if len(state.jobs) >= JOBS_MAX:
        return JOBS_FULL
    options = share_options(state, command.options)
    record = JobRecord(
        command.job_id,
        admit_client(state, command.client_id),
        admit_queue(state, command.queue).name,
        intern(command.exec_name),
        state.bodies.keep(command.body),
        options,
        DELAYED if options.delay_ms else QUEUED,
        next_seq(state),
        out.stamp_ms,
        0,
        options.delay_ms,
        past=past_with(command.blobs, command.caches),
        key=command.key,
    )
    accept(state, record, command.body, out)
    return DONE_ONE


def repeat_submit(state: GridState, record: JobRecord, command: SubmitJob, out: Applied) -> Outcome:
    """Answer a submit whose id is taken."""
    if not is_same_job(state, record, command.client_id, command, command):
        return Refused(ErrorCode.JOB_CONFLICT, "the id names another job", command.job_id)
    if record.end is None:
        return KNOWN_OPEN
    out.effects.append(result_of(record, record.end))
    return KNOWN_ENDED


def is_same_job(
    state: GridState,
    record: JobRecord,
    client_id: ClientId,
    shared: SubmitJob | SubmitBulk | StagedGroup,
    own: SubmitJob | BulkItem,
) -> bool:
    """Whether a submit of this client with the id of this record means this job: by what it shares
    with others, and by what is its own."""
    return (
        record.array is None
        and record.client.client_id == client_id
        and record.key == own.key
        and record.queue == shared.queue
        and record.exec_name == shared.exec_name
        and record.options == (shared.options or DEFAULT_OPTIONS)
        and submitted_crc(state, record) == files_crc(crc32(own.body), own.blobs, shared.caches)
    )


def accept(state: GridState, record: JobRecord, body: bytes, out: Applied) -> None:
    """Take a new job, into its queue or aside until its delay is over."""
    put_job(state, record)
    out.events.append(
        Event(
            JOB_DELAYED if record.delay_ms else JOB_ENQUEUED,
            record.job_id,
            record.client.client_id,
            record.queue,
            record.exec_name,
            priority=record.options.priority,
            delay_ms=record.delay_ms,
            body_bytes=len(body),
            blob_bytes=0 if record.past is None else blob_bytes(record.past.blobs),
            job_key=record.key,
            request=kept_of(body),
        )
    )


def submit_bulk(state: GridState, command: SubmitBulk, out: Applied) -> Outcome:
    """Accept many jobs, all or none."""
    batch_key = (command.client_id, command.batch_key)
    fingerprint = b""
    if command.batch_key:
        if is_long(command.batch_key, BATCH_KEY_BYTES_MAX):
            return refused_bounds("batch_key is too long")
        fingerprint = fingerprint_of(command)
        batch = state.batches.get(batch_key)
        if batch is not None:
            if batch.fingerprint == fingerprint:
                return KNOWN_OPEN
            return Refused(ErrorCode.BATCH_CONFLICT, "the batch key names another batch")
    checked = check_bulk(state, command)
    if isinstance(checked, Refused):
        return checked
    if checked:
        client = admit_client(state, command.client_id)
        create_jobs(state, client, command, checked.values(), out)
    if command.batch_key:
        state.batches[batch_key] = BatchRecord(fingerprint, len(checked))
        if len(state.batches) > BATCHES_KEPT_MAX:
            state.batches.popitem(last=False)
    return Done(len(checked)) if checked else KNOWN_OPEN


def fingerprint_of(command: SubmitBulk) -> bytes:
    """What tells a batch from another. It is kept, so it must not follow the format: a batch
    without files or keys has the fingerprint that it had before there were any."""
    start: tuple[object, ...] = (_BULK_TAG, command.client_id, command.queue, command.exec_name)
    end: tuple[object, ...] = (command.options, command.batch_key)
    items: list[tuple[object, ...]]
    if any(item.key for item in command.items):
        items = [(item.job_id, item.body, item.blobs, item.key) for item in command.items]
        end += (command.caches,)
    elif command.caches or any(item.blobs for item in command.items):
        items = [(item.job_id, item.body, item.blobs) for item in command.items]
        end += (command.caches,)
    else:
        items = [(item.job_id, item.body) for item in command.items]
    data = _encoder.encode((*start, items, *end))
    return blake2b(data, digest_size=HASH_BYTES).digest()


def check_bulk(state: GridState, command: SubmitBulk) -> dict[JobId, BulkItem] | Refused:
    """The items that are new, or why none may be taken."""
    if len(command.items) > BULK_JOBS_MAX:
        return refused_bounds(f"more than {BULK_JOBS_MAX} jobs")
    refusal = refuse_submit(
        state, command.client_id, command.queue, command.exec_name, command.options
    ) or refuse_files(state, (), command.caches)
    if refusal is not None:
        return refusal
    sizes: dict[Digest, int] = {}
    new: dict[JobId, BulkItem] = {}
    for item in command.items:
        record = state.jobs.get(item.job_id)
        if record is None:
            refusal = refuse_job(state, item.job_id, item.body)
            if refusal is None and item.blobs:
                refusal = refuse_blobs(state, item.blobs, sizes, BLOBS_PER_JOB_MAX)
            if refusal is None and item.key:
                refusal = refuse_key(item.key)
            if refusal is not None:
                return refusal
            same = new.setdefault(item.job_id, item) == item
        else:
            same = is_same_job(state, record, command.client_id, command, item)
        if not same:
            return Refused(ErrorCode.JOB_CONFLICT, "the id names another job", item.job_id)
    return JOBS_FULL if len(state.jobs) + len(new) > JOBS_MAX else new


def create_jobs(
    state: GridState,
    client: ClientRecord,
    shared: SubmitBulk | StagedGroup,
    items: Iterable[BulkItem],
    out: Applied,
) -> int:
    """Make a job of each item, which has the rest from what they share; how many there are now."""
    queue = admit_queue(state, shared.queue).name
    exec_name = intern(shared.exec_name)
    options = share_options(state, shared.options)
    delay_ms = options.delay_ms
    entered = DELAYED if delay_ms else QUEUED
    keep = state.bodies.keep
    caches = shared.caches
    count = 0
    for item in items:
        record = JobRecord(
            item.job_id,
            client,
            queue,
            exec_name,
            keep(item.body),
            options,
            entered,
            next_seq(state),
            out.stamp_ms,
            0,
            delay_ms,
            key=item.key,
        )
        if item.blobs or caches:
            record.past = past_with(item.blobs, caches)
        accept(state, record, item.body, out)
        count += 1
    return count
