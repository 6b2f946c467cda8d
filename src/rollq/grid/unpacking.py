"""From a committed batch into the queues, a message at a time.

The jobs were accepted by the commit, so nothing here refuses: limits of tables were checked then,
and may be passed by as much as was accepted since.
"""

from __future__ import annotations

from itertools import repeat
from sys import intern

from rollq.base.staged import SAME_BODY, StagedGroup, bodies_of, ids_of, keys_of
from rollq.grid.admission import admit_queue, share_options
from rollq.grid.chunks import drop_chunk, groups_of
from rollq.grid.commands import RedriveItem, UnpackBatch
from rollq.grid.effects import Applied, Done, Outcome
from rollq.grid.jobs import redrive_job
from rollq.grid.moves import disown, maybe_drop_queue, next_seq
from rollq.grid.outcomes import DONE_NONE
from rollq.grid.refs import past_with
from rollq.grid.state import DELAYED, QUEUED, CommittedBatch, GridState, JobRecord
from rollq.grid.submits import accept


def unpack_batch(state: GridState, command: UnpackBatch, out: Applied) -> Outcome:
    """Make jobs of the next message of a batch; nothing if that was done before."""
    name = (command.client_id, command.batch_key)
    batch = state.committed.get(name)
    if batch is None or batch.position != command.position:
        return DONE_NONE
    chunk = batch.chunks.popleft()
    batch.position += 1
    put = _redrive if chunk.redrives else _create
    count = sum(put(state, batch, group, out) for group in groups_of(state, chunk))
    drop_chunk(state, chunk)
    if not batch.chunks:
        del state.committed[name]
        disown(state, batch.client)
    return Done(count)


def _create(state: GridState, batch: CommittedBatch, group: StagedGroup, out: Applied) -> int:
    client, known, caches = batch.client, batch.known, group.caches
    queue = admit_queue(state, group.queue).name
    exec_name = intern(group.exec_name)
    options = share_options(state, group.options)
    delay_ms = options.delay_ms
    entered = DELAYED if delay_ms else QUEUED
    keep = state.bodies.keep
    count = 0
    columns = zip(
        ids_of(group.job_ids),
        bodies_of(group),
        group.sizes,
        keys_of(group),
        group.blobs or repeat(()),
        strict=False,
    )
    for job_id, body, size, key, blobs in columns:
        if job_id in known:
            continue
        del state.reserved[job_id]
        record = JobRecord(
            job_id,
            client,
            queue,
            exec_name,
            keep(body),
            options,
            entered,
            next_seq(state),
            out.stamp_ms,
            0,
            delay_ms,
            key=key,
        )
        if blobs or caches:
            record.past = past_with(blobs, caches)
        accept(state, record, size, out)
        count += 1
    maybe_drop_queue(state, queue)  # if all were known, nobody may be in it
    return count


def _redrive(state: GridState, batch: CommittedBatch, group: StagedGroup, out: Applied) -> int:
    columns = zip(ids_of(group.job_ids), bodies_of(group), group.sizes, strict=True)
    for job_id, body, size in columns:
        del state.reserved[job_id]
        item = RedriveItem(job_id, None if size == SAME_BODY else body)
        redrive_job(state, state.jobs[job_id], item, batch.client.client_id, out)
    return len(group.sizes)
