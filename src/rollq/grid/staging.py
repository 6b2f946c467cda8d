"""Handlers of staged batches: jobs that are sent in advance, invisible, and accepted all or none by
one entry.

A message of a part is stored packed: its jobs are not examined before the commit, and get records
only by `unpacking`, in steps. The commit is the acceptance: it checks everything that could refuse
any of its jobs, and reserves their ids until they have records.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Final

from rollq.base.errors import ErrorCode
from rollq.base.ids import ClientId, JobId, guid_to_text
from rollq.base.limits import (
    BATCH_KEY_BYTES_MAX,
)
from rollq.base.staged import StagedPart, chunk_crc, ids_of, keys_of, part_crc
from rollq.grid.admission import (
    admit_client,
    is_long,
    refuse_client,
    refuse_task_id,
    refused_bounds,
)
from rollq.grid.batches import list_batch, remember_batch, unlist_batch
from rollq.grid.chunks import drop_chunk, groups_of, keep_chunk, other_job, refuse_groups
from rollq.grid.commands import CommitBatch, DropBatches, StageJobs
from rollq.grid.edge_records import Ending
from rollq.grid.edges import ending_of, refused_parent
from rollq.grid.effects import Applied, Done, Duplicate, Outcome, Refused
from rollq.grid.events import BATCH_COMMITTED, BATCH_DROPPED, Event, asked_by
from rollq.grid.moves import own
from rollq.grid.outcomes import BATCHES_FULL, BEING_UNPACKED, DUPLICATE_OPEN, JOBS_FULL
from rollq.grid.state import (
    DEAD,
    BatchRecord,
    CommittedBatch,
    GridState,
    StagedBatch,
    StagedChunk,
)

STAGED: Final = b"staged"  # in place of a fingerprint: the key alone identifies the batch


def stage_jobs(state: GridState, command: StageJobs, out: Applied) -> Outcome:
    """Store a message of a part."""
    name = (command.client_id, command.batch_key)
    settled = settled_before(state, name)
    if settled is not None:
        return settled
    refusal = refuse_stage(state, command) or refuse_groups(state, command.groups)
    if refusal is not None:
        return refusal
    batch = state.staged.get(name)
    chunks = {} if batch is None else batch.parts.get(command.part, {})
    crc = chunk_crc(command.groups)
    known = chunks.get(command.number)
    if known is not None:
        if known.crc == crc:
            return DUPLICATE_OPEN
        return Refused(
            ErrorCode.BATCH_CONFLICT,
            f"part {command.part!r} of the batch holds other jobs",
        )
    count = sum(len(group.sizes) for group in command.groups)
    if command.jobs_max and count + (0 if batch is None else batch.count) > command.jobs_max:
        return Refused(ErrorCode.BATCH_FULL, f"more than {command.jobs_max} jobs in a batch")
    bounds = state.bounds
    if state.staged_count + count > bounds.staged_jobs or state.staged_bytes > bounds.staged_bytes:
        return BATCHES_FULL
    if batch is None:
        if len(state.staged) + len(state.committed) >= bounds.staged_batches:
            return BATCHES_FULL
        list_batch(state, name)
        batch = state.staged[name] = StagedBatch(*name, 0, {}, 0)
    chunks = batch.parts.setdefault(command.part, chunks)
    chunks[command.number] = keep_chunk(state, command.groups, crc, command.client_id)
    batch.count += count
    batch.stamp_ms = out.stamp_ms
    state.staged.move_to_end(name)
    return Done(count)


def settled_before(state: GridState, name: tuple[ClientId, str]) -> Outcome | None:
    """The outcome of commands for a batch that is committed already."""
    batch = state.batches.get(name)
    if batch is not None:
        if batch.fingerprint == STAGED:
            return Duplicate(count=batch.count)
        return Refused(ErrorCode.BATCH_CONFLICT, "the batch key names another batch")
    # A batch that is being unpacked is in `batches`, unless very many followed it.
    return DUPLICATE_OPEN if name in state.committed else None


def refuse_stage(state: GridState, command: StageJobs) -> Refused | None:
    """Why nothing may be staged with these names."""
    refusal = refuse_name(state, command.client_id, command.batch_key)
    if refusal is not None:
        return refusal
    if not command.part or is_long(command.part, BATCH_KEY_BYTES_MAX):
        return refused_bounds("the name of the part is empty or too long")
    if not 0 <= command.number < state.bounds.batch_jobs:
        return refused_bounds("the number of the message is out of bounds")
    batch = state.staged.get((command.client_id, command.batch_key))
    is_new = batch is not None and command.part not in batch.parts
    if batch is not None and is_new and len(batch.parts) >= state.bounds.staged_parts:
        return refused_bounds(f"more than {state.bounds.staged_parts} parts")
    return None


def refuse_name(state: GridState, client_id: ClientId, batch_key: str) -> Refused | None:
    """Why there may be no batch of this client and key."""
    if not batch_key or is_long(batch_key, BATCH_KEY_BYTES_MAX):
        return refused_bounds("batch_key is empty or too long")
    return None if client_id in state.clients else refuse_client(state, client_id)


def commit_batch(state: GridState, command: CommitBatch, out: Applied) -> Outcome:
    """Accept all jobs of the named parts, or none."""
    name = (command.client_id, command.batch_key)
    settled = settled_before(state, name)
    if settled is not None:
        return settled
    refusal = refuse_name(state, *name)
    if refusal is not None:
        return refusal
    batch = state.staged.get(name)
    chunks = chunks_named({} if batch is None else batch.parts, command.parts)
    if isinstance(chunks, Refused):
        return chunks
    checked = check_jobs(state, command, chunks)
    if isinstance(checked, Refused):
        return checked
    accepted, known = checked
    count = len(accepted) + len(known)
    list_batch(state, name)
    if batch is not None:
        del state.staged[name]
        named = {part.part for part in command.parts}
        for part, others in batch.parts.items():
            if part not in named:
                drop_chunks(state, others.values(), command.client_id)
    if chunks:
        client = admit_client(state, command.client_id)
        own(state, client)
        state.committed[name] = CommittedBatch(
            *(client, command.batch_key),
            chunks=deque(chunks),
            known=known,
            stamp_ms=out.stamp_ms,
            left=count,
        )
        state.reserved.update(accepted)
    remember_batch(state, name, BatchRecord(STAGED, count))
    out.events.append(
        Event(BATCH_COMMITTED, b"", command.client_id, count=count, detail=command.batch_key)
    )
    return Done(count)


def chunks_named(
    parts: dict[str, dict[int, StagedChunk]], wanted: tuple[StagedPart, ...]
) -> list[StagedChunk] | Refused:
    """The messages of these parts in order, if all of them are present as sent."""
    chunks: list[StagedChunk] = []
    seen: dict[str, None] = {}
    for part in wanted:
        staged = parts.get(part.part, {})
        ordered = [staged[number] for number in sorted(staged)]
        count = sum(chunk.count for chunk in ordered)
        if part.part in seen:
            return incomplete(part, "is named twice")
        if count != part.count or (staged and max(staged) != len(staged) - 1):
            return incomplete(part, f"has {count} of {part.count} jobs")
        if part_crc(chunk.crc for chunk in ordered) != part.crc:
            return incomplete(part, "holds other jobs than were staged")
        seen[part.part] = None
        chunks += ordered
    return chunks


def incomplete(part: StagedPart, what: str) -> Refused:
    """The refusal of a commit that names missing parts."""
    return Refused(ErrorCode.BATCH_INCOMPLETE, f"part {part.part[:64]!r} {what}")


def check_jobs(
    state: GridState, command: CommitBatch, chunks: list[StagedChunk]
) -> tuple[dict[JobId, None], dict[JobId, None]] | Refused:
    """The jobs to accept and those that exist already, or why none may be accepted."""
    count = sum(chunk.count for chunk in chunks)
    if count > state.bounds.batch_jobs:
        return refused_bounds(f"more than {state.bounds.batch_jobs} jobs in a batch")
    new = dict.fromkeys(all_ids(chunk for chunk in chunks if not chunk.redrives))
    again = dict.fromkeys(all_ids(chunk for chunk in chunks if chunk.redrives))
    if len(new) + len(again) != count or not again.keys().isdisjoint(new.keys()):
        return named_twice(state, command.parts, chunks)
    reserved = state.reserved.keys()
    if not reserved.isdisjoint(new.keys()) or not reserved.isdisjoint(again.keys()):
        return BEING_UNPACKED
    known: dict[JobId, None] = {}
    if not state.jobs.keys().isdisjoint(new.keys()):
        known = {job_id: None for job_id in new if job_id in state.jobs}
        other, why = another_job(state, command.client_id, chunks, known)
        if why:
            return refused_job(why, other)
        for job_id in known:
            del new[job_id]
    if len(state.jobs) + len(state.reserved) + len(new) > state.bounds.jobs:
        return JOBS_FULL
    refusal = (
        refuse_task_ids(state, new) or refuse_redrives(state, again) or refuse_order(state, chunks)
    )
    new.update(again)
    return refusal or (new, known)


def all_ids(chunks: Iterable[StagedChunk]) -> Iterator[JobId]:
    """The ids in messages."""
    return chain.from_iterable(ids_of(chunk.job_ids) for chunk in chunks)


def refuse_task_ids(state: GridState, new: dict[JobId, None]) -> Refused | None:
    """Why no jobs may have these ids: some belong to tasks."""
    if state.arrays:
        for job_id in new:
            refusal = refuse_task_id(state, job_id)
            if refusal is not None:
                return refusal
    return None


def refuse_order(state: GridState, chunks: list[StagedChunk]) -> Refused | None:
    """Why jobs may not wait for their parents: a parent neither exists nor precedes them in the
    batch. So jobs of a batch never wait for each other in a cycle."""
    if not any(chunk.parents for chunk in chunks):
        return None
    before: dict[JobId, None] = {}
    for chunk in chunks:
        for job_id in ids_of(chunk.parents):
            if job_id not in before and ending_of(state, job_id) is Ending.UNKNOWN:
                why = "no such job to wait for: it is neither known nor earlier in the batch"
                return refused_parent(why, job_id)
        before.update(dict.fromkeys(ids_of(chunk.job_ids)))
    return None


def refuse_redrives(state: GridState, again: dict[JobId, None]) -> Refused | None:
    """Why these jobs may not be redriven."""
    for job_id in again:
        record = state.jobs.get(job_id)
        if record is None:
            return refused_job("no such job", job_id, ErrorCode.UNKNOWN_JOB)
        if record.state is not DEAD:
            return refused_job("the job is not dead", job_id, ErrorCode.WRONG_STATE)
    return None


def named_twice(
    state: GridState, parts: tuple[StagedPart, ...], chunks: list[StagedChunk]
) -> Refused:
    """The refusal of a batch that names a job more than once, with its place."""
    seen: dict[JobId, int] = {}
    for number, job_id in enumerate(all_ids(chunks)):
        first = seen.setdefault(job_id, number)
        if first != number:
            where = " and ".join(place_in(parts, one) for one in (first, number))
            key = key_in(state, chunks, job_id)
            return refused_job(f"the batch names this job twice{key}: {where}", job_id)
    raise AssertionError("no job is named twice")


def place_in(parts: tuple[StagedPart, ...], number: int) -> str:
    """The position of the job with this number in the parts of a batch, for people."""
    for part in parts:
        if number < part.count:
            return f"job {number + 1} of part {part.part[:64]!r}"
        number -= part.count
    return ""


def key_in(state: GridState, chunks: list[StagedChunk], job_id: JobId) -> str:
    """The key of a job in these messages, for people; empty if it has none."""
    for chunk in chunks:
        if job_id in ids_of(chunk.job_ids):
            for group in groups_of(state, chunk):
                ids = list(ids_of(group.job_ids))
                if job_id in ids and group.keys:
                    return f" (job_key {keys_of(group)[ids.index(job_id)]!r})"
    return ""


def another_job(
    state: GridState, client_id: ClientId, chunks: list[StagedChunk], known: dict[JobId, None]
) -> tuple[JobId, str]:
    """The first of these existing ids whose job differs from the staged one, and what differs;
    empty: there is none."""
    for chunk in chunks:
        if not chunk.redrives and not known.keys().isdisjoint(ids_of(chunk.job_ids)):
            job_id, why = other_job(state, client_id, chunk)
            if why:
                return job_id, why
    return b"", ""


def refused_job(message: str, job_id: JobId, code: ErrorCode = ErrorCode.JOB_CONFLICT) -> Refused:
    """The refusal of a commit because of one job."""
    return Refused(code, f"{guid_to_text(job_id)}: {message}", job_id)


def drop_batches(state: GridState, command: DropBatches, out: Applied) -> Outcome:
    """Delete staged jobs; a committed batch is not affected."""
    dropped = 0
    for name in command.batches:
        batch = state.staged.pop((name.client_id, name.batch_key), None)
        if batch is None:
            continue
        unlist_batch(state, (name.client_id, name.batch_key))
        dropped += 1
        count = 0
        for chunks in batch.parts.values():
            count += sum(chunk.count for chunk in chunks.values())
            drop_chunks(state, chunks.values(), batch.client_id)
        detail = f"{batch.batch_key} {command.by}".rstrip()
        out.events.append(
            Event(
                BATCH_DROPPED,
                client_id=batch.client_id,
                count=count,
                detail=detail,
                access=asked_by(command.by),
            )
        )
    return Done(dropped)


def drop_chunks(state: GridState, chunks: Iterable[StagedChunk], client_id: ClientId) -> None:
    """Delete messages whose jobs will never be accepted."""
    for chunk in chunks:
        drop_chunk(state, chunk, client_id)
