"""The index of what can be assigned, which every member keeps from the events that it applies.

Nothing is decided here: `Dispatcher` (in `dispatch`) adds the leader's sessions and decisions. A
follower maintains the index without sessions, so that it is complete when the follower is elected.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Final

from rollq.base.ids import JobId, WorkerId
from rollq.grid import events
from rollq.grid.events import Event
from rollq.grid.runs import ids_in
from rollq.grid.state import QUEUED, ArrayRecord, GridState, JobRecord
from rollq.policy.backlog import Backlog
from rollq.policy.holdings import BlobHolders
from rollq.policy.holds import Holds
from rollq.policy.lanes import Item
from rollq.policy.limits import limit_keys_of
from rollq.policy.pools import DispatchSession

_seq = attrgetter("seq")
_likeness = attrgetter("__class__", "queue", "client", "exec_name", "options")


class DispatchIndex:
    """Waiting items, what blocks them, and the sessions that could run them."""

    __slots__ = ("_backlog", "_holdings", "_holds", "_sessions", "_state")

    def __init__(self, state: GridState, placement: str = "least-load") -> None:
        """Index what waits in `state`, which may be at any point of its life.

        Raises:
            LocalError: BAD_OPTIONS, if there is no such placement policy.
        """
        self._state = state  # read only, and only between entries
        self._holds = Holds(state)
        # Of the leader; empty on followers. At most one per worker: a newer one replaces it.
        self._sessions: dict[WorkerId, DispatchSession] = {}
        self._holdings = BlobHolders(self._sessions)
        self._backlog = Backlog(state, placement, self._holdings)
        waiting: list[Item] = [job for job in state.jobs.values() if job.state is QUEUED]
        waiting.extend(state.arrays.values())
        waiting.sort(key=_seq)
        for kind, run in groupby(waiting, _likeness):  # a large backlog is mostly alike
            if kind[0] is JobRecord:
                self._backlog.push_run(list(run))
            else:
                for item in run:
                    self._requeue(item)

    # --- every member, after every applied entry

    def observe(self, applied_events: Sequence[Event]) -> None:
        """Update the index by the events of one applied entry."""
        handlers = HANDLERS
        for event in applied_events:
            handler = handlers.get(event.kind)
            if handler is not None:
                handler(self, event)

    def close_worker(self, worker_id: WorkerId) -> None:
        """Close a worker's session. Decisions under way are still applied or refused."""
        session = self._sessions.pop(worker_id, None)
        if session is not None:
            self._backlog.leave(session)

    def _requeue(self, item: Item) -> None:
        """Requeue an item whose decision did not come into effect, if it still waits."""
        if isinstance(item, JobRecord):
            if item.state is QUEUED and self._state.jobs.get(item.job_id) is item:
                self._push(item)
            self._retry_throttled(item.array)
        else:
            self._push_array(item)
            self._retry_throttled(item)

    def _push(self, item: Item) -> None:
        """Add an item that may be assigned to its queue, or to the line of a limit."""
        if not self._state.limits or not self._holds.limits.join_line(item):
            self._backlog.push(item)

    def _push_array(self, array: ArrayRecord) -> None:
        if array.tasks_waiting and not array.delayed and self._holds.enlist(array):
            self._push(array)
            if self._holds.limits.is_waiting(array):
                self._holds.delist(array)

    def _push_called(self, item: Item) -> None:
        """A limit has room for an item that waited for it."""
        if isinstance(item, JobRecord) or self._holds.enlist(item):
            self._backlog.push(item)

    def _retry_throttled(self, array: ArrayRecord | None) -> None:
        if array is not None and array.running_max:
            for item in self._holds.take_unthrottled(array.array_id):
                if isinstance(item, ArrayRecord):
                    self._push_array(item)
                else:
                    self._push(item)

    # --- events

    def _on_waiting(self, event: Event) -> None:
        """A job may be assigned: new, released, redriven, or back after a lost attempt."""
        if event.run is not None:
            found = map(self._state.jobs.get, ids_in(event.run.job_ids))
            waiting: list[Item] = [job for job in found if job and job.state is QUEUED]
            if waiting and self._state.limits and self._holds.limits.join_line(*waiting):
                return
            if waiting:
                self._backlog.push_run(waiting)
            return
        record = self._state.jobs.get(event.job_id)
        if record is not None and record.state is QUEUED:
            self._push(record)
        elif not event.job_id:
            self._on_array(event)

    def _on_array(self, event: Event) -> None:
        array = self._state.array_of(event.array_id)
        if array is not None:
            self._push_array(array)

    def _on_attempt_lost(self, event: Event) -> None:
        self._on_attempt_over(event)
        self._on_waiting(event)

    def _on_assigned(self, event: Event) -> None:
        job_ids = _ids_of(event)
        if event.array_id and event.attempt == 1:  # tasks get their records now
            for job_id in job_ids:
                session = self._holds.release_task(event.array_id, event.worker_id)
                if session is not None:
                    session.room.name_task(event.array_id, job_id)
                    continue
                array = self._state.array_of(event.array_id)
                if array is not None and not array.tasks_waiting:
                    self._remove_array(array)
            return
        # Jobs that another leader decided on are still in a lane here, unless they started at once.
        for job_id in self._holds.release_jobs(job_ids):
            record = self._state.jobs.get(job_id)
            if record is not None:
                self._remove_waiting(record)

    def _on_removed(self, event: Event) -> None:
        """A job, or the rest of an array, waited and no longer does."""
        if event.job_id:
            record = self._state.jobs.get(event.job_id)
            if record is not None:
                self._remove_waiting(record)
        else:
            array = self._state.array_of(event.array_id)
            if array is not None and not array.tasks_waiting:
                self._remove_array(array)

    def _remove_array(self, array: ArrayRecord) -> None:
        """An array has no tasks left to assign."""
        self._holds.delist(array)
        self._remove_waiting(array)

    def _remove_waiting(self, item: Item) -> None:
        """An item no longer waits although it was not taken: remove it from its limit or its
        queue."""
        if not self._holds.limits.drop(item):
            self._backlog.mark_stale(item)

    def _on_attempt_over(self, event: Event) -> None:
        """An attempt ended: its worker, client and array may have room."""
        session = self._sessions.get(event.worker_id)
        if session is not None:
            session.running -= 1 if event.run is None else event.run.count
            session.room.end_jobs(_ids_of(event))
            if session.credit:
                self._backlog.mark_changed(session)
        self._holds.room_made(event.client_id)
        if self._holds.limits.waiting_count:
            self._free_tokens(event)
        if event.array_id:
            self._retry_throttled(self._state.array_of(event.array_id))

    def _free_tokens(self, event: Event) -> None:
        """Limits that an attempt counted against may have room."""
        record = self._state.jobs.get(_ids_of(event)[0])
        item = self._state.array_of(event.array_id) if record is None else record
        if item is None:  # it was forgotten by the same entry, so its keys are unknown
            self._holds.limits.changed()
        else:
            self._holds.limits.tokens_freed(limit_keys_of(item))

    def _on_end(self, event: Event) -> None:
        """A job ended without a result, running or not."""
        if event.worker_id:
            self._on_attempt_over(event)
        else:
            self._on_removed(event)
            if event.array_id:
                self._retry_throttled(self._state.array_of(event.array_id))

    def _on_paused(self, event: Event) -> None:
        self._backlog.pause(event.queue, event.kind == events.QUEUE_PAUSED)

    def _on_client(self, event: Event) -> None:
        self._holds.room_made(event.client_id)

    def _on_settings(self, event: Event) -> None:
        self._holds.room_made_for_all()

    def _on_limit(self, event: Event) -> None:
        self._holds.limits.changed()

    def _on_policy(self, event: Event) -> None:
        self._backlog.mark_policies_changed()

    def _on_worker(self, event: Event) -> None:
        """Close a session that the state no longer has; apply a drain or its end."""
        session = self._sessions.get(event.worker_id)
        record = self._state.workers.get(event.worker_id)
        if session is not None and (record is None or record.incarnation != session.incarnation):
            self.close_worker(event.worker_id)
        elif session and record:
            self._backlog.update_drain(session, record.patterns)


def _ids_of(event: Event) -> Sequence[JobId]:
    """The jobs that an event is about."""
    return (event.job_id,) if event.run is None else ids_in(event.run.job_ids)


HANDLERS: Final[dict[str, Callable[[DispatchIndex, Event], None]]] = {
    events.JOB_ENQUEUED: DispatchIndex._on_waiting,
    events.JOB_RELEASED: DispatchIndex._on_waiting,
    events.JOB_UNBLOCKED: DispatchIndex._on_waiting,
    events.JOB_REDRIVEN: DispatchIndex._on_waiting,
    events.ARRAY_ENQUEUED: DispatchIndex._on_array,
    events.JOB_TIMED_OUT: DispatchIndex._on_attempt_lost,
    events.JOB_WORKER_LOST: DispatchIndex._on_attempt_lost,
    events.JOB_NACKED: DispatchIndex._on_attempt_lost,
    events.JOB_RETRIED: DispatchIndex._on_attempt_lost,
    events.JOB_ASSIGNED: DispatchIndex._on_assigned,
    events.JOB_ACKED: DispatchIndex._on_attempt_over,
    events.JOB_DEAD: DispatchIndex._on_end,
    events.JOB_EXPIRED: DispatchIndex._on_end,
    events.JOB_CANCELLED: DispatchIndex._on_end,
    events.QUEUE_PAUSED: DispatchIndex._on_paused,
    events.QUEUE_RESUMED: DispatchIndex._on_paused,
    events.CLIENT_OPENED: DispatchIndex._on_client,
    events.SETTINGS_CHANGED: DispatchIndex._on_settings,
    events.LIMIT_PUT: DispatchIndex._on_limit,
    events.LIMIT_REMOVED: DispatchIndex._on_limit,
    events.POLICY_PUT: DispatchIndex._on_policy,
    events.POLICY_REMOVED: DispatchIndex._on_policy,
    events.WORKER_OPENED: DispatchIndex._on_worker,
    events.WORKER_CLOSED: DispatchIndex._on_worker,
    events.WORKER_DRAINED: DispatchIndex._on_worker,
    events.WORKER_UNDRAINED: DispatchIndex._on_worker,
}
