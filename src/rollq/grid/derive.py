"""Rebuilds the derived fields of a state: counts, indexes, references.

A state read from a snapshot gets its derived fields here, and `invariants` compares a live state
with the result. Orders must equal those of a live state: held jobs by fence, open tasks by seq,
owed and dead ends by end seq, confirmed ones by confirmed seq.
"""

from __future__ import annotations

from operator import attrgetter, itemgetter
from typing import TypeVar

from rollq.base.ids import JobId
from rollq.base.jobs import Status
from rollq.grid.admission import admit_queue
from rollq.grid.key_index import KeyIndex
from rollq.grid.limits import count_tokens
from rollq.grid.refs import hold_blobs, hold_files
from rollq.grid.seq_index import SeqIndex
from rollq.grid.state import ASSIGNED, DEAD, DONE, CacheHolder, ClientRecord, GridState, JobRecord
from rollq.grid.tasks import count_cut

Key = TypeVar("Key")


def derive(state: GridState, records: list[JobRecord]) -> None:
    """Set the derived fields of a state that has only its persisted ones.

    Args:
        state: the state as read.
        records: its jobs by seq, without those of crowds, which are counted already.
    """
    assigned: list[JobRecord] = []
    dead: list[tuple[int, JobId]] = []
    confirmed: list[tuple[int, JobId]] = []
    owed: list[tuple[int, ClientRecord, JobId]] = []
    for cache in state.caches.values():
        hold_blobs(state, (entry.blob for entry in cache.entries), CacheHolder(cache.cache_id))
    for array in state.arrays.values():
        array.client.record_count += 1
        if array.needs_files:
            hold_files(state, array, array.client.client_id)
        if array.cut_seq:
            owed.append((array.cut_seq, array.client, array.first_cut_id))
        if array.cut_at < array.task_count:
            count_cut(state, array)
        if array.tasks_waiting:
            admit_queue(state, array.queue).tasks_waiting += array.tasks_waiting
    for record in records:
        admit_queue(state, record.queue).counts[record.state] += 1
        record.client.record_count += 1
        if record.past is not None:
            hold_files(state, record.past, record.client.client_id)
        if record.array is not None:
            record.array.record_count += 1
            if record.end is None:
                record.array.open_tasks[record.job_id] = None
        if record.state is ASSIGNED:
            assigned.append(record)
        if record.end is not None:
            hold_blobs(state, record.end.blobs, record.client.client_id)
            if not record.end.confirmed_seq:
                owed.append((record.end.seq, record.client, record.job_id))
            if record.state is DEAD:
                dead.append((record.end.seq, record.job_id))
            if record.state is DONE and record.end.status == Status.FAILED:
                state.queues[record.queue].failed += 1
            if record.end.confirmed_seq and record.state is not DEAD:
                confirmed.append((record.end.confirmed_seq, record.job_id))
    state.job_index.fresh = sorted(state.jobs.values(), key=attrgetter("seq"))
    state.job_index.file_fresh()
    state.array_ids = KeyIndex(array.array_id for array in state.arrays.values())
    state.client_ids = KeyIndex(state.clients)
    state.worker_ids = KeyIndex(state.workers)
    _hold(state, assigned)
    for seq, client, job_id in sorted(owed, key=_first):
        client.owed.add(seq, job_id)
    _fill(state.dead, dead)
    _fill(state.confirmed, confirmed)
    _fill(
        state.idle_clients,
        [(one.idle_seq, one.client_id) for one in state.clients.values() if one.idle_seq],
    )


def _hold(state: GridState, assigned: list[JobRecord]) -> None:
    for record in sorted(assigned, key=attrgetter("fence")):
        state.workers[record.worker_id].held[record.job_id] = None
        record.client.in_flight += 1
        if record.array is not None:
            record.array.running += 1
        count_tokens(state, record)


def _fill(index: SeqIndex[Key], keys: list[tuple[int, Key]]) -> None:
    for seq, key in sorted(keys, key=_first):
        index.add(seq, key)


_first = itemgetter(0)
