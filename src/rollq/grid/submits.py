"""Handlers that accept jobs, each exactly once: runs, and bulks, which are all or none. Arrays are
in `arrays`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from hashlib import blake2b
from itertools import islice, repeat
from sys import intern
from typing import NamedTuple

import msgspec

from rollq.base.digests import Digest
from rollq.base.errors import ErrorCode
from rollq.base.ids import GUID_BYTES, JobId
from rollq.base.jobs import BlobRef, BulkItem, JobOptions
from rollq.base.limits import (
    BATCH_KEY_BYTES_MAX,
    BLOBS_PER_JOB_MAX,
    INLINE_BYTES_MAX,
    JOB_KEY_BYTES_MAX,
    RUN_JOBS_MAX,
)
from rollq.base.requests import all_kept, kept_of
from rollq.base.staged import KEY_END, StagedGroup
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
from rollq.grid.batches import list_batch, remember_batch
from rollq.grid.commands import SubmitBulk, SubmitJob, SubmitRun
from rollq.grid.edges import (
    edges_of,
    judged,
    link,
    open_edges,
    refuse_parents,
)
from rollq.grid.effects import Applied, Done, Duplicate, Outcome, Refused, RunDone
from rollq.grid.events import (
    JOB_BLOCKED,
    JOB_DELAYED,
    JOB_ENQUEUED,
    Event,
    Run,
)
from rollq.grid.facts import column_of, keys_of, result_of
from rollq.grid.moves import next_seq, own, put_job
from rollq.grid.outcomes import DUPLICATE_ENDED, DUPLICATE_OPEN, JOBS_FULL
from rollq.grid.refs import (
    blob_bytes,
    hold_files,
    past_with,
    refuse_blobs,
    refuse_files,
)
from rollq.grid.repeats import named_by_two, why_another
from rollq.grid.runs import (
    DONE_RUN_OF_ONE,
    Others,
    alone,
    has_twice,
    ids_in,
    keys_in,
    refuse_columns,
    refuse_run,
    run_done,
)
from rollq.grid.state import (
    BLOCKED,
    DELAYED,
    HASH_BYTES,
    PREFIX_BYTES,
    QUEUED,
    BatchRecord,
    ClientRecord,
    GridState,
    JobRecord,
)

KINDS = {QUEUED: JOB_ENQUEUED, DELAYED: JOB_DELAYED, BLOCKED: JOB_BLOCKED}
_encoder = msgspec.msgpack.Encoder()
_BULK_TAG = 2  # tag of the command, before its fields
# Fields added to options later, oldest first.
_LATER_FIELDS = [
    JobOptions.__struct_fields__.index(name) for name in ("secrets", "resources", "after")
]


def submit_run(state: GridState, command: SubmitRun, out: Applied) -> Outcome:
    """Accept the new jobs of a run; repeated ones get their earlier outcome."""
    if len(command.job_ids) == GUID_BYTES and len(command.bodies) == 1:
        return submit_lone(state, command, out)
    keys = keys_in(command.keys)
    refusal = refuse_run(command.job_ids, command.bodies) or refuse_columns(
        len(command.bodies), keys, command.blobs
    )
    if refusal is not None:
        return refusal
    job_ids = ids_in(command.job_ids)
    if not is_plain(state, command, job_ids, keys):
        return submit_each(state, command, job_ids, keys, out)
    refusal = refuse_shared(state, command)
    if refusal is not None:
        return refusal
    new = JobColumns(job_ids, command.bodies, keys)
    accept(state, admit_client(state, command.client_id), command, new, out)
    return run_done(len(job_ids), [])


def is_plain(
    state: GridState, command: SubmitRun, job_ids: Sequence[JobId], keys: Sequence[str]
) -> bool:
    """Whether no job of a run needs individual checks: all ids are new and free, bodies and keys
    are within bounds, and no job has blobs."""
    return (
        state.jobs.keys().isdisjoint(job_ids)
        and not command.blobs
        and (len(job_ids) == 1 or not has_twice(job_ids))
        and max(map(len, command.bodies)) <= INLINE_BYTES_MAX
        and (not keys or 4 * max(map(len, keys)) <= JOB_KEY_BYTES_MAX)
        and (not state.reserved or state.reserved.keys().isdisjoint(job_ids))
        and (
            not state.arrays
            or state.arrays.keys().isdisjoint([job_id[:PREFIX_BYTES] for job_id in job_ids])
        )
        and len(state.jobs) + len(job_ids) <= state.bounds.jobs
    )


def submit_each(
    state: GridState,
    command: SubmitRun,
    job_ids: Sequence[JobId],
    keys: Sequence[str],
    out: Applied,
) -> Outcome:
    """Accept the jobs of a run one by one."""
    others: Others = []
    blobs_of, key_of = command.blobs or repeat(()), keys or repeat("")
    columns = zip(job_ids, command.bodies, blobs_of, key_of, strict=False)
    for position, (job_id, body, blobs, key) in enumerate(columns):
        own = blobs, key
        other = submit_one(state, command, job_id, body, out, own=own)
        if other is not None:
            others.append((position, other))
    return run_done(len(job_ids), others)


def submit_lone(state: GridState, command: SubmitRun, out: Applied) -> Outcome:
    """Accept a run of one, which needs no columns."""
    if len(command.blobs) > 1 or KEY_END in command.keys:
        return refused_bounds("a column has not one value a job")
    other = submit_one(state, command, command.job_ids, command.bodies[0], out)
    return DONE_RUN_OF_ONE if other is None else RunDone(0, ((0, other),))


def submit_one(
    state: GridState,
    command: SubmitRun,
    job_id: JobId,
    body: bytes,
    out: Applied,
    *,
    own: tuple[tuple[BlobRef, ...], str] | None = None,
) -> Duplicate | Refused | None:
    """Accept one job of a run, with its own blobs and key (None: of a run of one); None if it is
    accepted. As `accept` for columns, inlined for one job, which saves a third of the time."""
    blobs, key = own or (command.blobs[0] if command.blobs else (), command.keys)
    record = state.jobs.get(job_id)
    if record is not None:
        return repeat_submit(state, record, command, BulkItem(job_id, body, blobs, key), out)
    refusal = refuse_shared(state, command) or refuse_job(state, job_id, body)
    if refusal is None and blobs:
        refusal = refuse_blobs(state, blobs, {}, BLOBS_PER_JOB_MAX)
    if refusal is None and key:
        refusal = refuse_key(key)
    if refusal is not None:
        return refusal
    if len(state.jobs) >= state.bounds.jobs:
        return JOBS_FULL
    if command.options is not None and command.options.after:
        columns = JobColumns((job_id,), (body,), (key,), (blobs,))
        accept(state, admit_client(state, command.client_id), command, columns, out)
        return None
    options = share_options(state, command.options)
    record = JobRecord(
        job_id,
        admit_client(state, command.client_id),
        admit_queue(state, command.queue).name,
        intern(command.exec_name),
        state.bodies.keep(body),
        options,
        DELAYED if options.delay_ms else QUEUED,
        next_seq(state),
        out.stamp_ms,
        0,
        options.delay_ms,
        past=past_with(blobs, command.caches),
        key=key,
    )
    put_job(state, record)
    out.events.append(
        Event(
            JOB_DELAYED if record.delay_ms else JOB_ENQUEUED,
            job_id,
            record.client.client_id,
            record.queue,
            record.exec_name,
            priority=options.priority,
            delay_ms=record.delay_ms,
            body_bytes=len(body),
            blob_bytes=blob_bytes(blobs) if blobs else 0,
            job_key=key,
            request=kept_of(body),
        )
    )
    return None


def refuse_shared(state: GridState, command: SubmitRun | SubmitBulk) -> Refused | None:
    """Why no job may be submitted with these shared fields."""
    options = command.options
    refusal = refuse_submit(state, command.client_id, command.queue, command.exec_name, options)
    if refusal is None and options is not None and options.after:
        refusal = refuse_parents(state, options.after)
    return refusal or (refuse_files(state, (), command.caches) if command.caches else None)


def submit_job(state: GridState, command: SubmitJob, out: Applied) -> Outcome:
    """As a run of one; written by older leaders."""
    run = SubmitRun(
        command.client_id,
        command.queue,
        command.exec_name,
        command.job_id,
        (command.body,),
        command.options,
        command.caches,
        command.key,
        (command.blobs,) if command.blobs else (),
    )
    refusal = refuse_key(command.key) if KEY_END in command.key else None
    if len(command.job_id) != GUID_BYTES:
        refusal = refused_bounds("job_id does not have 16 bytes")
    if refusal is not None:
        return refuse_shared(state, run) or refusal
    return alone(submit_run(state, run, out))


def repeat_submit(
    state: GridState, record: JobRecord, command: SubmitRun, item: BulkItem, out: Applied
) -> Duplicate | Refused:
    """The outcome of a submit whose id exists."""
    why = why_another(state, record, command.client_id, command, item)
    if why:
        return Refused(ErrorCode.JOB_CONFLICT, why, item.job_id)
    if record.end is None:
        return DUPLICATE_OPEN
    out.effects.append(result_of(record, record.end))
    return DUPLICATE_ENDED


class JobColumns(NamedTuple):
    """The fields that differ between new jobs. An empty column: the default for all."""

    job_ids: Sequence[JobId]
    bodies: Sequence[bytes]
    keys: Sequence[str] = ()
    blobs: Sequence[tuple[BlobRef, ...]] = ()


def accept(
    state: GridState,
    client: ClientRecord,
    shared: SubmitRun | SubmitBulk | StagedGroup,
    columns: JobColumns,
    out: Applied,
) -> None:
    """Create new jobs: queued, or waiting for their parents or their delay."""
    job_ids, bodies, keys, blobs = columns
    queue = admit_queue(state, shared.queue)
    name, exec_name = queue.name, intern(shared.exec_name)
    options = share_options(state, shared.options)
    after = () if shared.options is None else shared.options.after
    edges = judged(state, after) if after else b""
    is_blocked = open_edges(edges) > 0
    delay_ms, stamp_ms = 0 if is_blocked else options.delay_ms, out.stamp_ms
    entered = BLOCKED if is_blocked else DELAYED if delay_ms else QUEUED
    count, first = len(job_ids), state.last_seq + 1
    state.last_seq += count
    records = [
        JobRecord(
            job_id, client, name, exec_name, body, options, entered, seq, stamp_ms, 0, delay_ms
        )
        for job_id, body, seq in zip(
            job_ids, state.bodies.keep_all(bodies), range(first, first + count), strict=True
        )
    ]
    if any(keys):
        for record, key in zip(records, keys, strict=True):
            record.key = key
    if shared.caches or any(blobs):
        for record, needed in zip(records, blobs or repeat((), count), strict=True):
            past = record.past = past_with(needed, shared.caches)
            if past is not None:
                hold_files(state, past, client.client_id)
    state.jobs.update(zip(job_ids, records, strict=True))
    state.job_index.fresh += records
    queue.counts[entered] += count
    own(state, client, count)
    out.events.append(accepted(KINDS[entered], records, bodies, blobs))
    if edges:
        out.events[-1] = msgspec.structs.replace(out.events[-1], parents=edges_of(after))
        link(state, records, edges)


def accepted(
    kind: str,
    records: Sequence[JobRecord],
    bodies: Sequence[bytes],
    blobs: Sequence[tuple[BlobRef, ...]],
) -> Event:
    """The event that these equal jobs were accepted."""
    record, requests = records[0], all_kept(bodies)
    event = Event(
        kind,
        record.job_id,
        record.client.client_id,
        record.queue,
        record.exec_name,
        priority=record.options.priority,
        delay_ms=record.delay_ms,
        body_bytes=len(bodies[0]),
        blob_bytes=blob_bytes(blobs[0]) if blobs else 0,
        job_key=record.key,
        request=requests[0],
    )
    if len(records) == 1:
        return event
    return msgspec.structs.replace(
        event,
        job_id=b"",
        run=Run(
            b"".join([record.job_id for record in records]),
            body_bytes=column_of([len(body) for body in bodies]),
            blob_bytes=column_of([blob_bytes(refs) for refs in blobs]),
            keys=keys_of(records),
            requests=column_of(requests),
        ),
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
                return DUPLICATE_OPEN
            return Refused(ErrorCode.BATCH_CONFLICT, "the batch key names another batch")
    checked = check_bulk(state, command)
    if isinstance(checked, Refused):
        return checked
    if checked:
        client = admit_client(state, command.client_id)
        create_jobs(state, client, command, checked.values(), out)
    if command.batch_key:
        list_batch(state, batch_key)
        remember_batch(state, batch_key, BatchRecord(fingerprint, len(checked)))
    return Done(len(checked)) if checked else DUPLICATE_OPEN


def fingerprint_of(command: SubmitBulk) -> bytes:
    """The fingerprint of a batch. It is stored, so it must not change with the format: a batch
    without files or keys has the same fingerprint as before those existed."""
    start: tuple[object, ...] = (_BULK_TAG, command.client_id, command.queue, command.exec_name)
    end: tuple[object, ...] = (_fields_said(command.options), command.batch_key)
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


def _fields_said(options: JobOptions | None) -> tuple[object, ...] | None:
    """Options without later fields that have their defaults."""
    if options is None:
        return None
    fields = msgspec.structs.astuple(options)
    return next((fields[:at] for at in _LATER_FIELDS if not any(fields[at:])), fields)


def check_bulk(state: GridState, command: SubmitBulk) -> dict[JobId, BulkItem] | Refused:
    """The items that are new, or why none may be accepted."""
    if len(command.items) > state.bounds.bulk_jobs:
        return refused_bounds(f"more than {state.bounds.bulk_jobs} jobs")
    refusal = refuse_shared(state, command)
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
            if new.setdefault(item.job_id, item) != item:
                return named_by_two(item)
            continue
        why = why_another(state, record, command.client_id, command, item)
        if why:
            return Refused(ErrorCode.JOB_CONFLICT, why, item.job_id)
    return JOBS_FULL if len(state.jobs) + len(new) > state.bounds.jobs else new


def create_jobs(
    state: GridState,
    client: ClientRecord,
    shared: SubmitBulk | StagedGroup,
    items: Iterable[BulkItem],
    out: Applied,
) -> int:
    """Create a job for each item with the shared fields; returns the number of jobs."""
    count = 0
    left = iter(items)
    while part := list(islice(left, RUN_JOBS_MAX)):
        columns = JobColumns(*zip(*[(i.job_id, i.body, i.key, i.blobs) for i in part], strict=True))
        accept(state, client, shared, columns, out)
        count += len(part)
    return count
