"""Unpacking: jobs of a committed batch get their records, one message at a time.

The jobs were accepted by the commit, so nothing here refuses: table limits were checked then, and
may be exceeded by what was accepted since.
"""

from __future__ import annotations

from collections.abc import Iterator

from rollq.base.jobs import BulkItem
from rollq.base.staged import SAME_BODY, StagedGroup, bodies_of, ids_of, items_of
from rollq.grid.batches import unlist_batch
from rollq.grid.chunks import drop_chunk, groups_of
from rollq.grid.commands import RedriveItem, UnpackBatch
from rollq.grid.effects import Applied, Done, Outcome
from rollq.grid.jobs import redrive_job
from rollq.grid.moves import disown
from rollq.grid.outcomes import DONE_NONE
from rollq.grid.state import CommittedBatch, GridState
from rollq.grid.submits import create_jobs


def unpack_batch(state: GridState, command: UnpackBatch, out: Applied) -> Outcome:
    """Create the jobs of the next message of a batch; nothing if that was done before."""
    name = (command.client_id, command.batch_key)
    batch = state.committed.get(name)
    if batch is None or batch.position != command.position:
        return DONE_NONE
    chunk = batch.chunks.popleft()
    batch.position += 1
    batch.left -= chunk.count
    put = _redrive if chunk.redrives else _create
    count = sum(put(state, batch, group, out) for group in groups_of(state, chunk))
    drop_chunk(state, chunk, command.client_id)
    if not batch.chunks:
        del state.committed[name]
        unlist_batch(state, name)
        disown(state, batch.client)
    return Done(count)


def _create(state: GridState, batch: CommittedBatch, group: StagedGroup, out: Applied) -> int:
    return create_jobs(state, batch.client, group, items=_new_items(state, batch, group), out=out)


def _new_items(state: GridState, batch: CommittedBatch, group: StagedGroup) -> Iterator[BulkItem]:
    """The items without a record yet; their ids are reserved no more."""
    known, reserved = batch.known, state.reserved
    for item in items_of(group):
        if item.job_id not in known:
            del reserved[item.job_id]
            yield item


def _redrive(state: GridState, batch: CommittedBatch, group: StagedGroup, out: Applied) -> int:
    columns = zip(ids_of(group.job_ids), bodies_of(group), group.sizes, strict=True)
    for job_id, body, size in columns:
        del state.reserved[job_id]
        item = RedriveItem(job_id, None if size == SAME_BODY else body)
        redrive_job(state, state.jobs[job_id], item, by=batch.client.client_id, out=out)
    return len(group.sizes)
