"""The leader's timers: leases, delays, time limits of waiting and retention, and workers' graces.

The state holds durations, not due times. The leader counts them down by its monotonic clock and
proposes a command when one has expired; the command names the attempt, so a late timer does no
harm. A proposal that is not applied within a lease was lost, and is repeated.

Leases are renewed here and nowhere else: a heartbeat is not worth a log entry. A new leader renews
every lease in full, because it cannot know how much of it has passed, and waits for every worker
until its last lease ends; delays and time limits continue from the stamps in the state.

Leases and graces do not count stalls of this process, in which no worker could renew anything;
nothing expires within RENEWAL_MS after one.

An array may have the id of its first task, so timers of arrays are keyed by the prefix of the id.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain, islice
from typing import Final

from rollq.base.ids import JobId, WorkerId
from rollq.base.staged import ids_of
from rollq.base.stamp import Jitter
from rollq.grid import events
from rollq.grid.commands import (
    CloseWorker,
    Command,
    ExpireJobs,
    ExpireLeases,
    ForgetJobs,
    LostAttempt,
    ReleaseJobs,
    Settings,
)
from rollq.grid.events import Event
from rollq.grid.runs import ids_in
from rollq.grid.state import (
    ASSIGNED,
    BLOCKED,
    DEAD,
    DELAYED,
    PREFIX_BYTES,
    ArrayRecord,
    GridState,
    JobRecord,
)
from rollq.grid.times import elapsed_ms
from rollq.policy.retry import lost_attempt
from rollq.policy.timers import Timers

# Records read per call after a change of leader: at first, when clients wait for it, and later.
SCAN_RECORDS: Final = (100, 1_000)
SCAN_FIRST_MS: Final = 500
STALL_MS: Final = 1_000  # `due` is called every few milliseconds: a longer gap is a stall
NEVER_MS: Final = -(1 << 62)  # before every due time
# workers ping more often than this, and their heartbeats may still be unread
RENEWAL_MS: Final = 1_000


class Expiry:
    """Timers of everything in the grid that expires."""

    __slots__ = (
        "_delays",
        "_disconnected",
        "_gained_ms",
        "_gained_time_ms",
        "_graces",
        "_lease_terms",
        "_leases",
        "_now_ms",
        "_resume_ms",
        "_retentions",
        "_scan",
        "_scan_records",
        "_settings",
        "_stalled_ms",
        "_state",
        "_timers",
        "_unsent",
        "_waits",
    )

    def __init__(self, scan_records: tuple[int, int] = SCAN_RECORDS) -> None:
        self._scan_records = scan_records
        # Two clocks: leases and graces are due by `_lease_clock_ms`, which excludes stalls of the
        # process; all others by `now_ms`. All fields are set between `gain` and `step_down`.
        self._leases: Timers[JobId] = Timers()  # of ASSIGNED jobs
        # Attempt and lease_ms of each lease, for `renew`. Invariant: the keys of `_leases`, and
        # those that `_lost` has popped.
        self._lease_terms: dict[JobId, tuple[int, int]] = {}
        self._delays: Timers[bytes] = Timers()  # of DELAYED jobs and delayed arrays
        self._waits: Timers[bytes] = Timers()  # of waiting jobs and arrays with an expire_ms
        self._retentions: Timers[bytes] = Timers()  # of ended jobs and arrays: their retention
        self._graces: Timers[WorkerId] = Timers()  # of workers without a session
        self._timers = (self._leases, self._delays, self._waits, self._retentions, self._graces)
        # The incarnation that each grace is for: a worker that came back under a new one is not
        # closed by the timer of the old one.
        self._disconnected: dict[WorkerId, int] = {}
        # Attempt by job whose worker had no session since it was assigned: it did not start.
        self._unsent: dict[JobId, int] = {}
        self._settings = Settings()  # of the state, as of the last event that changed them
        # The records of the state still to be read after `gain`; None: all are read.
        self._scan: Iterator[JobRecord | ArrayRecord] | None = None
        self._gained_ms = 0  # `now_ms` of the change of leader
        self._now_ms = 0  # at the last call
        self._stalled_ms = 0  # total time in which the process was stalled
        self._resume_ms = 0  # until then no lease or grace expires
        self._gained_time_ms = 0  # the group's time at `_gained_ms`; stamps are of that clock
        self._state = GridState()

    # --- leadership

    def gain(self, state: GridState, now_ms: int, time_ms: int) -> None:
        """Leadership is gained: set every timer from the state. `now_ms` is of the clock that all
        other methods are given; `time_ms` is the group's time, as in stamps.

        A large state is not read at once, which could cost the leadership; later calls of `due`
        read the rest.
        """
        self.step_down()
        self._gained_ms, self._gained_time_ms, self._now_ms = now_ms, time_ms, now_ms
        self._state = state
        self._settings = state.settings
        grace_ms = max(state.settings.worker_grace_ms, state.settings.lease_ms)
        for worker in state.workers.values():
            self._disconnected[worker.worker_id] = worker.incarnation
            self._graces.set(worker.worker_id, self._lease_clock_ms(now_ms) + grace_ms)
        self._scan = chain(list(state.arrays.values()), list(state.jobs.values()))
        self._scan_next(now_ms)

    def step_down(self) -> None:
        """Leadership is lost: drop all timers."""
        for timers in self._timers:
            timers.clear()
        self._lease_terms.clear()
        self._disconnected.clear()
        self._unsent.clear()
        self._scan = None

    # --- changes of timers

    def observe(self, applied_events: Sequence[Event], state: GridState, now_ms: int) -> None:
        """Update the timers by the events of one applied entry."""
        handlers = HANDLERS
        for event in applied_events:
            handler = handlers.get(event.kind)
            if handler is not None:
                handler(self, event, state, now_ms)

    def renew(self, job_id: JobId, attempt: int, now_ms: int) -> None:
        """A sign of life of an attempt's worker: its lease starts anew."""
        terms = self._lease_terms.get(job_id)
        if terms is not None and terms[0] == attempt:
            self._leases.set(job_id, self._lease_clock_ms(now_ms) + terms[1])

    def worker_disconnected(self, worker_id: WorkerId, incarnation: int, now_ms: int) -> None:
        """A worker's session was closed: start its grace, within which it can resume its
        attempts."""
        self._disconnected[worker_id] = incarnation
        self._graces.set(worker_id, self._lease_clock_ms(now_ms) + self._settings.worker_grace_ms)

    def worker_silent(self, worker_id: WorkerId, incarnation: int, now_ms: int) -> None:
        """A worker is unreachable; its process may still run. Its grace lasts at least until its
        last lease ends: shorter leases expire by themselves."""
        settings, state = self._settings, self._state
        self._disconnected[worker_id] = incarnation
        worker = state.workers.get(worker_id)
        held = worker.held if worker is not None else ()
        grace_ms = max(
            settings.worker_grace_ms,
            settings.lease_ms,
            *(state.jobs[job_id].lease_ms for job_id in held),
        )
        self._graces.set(worker_id, self._lease_clock_ms(now_ms) + grace_ms)

    def worker_returned(self, worker_id: WorkerId) -> None:
        """A worker has a session again: cancel its grace."""
        self._disconnected.pop(worker_id, None)
        self._graces.cancel(worker_id)

    def sent(self, job_ids: bytes) -> None:
        """Attempts were sent to their worker: from now on it is unknown whether they start."""
        if self._unsent:
            for job_id in ids_of(job_ids):
                self._unsent.pop(job_id, None)

    def not_sent(self, state: GridState, job_id: JobId, attempt: int) -> None:
        """The worker of this attempt has no session. If it gets none, the attempt was not
        started."""
        job = state.jobs.get(job_id)
        if job is not None and job.state is ASSIGNED and job.attempt == attempt:
            self._unsent[job_id] = attempt

    def as_lost(self, state: GridState, job: JobRecord, jitter: Jitter) -> LostAttempt:
        """The running attempt of a job, as lost."""
        not_started = self._unsent.get(job.job_id) == job.attempt if self._unsent else False
        return lost_attempt(state, job, jitter, not_started=not_started)

    # --- due timers

    def due(self, state: GridState, now_ms: int, jitter: Jitter, count_max: int) -> list[Command]:
        """Commands for what has expired, of up to `count_max` jobs in all.

        Workers come first, each with all of its attempts: those need not wait for their leases too.
        """
        self._scan_next(now_ms)
        lease_now_ms = self._lease_clock_ms(now_ms)
        if not any(timers.may_be_due(now_ms) for timers in self._timers):
            return []
        commands: list[Command] = []
        count = 0
        if now_ms < self._resume_ms:
            lease_now_ms = NEVER_MS
        while count < count_max and (gone := self._graces.pop_due(lease_now_ms, 1)):
            close = self._close(state, gone[0], lease_now_ms, jitter)
            if close is not None:
                commands.append(close)
                count += 1 + len(close.lost)
        lost = self._lost(state, lease_now_ms, jitter, count_max - count)
        if lost:
            commands.append(ExpireLeases(lost))
        released = self._released(state, now_ms, count_max - count - len(lost))
        if released:
            commands.append(ReleaseJobs(released))
        count += len(lost) + len(released)
        expired = self._expired(state, now_ms, count_max - count)
        if expired:
            commands.append(ExpireJobs(expired))
        forgotten = self._forgotten(state, now_ms, count_max - count - len(expired))
        if forgotten:
            commands.append(ForgetJobs(forgotten))
        return commands

    def _close(
        self, state: GridState, worker_id: WorkerId, lease_now_ms: int, jitter: Jitter
    ) -> CloseWorker | None:
        worker = state.workers.get(worker_id)
        incarnation = self._disconnected[worker_id]
        if worker is None or worker.incarnation != incarnation:
            del self._disconnected[worker_id]
            return None
        self._graces.set(worker_id, lease_now_ms + state.settings.lease_ms)
        held = [state.jobs[job_id] for job_id in worker.held]
        return CloseWorker(
            worker_id, incarnation, tuple(self.as_lost(state, job, jitter) for job in held)
        )

    def _lost(
        self, state: GridState, lease_now_ms: int, jitter: Jitter, count_max: int
    ) -> tuple[LostAttempt, ...]:
        repeat_ms = lease_now_ms + state.settings.lease_ms
        lost = []
        for job_id in self._leases.pop_due(lease_now_ms, count_max):
            job = state.jobs.get(job_id)
            if job is not None and job.state is ASSIGNED:
                self._leases.set(job_id, repeat_ms)
                lost.append(self.as_lost(state, job, jitter))
        return tuple(lost)

    def _released(self, state: GridState, now_ms: int, count_max: int) -> tuple[LostAttempt, ...]:
        repeat_ms = now_ms + state.settings.lease_ms
        released = []
        for key in self._delays.pop_due(now_ms, count_max):
            array, job = state.arrays.get(key), state.jobs.get(key)
            if array is not None and array.delayed:
                released.append(LostAttempt(array.array_id, 0))
            elif job is not None and job.state is DELAYED:
                released.append(LostAttempt(key, job.attempt))
            else:
                continue
            self._delays.set(key, repeat_ms)
        return tuple(released)

    def _expired(self, state: GridState, now_ms: int, count_max: int) -> tuple[JobId, ...]:
        repeat_ms = now_ms + state.settings.lease_ms
        expired = []
        for key in self._waits.pop_due(now_ms, count_max):
            if len(key) == PREFIX_BYTES:
                array = state.arrays.get(key)
                if array is None or not array.tasks_waiting:
                    continue  # every task was assigned: none waits
                expired.append(array.array_id)
            else:
                expired.append(key)
            self._waits.set(key, repeat_ms)
        return tuple(expired)

    def _forgotten(self, state: GridState, now_ms: int, count_max: int) -> tuple[JobId, ...]:
        repeat_ms = now_ms + state.settings.lease_ms
        forgotten = []
        for key in self._retentions.pop_due(now_ms, count_max):
            array = state.arrays.get(key)
            # else it is forgotten with its last task
            if array is not None and not array.forget_asked:
                forgotten.append(array.array_id)
            elif key in state.jobs:
                forgotten.append(key)
            else:
                continue
            self._retentions.set(key, repeat_ms)
        return tuple(forgotten)

    # --- the state, after a change of leader

    def _scan_next(self, now_ms: int) -> None:
        """Set the timers of the next records of the state as of `gain`."""
        if self._scan is None:
            return
        count = self._scan_records[now_ms >= self._gained_ms + SCAN_FIRST_MS]
        read = 0
        for record in islice(self._scan, count):
            read += 1
            if isinstance(record, ArrayRecord):
                self._set_array(record)
            else:
                self._set_job(record, now_ms)
        if read < count:
            self._scan = None

    def _set_job(self, record: JobRecord, now_ms: int) -> None:
        # Timers set by later events are exact: keep them.
        job_id = record.job_id
        if record.state is ASSIGNED:
            if job_id not in self._lease_terms:
                # From now: since `gain`, heartbeats found no lease to renew.
                self._start_lease(job_id, record.attempt, record.lease_ms, now_ms)
                self._graces.put_off(
                    record.worker_id, self._lease_clock_ms(now_ms) + record.lease_ms
                )
        elif record.end is not None:
            if job_id not in self._retentions:
                self._retentions.set(job_id, self._due_ms(record.stamp_ms, self._ttl_ms(record)))
        elif record.state is not BLOCKED:  # its times start when it is unblocked
            if record.state is DELAYED and job_id not in self._delays:
                self._delays.set(job_id, self._due_ms(record.stamp_ms, record.delay_ms))
            if record.options.expire_ms and job_id not in self._waits:
                self._waits.set(job_id, self._due_ms(record.stamp_ms, record.options.expire_ms))

    def _set_array(self, array: ArrayRecord) -> None:
        key = array.array_id[:PREFIX_BYTES]
        options = array.options
        if array.is_ended:
            if key not in self._retentions:
                ttl_ms = options.result_ttl_ms or self._settings.result_ttl_ms
                self._retentions.set(key, self._due_ms(array.stamp_ms, ttl_ms))
            return
        if array.delayed and key not in self._delays:
            self._delays.set(key, self._due_ms(array.stamp_ms, options.delay_ms))
        if options.expire_ms and array.tasks_waiting and key not in self._waits:
            self._waits.set(key, self._due_ms(array.stamp_ms, options.expire_ms))

    def _due_ms(self, stamp_ms: int, duration_ms: int) -> int:
        """When a duration ends that began at a stamp of the group's time."""
        passed_ms = elapsed_ms(self._state, stamp_ms, self._gained_time_ms)
        return self._gained_ms + max(0, duration_ms - passed_ms)

    # --- events

    def _on_waiting(self, event: Event, state: GridState, now_ms: int) -> None:
        """Start the delay and the time limit of jobs that wait."""
        job_ids = _keys(event)
        if event.delay_ms:
            self._delays.set_all(job_ids, now_ms + event.delay_ms)
        record = _first_record(state, job_ids)
        if record is not None and record.options.expire_ms:
            self._waits.set_all(job_ids, now_ms + record.options.expire_ms)

    def _on_released(self, event: Event, state: GridState, now_ms: int) -> None:
        self._delays.cancel_all(_keys(event))

    def _on_assigned(self, event: Event, state: GridState, now_ms: int) -> None:
        job_ids = _keys(event)
        self._lease_terms.update(dict.fromkeys(job_ids, (event.attempt, event.lease_ms)))
        self._leases.set_all(job_ids, self._lease_clock_ms(now_ms) + event.lease_ms)
        self._waits.cancel_all(job_ids)

    def _on_attempt_lost(self, event: Event, state: GridState, now_ms: int) -> None:
        self._end_leases(_keys(event))
        self._on_waiting(event, state, now_ms)

    def _on_ended(self, event: Event, state: GridState, now_ms: int) -> None:
        """Jobs have ended, or the unassigned tasks of an array have."""
        keys = _keys(event)
        self._delays.cancel_all(keys)
        self._waits.cancel_all(keys)
        if event.job_id or event.run is not None:
            self._end_leases(keys)
            # A run is of jobs that are done: none can have been redriven in the same entry.
            record = _first_record(state, keys)
            if record is not None and record.end is not None:
                self._retentions.set_all(keys, now_ms + self._ttl_ms(record))

    def _on_array(self, event: Event, state: GridState, now_ms: int) -> None:
        array = state.array_of(event.array_id)
        key = _key(event)
        if event.delay_ms:
            self._delays.set(key, now_ms + event.delay_ms)
        if array is not None and array.options.expire_ms:
            self._waits.set(key, now_ms + array.options.expire_ms)

    def _on_array_ended(self, event: Event, state: GridState, now_ms: int) -> None:
        array = state.array_of(event.array_id)
        if array is not None:
            ttl_ms = array.options.result_ttl_ms or self._settings.result_ttl_ms
            self._retentions.set(_key(event), now_ms + ttl_ms)

    def _on_redriven(self, event: Event, state: GridState, now_ms: int) -> None:
        self._retentions.cancel(event.job_id)
        if event.array_id:
            self._retentions.cancel(event.array_id[:PREFIX_BYTES])
        self._on_waiting(event, state, now_ms)

    def _on_forgotten(self, event: Event, state: GridState, now_ms: int) -> None:
        self._retentions.cancel_all(_keys(event))

    def _on_worker_opened(self, event: Event, state: GridState, now_ms: int) -> None:
        """The worker confirmed its attempts, or they are sent again: renew their leases."""
        worker = state.workers.get(event.worker_id)
        for job_id in worker.held if worker is not None else ():
            self.renew(job_id, state.jobs[job_id].attempt, now_ms)

    def _on_worker_closed(self, event: Event, state: GridState, now_ms: int) -> None:
        if event.worker_id not in state.workers:  # it may have come back in the same entry
            self.worker_returned(event.worker_id)

    def _on_settings(self, event: Event, state: GridState, now_ms: int) -> None:
        """New settings apply to timers that are set from now on."""
        self._settings = state.settings

    def _lease_clock_ms(self, now_ms: int) -> int:
        """The clock of leases and graces: `now_ms` without stalls."""
        gap_ms = now_ms - self._now_ms
        self._now_ms = now_ms
        if gap_ms > STALL_MS:
            self._stalled_ms += gap_ms
            self._resume_ms = now_ms + RENEWAL_MS
        return now_ms - self._stalled_ms

    def _start_lease(self, job_id: JobId, attempt: int, lease_ms: int, now_ms: int) -> None:
        self._lease_terms[job_id] = (attempt, lease_ms)
        self._leases.set(job_id, self._lease_clock_ms(now_ms) + lease_ms)

    def _end_leases(self, job_ids: Sequence[JobId]) -> None:
        pop = self._lease_terms.pop
        for job_id in job_ids:
            pop(job_id, None)
        self._leases.cancel_all(job_ids)
        if self._unsent:
            for job_id in job_ids:
                self._unsent.pop(job_id, None)

    def _ttl_ms(self, record: JobRecord) -> int:
        if record.state is DEAD:
            return self._settings.dead_ttl_ms
        return record.options.result_ttl_ms or self._settings.result_ttl_ms


HANDLERS: Final[dict[str, Callable[[Expiry, Event, GridState, int], None]]] = {
    events.JOB_ENQUEUED: Expiry._on_waiting,
    events.JOB_DELAYED: Expiry._on_waiting,
    events.JOB_UNBLOCKED: Expiry._on_waiting,
    events.JOB_RELEASED: Expiry._on_released,
    events.JOB_ASSIGNED: Expiry._on_assigned,
    events.JOB_TIMED_OUT: Expiry._on_attempt_lost,
    events.JOB_WORKER_LOST: Expiry._on_attempt_lost,
    events.JOB_NACKED: Expiry._on_attempt_lost,
    events.JOB_RETRIED: Expiry._on_attempt_lost,
    events.JOB_ACKED: Expiry._on_ended,
    events.JOB_DEAD: Expiry._on_ended,
    events.JOB_EXPIRED: Expiry._on_ended,
    events.JOB_CANCELLED: Expiry._on_ended,
    events.JOB_REDRIVEN: Expiry._on_redriven,
    events.JOB_PURGED: Expiry._on_forgotten,
    events.JOB_FORGOTTEN: Expiry._on_forgotten,
    events.ARRAY_ENQUEUED: Expiry._on_array,
    events.ARRAY_ENDED: Expiry._on_array_ended,
    events.WORKER_OPENED: Expiry._on_worker_opened,
    events.WORKER_CLOSED: Expiry._on_worker_closed,
    events.SETTINGS_CHANGED: Expiry._on_settings,
}


def _keys(event: Event) -> Sequence[bytes]:
    """What timers go by: the jobs, or the array if the event is of one."""
    if event.run is not None:
        return ids_in(event.run.job_ids)
    return (_key(event),)


def _key(event: Event) -> bytes:
    return event.job_id or event.array_id[:PREFIX_BYTES]


def _first_record(state: GridState, job_ids: Sequence[JobId]) -> JobRecord | None:
    """One of the jobs of a run, which are alike, if any is still known."""
    return next((job for job_id in job_ids if (job := state.jobs.get(job_id))), None)
