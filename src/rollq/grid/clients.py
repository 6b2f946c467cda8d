"""Handlers of clients: open with a cap, confirm results."""

from __future__ import annotations

from collections.abc import Sequence

from rollq.base.ids import ClientId, JobId
from rollq.grid.admission import admit_client, refuse_client, refused_bounds
from rollq.grid.commands import ConfirmResults, ConfirmRun, OpenClient
from rollq.grid.effects import Applied, Done, Outcome
from rollq.grid.events import CLIENT_OPENED, JOB_FORGOTTEN, RESULT_CONFIRMED, Event
from rollq.grid.facts import array_fact, fact, run_fact
from rollq.grid.moves import drop_jobs, next_seq
from rollq.grid.outcomes import DONE_ONE
from rollq.grid.runs import ids_in, known_groups, refuse_run
from rollq.grid.state import DEAD, PREFIX_BYTES, GridState, JobRecord

_FORGET_PER_CONFIRM = 2  # so that a lowered bound is reached soon, at bounded cost


def open_client(state: GridState, command: OpenClient, out: Applied) -> Outcome:
    """Set a client's cap. Running jobs above a lowered cap continue; no new ones start."""
    if command.cap < 0:
        return refused_bounds("cap is negative")
    if command.client_id not in state.clients:
        refusal = refuse_client(state, command.client_id)
        if refusal is not None:
            return refusal
    client = admit_client(state, command.client_id)
    client.cap = command.cap
    out.events.append(Event(CLIENT_OPENED, client_id=client.client_id, count=client.cap))
    return DONE_ONE


def confirm_results(state: GridState, command: ConfirmResults, out: Applied) -> Outcome:
    """The client has these results: they are no longer owed, and are kept while there is room."""
    count = 0
    for job_id in command.job_ids:
        record = state.jobs.get(job_id)
        if record is None:
            count += confirm_cut(state, command.client_id, job_id, out)
        elif record.client.client_id == command.client_id and confirm_one(state, record, out):
            count += 1
            forget_oldest(state, out)
    return Done(count)


def confirm_run(state: GridState, command: ConfirmRun, out: Applied) -> Outcome:
    """As `confirm_results`, but old results are evicted after all of them are confirmed."""
    refusal = refuse_run(command.job_ids)
    if refusal is not None:
        return refusal
    job_ids = list(dict.fromkeys(ids_in(command.job_ids)))
    count = 0
    for position, group in known_groups(state, job_ids):
        if not group:
            count += confirm_cut(state, command.client_id, job_ids[position], out)
        elif group[0].client.client_id == command.client_id:
            count += confirm_equal(state, group, out)
    forget_oldest(state, out, count)
    return Done(count)


def confirm_equal(state: GridState, records: Sequence[JobRecord], out: Applied) -> int:
    """The client has the results of those of its equal jobs that have ended and are not confirmed;
    returns how many these are."""
    if len(records) == 1:
        return confirm_one(state, records[0], out)
    found = [
        (record, end)
        for record in records
        if (end := record.end) is not None and not end.confirmed_seq
    ]
    if not found:
        return 0
    confirmed = [record for record, _ in found]
    first, count = state.last_seq + 1, len(found)
    state.last_seq += count
    records[0].client.owed.remove_all([end.seq for _, end in found])
    for seq, (_, end) in enumerate(found, first):
        end.confirmed_seq = seq
    if records[0].state is not DEAD:  # dead ones wait for an operator; only their TTL ends them
        state.confirmed.add_all(first, [record.job_id for record in confirmed])
    out.events.append(run_fact(RESULT_CONFIRMED, confirmed))
    return count


def confirm_one(state: GridState, record: JobRecord, out: Applied) -> int:
    """As `confirm_equal` for one job, in half of the time: the jobs of many clients come alone."""
    end = record.end
    if end is None or end.confirmed_seq:
        return 0
    record.client.owed.remove(end.seq)
    end.confirmed_seq = next_seq(state)
    if record.state is not DEAD:
        state.confirmed.add(end.confirmed_seq, record.job_id)
    out.events.append(fact(RESULT_CONFIRMED, record))
    return 1


def confirm_cut(state: GridState, client_id: ClientId, job_id: JobId, out: Applied) -> int:
    """The client has the result of a cut; 0 if this id is not that of a cut, or is confirmed
    already."""
    array = state.arrays.get(job_id[:PREFIX_BYTES])
    if (
        array is None
        or not array.cut_seq
        or array.first_cut_id != job_id
        or array.client.client_id != client_id
    ):
        return 0
    array.client.owed.remove(array.cut_seq)
    array.cut_seq = 0
    out.events.append(array_fact(RESULT_CONFIRMED, array, array.task_count - array.cut_at))
    return 1


def forget_oldest(state: GridState, out: Applied, confirmed: int = 1) -> None:
    """Evict the oldest confirmed results beyond the bound, after `confirmed` more of them."""
    excess = len(state.confirmed) - state.settings.results_kept_max
    if excess > 0:
        oldest = state.confirmed.first(min(excess, confirmed * _FORGET_PER_CONFIRM))
        drop_jobs(state, [state.jobs[job_id] for job_id in oldest], JOB_FORGOTTEN, out)
