"""Rebuilds what follows from the persisted fields: counts, shelves, what is held.

A state that is read from a snapshot gets its derived fields here, and `invariants` compares a live
state with what this finds. Orders must come out as they grew: held jobs by fence, open tasks
by seq, owed and dead ends by end seq, confirmed ones by confirmed seq.
"""

from __future__ import annotations

from operator import attrgetter

from rollq.base.jobs import Status
from rollq.grid.admission import admit_queue
from rollq.grid.state import ASSIGNED, DEAD, DONE, GridState, JobRecord


def derive(state: GridState, records: list[JobRecord]) -> None:
    """Fill the derived fields of a state that has only its persisted ones.

    Args:
        state: what was read.
        records: its jobs by seq, but for those of crowds, which are counted already.
    """
    assigned: list[JobRecord] = []
    ended: list[tuple[int, JobRecord]] = []
    confirmed: list[tuple[int, JobRecord]] = []
    for array in state.arrays.values():
        array.client.record_count += 1
        if array.tasks_waiting:
            admit_queue(state, array.queue).tasks_waiting += array.tasks_waiting
    for record in records:
        admit_queue(state, record.queue).counts[record.state] += 1
        record.client.record_count += 1
        if record.array is not None:
            record.array.record_count += 1
            if record.end is None:
                record.array.open_tasks[record.job_id] = None
        if record.state is ASSIGNED:
            assigned.append(record)
        if record.end is not None:
            ended.append((record.end.seq, record))
            if record.state is DONE and record.end.status == Status.FAILED:
                state.queues[record.queue].failed += 1
            if record.end.confirmed_seq and record.state is not DEAD:
                confirmed.append((record.end.confirmed_seq, record))
    _hold(state, assigned)
    _shelve(state, ended, confirmed)


def _hold(state: GridState, assigned: list[JobRecord]) -> None:
    for record in sorted(assigned, key=attrgetter("fence")):
        state.workers[record.worker_id].held[record.job_id] = None
        record.client.in_flight += 1
        if record.array is not None:
            record.array.running += 1


def _shelve(
    state: GridState,
    ended: list[tuple[int, JobRecord]],
    confirmed: list[tuple[int, JobRecord]],
) -> None:
    for seq, record in sorted(ended, key=_first):
        if record.end is not None and not record.end.confirmed_seq:
            record.client.owed.add(seq, record.job_id)
        if record.state is DEAD:
            state.dead.add(seq, record.job_id)
    for seq, record in sorted(confirmed, key=_first):
        state.confirmed.add(seq, record.job_id)
    for client in sorted(state.clients.values(), key=attrgetter("idle_seq")):
        if client.idle_seq:
            state.idle_clients.add(client.idle_seq, client.client_id)


def _first(pair: tuple[int, JobRecord]) -> int:
    return pair[0]
