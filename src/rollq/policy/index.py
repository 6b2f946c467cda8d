"""The index of what can be assigned, which every member keeps from the events that it applies.

Nothing is decided here: `Dispatcher` (in `dispatch`) is this index with the leader's sessions and
choices. A follower keeps it without sessions, so that it has it at once when it is elected.
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
from rollq.policy.holdings import Holdings
from rollq.policy.holds import Holds
from rollq.policy.lanes import Item
from rollq.policy.limits import limit_keys_of
from rollq.policy.pools import DispatchSession

_seq = attrgetter("seq")
_likeness = attrgetter("__class__", "queue", "client", "exec_name", "options")


class DispatchIndex:
    """What waits, what may start, and who could run it, as the applied entries have made it."""

    __slots__ = ("_backlog", "_holdings", "_holds", "_sessions", "_state")

    def __init__(self, state: GridState, placement: str = "least-load") -> None:
        """Index what waits in `state`, which may be at any point of its life.

        Raises:
            LocalError: BAD_OPTIONS, if there is no such placement policy.
        """
        self._state = state  # read only, and only between entries: the same as every member's
        self._holds = Holds(state)
        # The leader's; empty on followers. At most one a worker: a newer one replaces it.
        self._sessions: dict[WorkerId, DispatchSession] = {}
        self._holdings = Holdings(self._sessions)
        self._backlog = Backlog(state, placement, self._holdings)
        waiting: list[Item] = [job for job in state.jobs.values() if job.state is QUEUED]
        waiting.extend(state.arrays.values())
        waiting.sort(key=_seq)
        for kind, run in groupby(waiting, _likeness):  # a backlog of a million is mostly alike
            if kind[0] is JobRecord:
                self._backlog.push_run(list(run))
            else:
                for item in run:
                    self._give_back(item)

    # --- every member, after every applied entry

    def observe(self, happened: Sequence[Event]) -> None:
        """Follow what became true by one applied entry."""
        handlers = HANDLERS
        for event in happened:
            handler = handlers.get(event.kind)
            if handler is not None:
                handler(self, event)

    def close_worker(self, worker_id: WorkerId) -> None:
        """Give a worker nothing more. Decisions under way are applied or refused as they are."""
        session = self._sessions.pop(worker_id, None)
        if session is not None:
            self._backlog.leave(session)

    def _give_back(self, item: Item) -> None:
        """What was decided and did not start waits again, if it still can."""
        if isinstance(item, JobRecord):
            if item.state is QUEUED and self._state.jobs.get(item.job_id) is item:
                self._push(item)
            self._retry_throttled(item.array)
        else:
            self._push_array(item)
            self._retry_throttled(item)

    def _push(self, item: Item) -> None:
        """Something may be assigned: it waits in its queue, or in the line of a limit."""
        if not self._state.limits or not self._holds.limits.joins(item):
            self._backlog.push(item)

    def _push_array(self, array: ArrayRecord) -> None:
        if array.tasks_waiting and not array.delayed and self._holds.enlist(array):
            self._push(array)
            if self._holds.limits.is_waiting(array):
                self._holds.delist(array)

    def _push_called(self, item: Item) -> None:
        """A limit has room for something that waited for it."""
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
        """A job may be assigned: new, released, redriven, or back from a lost attempt."""
        if event.run is not None:
            found = map(self._state.jobs.get, ids_in(event.run.job_ids))
            waiting: list[Item] = [job for job in found if job and job.state is QUEUED]
            if waiting and self._state.limits and self._holds.limits.joins(*waiting):
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
        if event.array_id and event.attempt == 1:  # tasks that were no records before
            for job_id in job_ids:
                session = self._holds.release_task(event.array_id, event.worker_id)
                if session is not None:
                    session.room.name_task(event.array_id, job_id)
                    continue
                array = self._state.array_of(event.array_id)
                if array is not None and not array.tasks_waiting:
                    self._array_gone(array)
            return
        # What another leader decided still stands in its lane here, unless it started at once.
        for job_id in self._holds.release_jobs(job_ids):
            record = self._state.jobs.get(job_id)
            if record is not None:
                self._went_stale(record)

    def _on_gone(self, event: Event) -> None:
        """A job, or the rest of an array, waited here and waits no more."""
        if event.job_id:
            record = self._state.jobs.get(event.job_id)
            if record is not None:
                self._went_stale(record)
        else:
            array = self._state.array_of(event.array_id)
            if array is not None and not array.tasks_waiting:
                self._array_gone(array)

    def _array_gone(self, array: ArrayRecord) -> None:
        """An array has no tasks left to assign."""
        self._holds.delist(array)
        self._went_stale(array)

    def _went_stale(self, item: Item) -> None:
        """Something waits no more, though nobody took it: neither in its queue nor for a limit."""
        if not self._holds.limits.drop(item):
            self._backlog.went_stale(item)

    def _on_attempt_over(self, event: Event) -> None:
        """An attempt ended: its worker has less to do, its client and array have room."""
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
        """Limits that an attempt counted for may have room."""
        record = self._state.jobs.get(_ids_of(event)[0])
        item = self._state.array_of(event.array_id) if record is None else record
        if item is None:  # it was forgotten by the same entry, and nobody knows its keys
            self._holds.limits.changed()
        else:
            self._holds.limits.tokens_freed(limit_keys_of(item))

    def _on_end(self, event: Event) -> None:
        """A job ended without a result, running or not."""
        if event.worker_id:
            self._on_attempt_over(event)
        else:
            self._on_gone(event)
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
        """A session that the state does not know any more, or that is drained, is given nothing."""
        session = self._sessions.get(event.worker_id)
        record = self._state.workers.get(event.worker_id)
        if session is not None and (record is None or record.incarnation != session.incarnation):
            self.close_worker(event.worker_id)
        elif session and record:
            self._backlog.follow_drain(session, record.patterns)


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
