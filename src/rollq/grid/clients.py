"""Handlers of clients: open with a cap, confirm results."""

from __future__ import annotations

from rollq.base.ids import ClientId, JobId
from rollq.grid.admission import admit_client, refuse_client, refused_bounds
from rollq.grid.commands import ConfirmResults, ConfirmRun, OpenClient
from rollq.grid.effects import Applied, Done, Outcome
from rollq.grid.events import CLIENT_OPENED, JOB_FORGOTTEN, RESULT_CONFIRMED, Event
from rollq.grid.facts import are_alike, array_fact, fact, run_fact
from rollq.grid.moves import drop_jobs, next_seq
from rollq.grid.outcomes import DONE_ONE
from rollq.grid.runs import ids_in, refuse_run
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
            continue
        if record.client.client_id != command.client_id:
            continue
        end = record.end
        if end is None or end.confirmed_seq:
            continue
        record.client.owed.remove(end.seq)
        end.confirmed_seq = next_seq(state)
        out.events.append(fact(RESULT_CONFIRMED, record))
        if record.state is not DEAD:  # dead ones wait for an operator, and only their TTL ends them
            state.confirmed.add(end.confirmed_seq, job_id)
        count += 1
        forget_oldest(state, out)
    return Done(count)


def confirm_run(state: GridState, command: ConfirmRun, out: Applied) -> Outcome:
    """As `confirm_results`, but old results are evicted after all of them are confirmed."""
    refusal = refuse_run(command.job_ids)
    if refusal is not None:
        return refusal
    client_id, jobs, count = command.client_id, state.jobs, 0
    group: list[JobRecord] = []  # alike
    for job_id in ids_in(command.job_ids):
        record = jobs.get(job_id)
        if record is None:
            if group:
                out.events.append(run_fact(RESULT_CONFIRMED, group))
                group = []
            count += confirm_cut(state, client_id, job_id, out)
            continue
        end = record.end
        if record.client.client_id != client_id or end is None or end.confirmed_seq:
            continue
        record.client.owed.remove(end.seq)
        end.confirmed_seq = next_seq(state)
        if record.state is not DEAD:
            state.confirmed.add(end.confirmed_seq, job_id)
        if group and not are_alike(group[0], record):
            out.events.append(run_fact(RESULT_CONFIRMED, group))
            group = []
        group.append(record)
        count += 1
    if group:
        out.events.append(run_fact(RESULT_CONFIRMED, group))
    forget_oldest(state, out, count)
    return Done(count)


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
