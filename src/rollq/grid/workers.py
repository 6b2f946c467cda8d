"""Handlers of worker sessions: open (with adoption of running attempts), close, and drain.

A record outlives connections: a worker that disconnects keeps it until the leader closes it after
its grace, so that it may resume its running attempts, also under another leader.
"""

from __future__ import annotations

from rollq.base.errors import ErrorCode
from rollq.base.ids import GUID_BYTES, JobId, WorkerId, guid_to_text
from rollq.base.jobs import AttemptRef
from rollq.base.limits import (
    CREDIT_MAX,
    PATTERN_BYTES_MAX,
    PATTERNS_PER_WORKER_MAX,
    WORKER_NAME_BYTES_MAX,
)
from rollq.base.needs import why_bad_labels, why_bad_resources
from rollq.grid.admission import is_long, refused_bounds
from rollq.grid.attempts import assignment_of
from rollq.grid.commands import Cause, CloseWorker, DrainWorkers, OpenWorker
from rollq.grid.effects import (
    Applied,
    Done,
    Outcome,
    Refused,
    SendAssign,
    SendCancel,
    SendDrain,
)
from rollq.grid.events import (
    ATTEMPT_ADOPTED,
    WORKER_CLOSED,
    WORKER_DRAINED,
    WORKER_OPENED,
    WORKER_UNDRAINED,
    Event,
    asked_by,
)
from rollq.grid.facts import fact
from rollq.grid.moves import lose_attempt
from rollq.grid.outcomes import DONE_ONE, UNKNOWN_WORKER, WORKERS_FULL
from rollq.grid.state import ASSIGNED, DrainMark, GridState, JobRecord, WorkerRecord


def open_worker(state: GridState, command: OpenWorker, out: Applied) -> Outcome:
    """Open a session: adopt the announced attempts, send again or give up the others."""
    refusal = refuse_worker(state, command)
    if refusal is not None:
        return refusal
    worker = state.workers.get(command.worker_id)
    if worker is None:
        worker = WorkerRecord(command.worker_id, command.incarnation, name="", patterns=(), slots=0)
        state.workers[command.worker_id] = worker
        state.worker_ids.add(command.worker_id)
    restarted = worker.incarnation != command.incarnation
    worker.incarnation = command.incarnation
    worker.name = command.name
    worker.patterns = command.patterns
    worker.slots = command.slots
    worker.labels = command.labels
    worker.resources = command.resources
    out.events.append(
        Event(
            WORKER_OPENED,
            worker_id=worker.worker_id,
            count=worker.slots,
            detail=" ".join((worker.name, *worker.patterns)),
        )
    )
    adopted = adopt(state, worker, command.running, out)
    for job_id in list(worker.held):
        if job_id in adopted:
            continue
        record = state.jobs[job_id]
        if restarted:
            lose_attempt(
                state, record, Cause.WORKER_RESTARTED, delay_ms=command.lost_delay_ms, out=out
            )
        else:
            out.effects.extend(orders_of(state, record))
    return DONE_ONE


def refuse_worker(state: GridState, command: OpenWorker) -> Refused | None:
    """Why this session may not be opened."""
    if len(command.worker_id) != GUID_BYTES:
        return refused_bounds("worker_id does not have 16 bytes")
    if is_long(command.name, WORKER_NAME_BYTES_MAX):
        return refused_bounds("name is too long")
    if len(command.patterns) > PATTERNS_PER_WORKER_MAX:
        return refused_bounds(f"more than {PATTERNS_PER_WORKER_MAX} patterns")
    if any(is_long(pattern, PATTERN_BYTES_MAX) for pattern in command.patterns):
        return refused_bounds("a pattern is too long")
    if not 0 <= command.slots <= CREDIT_MAX:
        return refused_bounds(f"slots is not 0 to {CREDIT_MAX}")
    why = why_bad_labels(command.labels) or why_bad_resources(command.resources)
    if why:
        return refused_bounds(why)
    if command.worker_id not in state.workers and len(state.workers) >= state.bounds.workers:
        return WORKERS_FULL
    return None


def adopt(
    state: GridState, worker: WorkerRecord, running: tuple[AttemptRef, ...], out: Applied
) -> dict[JobId, None]:
    """Keep the announced attempts that are still the worker's; cancel the others."""
    adopted: dict[JobId, None] = {}
    for ref in running:
        record = state.jobs.get(ref.job_id)
        mine = (
            record is not None
            and record.state is ASSIGNED
            and record.worker_id == worker.worker_id
            and record.attempt == ref.attempt
            and record.fence == ref.fence
        )
        if record is not None and mine:
            adopted[record.job_id] = None
            out.events.append(
                fact(ATTEMPT_ADOPTED, record, worker_id=worker.worker_id, fence=record.fence)
            )
        if record is None or not mine or record.cancel_requested:
            out.effects.append(SendCancel(worker.worker_id, ref.job_id, ref.attempt, ref.fence))
    return adopted


def orders_of(state: GridState, record: JobRecord) -> list[SendAssign | SendCancel]:
    """The effects for an attempt that the worker holds without knowing of it."""
    orders: list[SendAssign | SendCancel] = [assignment_of(state, (record,))]
    if record.cancel_requested:
        orders.append(SendCancel(record.worker_id, record.job_id, record.attempt, record.fence))
    return orders


def close_worker(state: GridState, command: CloseWorker, out: Applied) -> Outcome:
    """Close a session for good: all its attempts are lost, each with the delay that the leader
    chose."""
    worker = state.workers.get(command.worker_id)
    if worker is None or worker.incarnation != command.incarnation:
        return UNKNOWN_WORKER
    told = {lost.job_id: lost for lost in command.lost}
    held = list(worker.held)
    out.events.append(
        Event(WORKER_CLOSED, worker_id=worker.worker_id, count=len(held), detail=worker.name)
    )
    for job_id in held:
        record, lost = state.jobs[job_id], told.get(job_id)
        lose_attempt(
            state,
            record,
            Cause.WORKER_DOWN,
            delay_ms=0 if lost is None else lost.delay_ms,
            out=out,
            not_started=lost is not None and lost.attempt == record.attempt and lost.not_started,
        )
    del state.workers[worker.worker_id]
    state.worker_ids.remove(worker.worker_id)
    return Done(len(held))


def drain_workers(state: GridState, command: DrainWorkers, out: Applied) -> Outcome:
    """Drain workers, or undo it; returns how many changed. Running jobs stay with them; jobs that
    have not begun are given back."""
    if command.undo:
        changed = [undrain(state, one, command.by, out) for one in command.worker_ids]
        return Done(sum(changed))
    if any(len(worker_id) != GUID_BYTES for worker_id in command.worker_ids):
        return refused_bounds("a worker_id does not have 16 bytes")
    for worker_id in command.worker_ids:
        if worker_id not in state.workers and worker_id not in state.drained:
            return Refused(
                ErrorCode.UNKNOWN_WORKER, f"no worker {guid_to_text(worker_id)} is known"
            )
    return Done(sum([drain(state, one, command.by, out) for one in command.worker_ids]))


def drain(state: GridState, worker_id: WorkerId, by: str, out: Applied) -> bool:
    """Mark a worker as drained; whether it was not."""
    worker = state.workers.get(worker_id)
    if worker is None or worker_id in state.drained:
        # Without a record it has a mark, or lost it just now to another worker of this command.
        return False
    if len(state.drained) >= state.bounds.workers:
        # The table is full and this worker is not in it: so one of those in it has no record.
        gone = next(marked for marked in state.drained if marked not in state.workers)
        undrain(state, gone, "", out)
    state.drained[worker_id] = DrainMark(worker.name, out.stamp_ms, by)
    held = len(worker.held)
    out.events.append(_drain_fact(WORKER_DRAINED, worker_id, worker.name, by, held))
    out.effects.append(SendDrain(worker_id, is_drained=True))
    return True


def undrain(state: GridState, worker_id: WorkerId, by: str, out: Applied) -> bool:
    """Remove the mark of a worker; whether it had one."""
    mark = state.drained.pop(worker_id, None)
    if mark is None:
        return False
    out.events.append(_drain_fact(WORKER_UNDRAINED, worker_id, mark.name, by))
    out.effects.append(SendDrain(worker_id, is_drained=False))
    return True


def _drain_fact(kind: str, worker_id: WorkerId, name: str, by: str, held: int = 0) -> Event:
    return Event(kind, worker_id=worker_id, count=held, detail=name, access=asked_by(by))
