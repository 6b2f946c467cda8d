"""The leader's clock: leases, delays, time limits of waiting and of being kept, workers' graces.

The state holds durations, never due times. The leader counts them down by its own monotonic clock
and proposes a command when one is over; the command names the attempt that is meant, so that a
timer that fires late does no harm. What was proposed is proposed again if it is not applied within
a lease (a proposal may be lost), and not before.

Leases are renewed here and nowhere else: a heartbeat is not worth a log entry. A new leader grants
every lease anew in full, because it cannot know how much of it was used, and waits for every worker
until its last lease ends, because it cannot know which are silent and which are gone; delays and
time limits go on from the stamps in the state.

Leases and graces count the time in which this member could hear of workers. While its process stood
still nobody could renew anything: such a gap does not count, and nothing is taken from a worker
within RENEWAL_MS after it.

An array may have the id of its first task, so timers of arrays go by the prefix of the id instead.
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

# Records read in one call after a change of leader; fewer at first, when everybody waits for it.
SCAN_RECORDS_MAX: Final = 1_000
SCAN_RECORDS_FIRST: Final = 100
SCAN_FIRST_MS: Final = 500
LEAP_MS: Final = 1_000  # `due` is called every few milliseconds: a longer gap is a standstill
NEVER_MS: Final = -(1 << 62)  # before everything that was ever set
RENEWAL_MS: Final = 1_000  # workers ping more often than this, and heartbeats wait to be read


class Expiry:
    """Timers of everything in the grid that ends by itself."""

    __slots__ = (
        "_delays",
        "_gained_ms",
        "_graces",
        "_keeps",
        "_leases",
        "_now_ms",
        "_renewed_ms",
        "_scan",
        "_settings",
        "_state",
        "_stood_ms",
        "_terms",
        "_time_ms",
        "_timers",
        "_unsent",
        "_vanished",
        "_waits",
    )

    def __init__(self) -> None:
        # Two clocks: leases and graces are due by `_heard_ms`, which stands still while the process
        # does; all others by `now_ms`. Everything is set between `gain` and `step_down`.
        self._leases: Timers[JobId] = Timers()  # of what is ASSIGNED
        # Attempt and lease_ms of each lease, for `renew`. Invariant: the same keys as `_leases`,
        # but for what `_lost` has taken out and found ended.
        self._terms: dict[JobId, tuple[int, int]] = {}
        self._delays: Timers[bytes] = Timers()  # of what is DELAYED, and of delayed arrays
        self._waits: Timers[bytes] = Timers()  # of what waits and has an expire_ms
        self._keeps: Timers[bytes] = Timers()  # of what has ended, until it is forgotten
        self._graces: Timers[WorkerId] = Timers()  # of workers without a session
        self._timers = (self._leases, self._delays, self._waits, self._keeps, self._graces)
        # The incarnation that each grace is for: a worker that came back under a new one is not
        # closed by the old one's timer.
        self._vanished: dict[WorkerId, int] = {}
        # Attempts (by number) whose worker had no session when they were assigned, and none since:
        # known not to have started. Empty but for a moment after a worker went.
        self._unsent: dict[JobId, int] = {}
        self._settings = Settings()  # of the state, as of the last event that changed them
        # What is still to be read of the state that leadership was gained with; None: all is read.
        self._scan: Iterator[JobRecord | ArrayRecord] | None = None
        self._gained_ms = 0  # `now_ms` of the change of leader
        self._now_ms = 0  # when this was last asked something
        self._stood_ms = 0  # how long the process stood still, in all
        self._renewed_ms = 0  # until then nothing is taken from a worker
        self._time_ms = 0  # the group's time at `_gained_ms`; stamps are of that clock
        self._state = GridState()

    # --- leadership

    def gain(self, state: GridState, now_ms: int, time_ms: int) -> None:
        """Leadership is gained: set every timer from the state. `now_ms` is of the clock that all
        other methods are given, `time_ms` is the group's, which stamps are of.

        A large state is not read at once, which could cost the leadership again: what is left of
        it is read by the calls of `due` that follow.
        """
        self.step_down()
        self._gained_ms, self._time_ms, self._now_ms = now_ms, time_ms, now_ms
        self._state = state
        self._settings = state.settings
        grace_ms = max(state.settings.worker_grace_ms, state.settings.lease_ms)
        for worker in state.workers.values():
            self._vanished[worker.worker_id] = worker.incarnation
            self._graces.set(worker.worker_id, self._heard_ms(now_ms) + grace_ms)
        self._scan = chain(list(state.arrays.values()), list(state.jobs.values()))
        self._scan_on(now_ms)

    def step_down(self) -> None:
        """Leadership is lost: from now on somebody else's timers count."""
        for timers in self._timers:
            timers.clear()
        self._terms.clear()
        self._vanished.clear()
        self._unsent.clear()
        self._scan = None

    # --- what happens to timers

    def observe(self, happened: Sequence[Event], state: GridState, now_ms: int) -> None:
        """Follow what became true by one applied entry."""
        handlers = HANDLERS
        for event in happened:
            handler = handlers.get(event.kind)
            if handler is not None:
                handler(self, event, state, now_ms)

    def renew(self, job_id: JobId, attempt: int, now_ms: int) -> None:
        """The worker of an attempt was heard of: its lease begins anew."""
        terms = self._terms.get(job_id)
        if terms is not None and terms[0] == attempt:
            self._leases.set(job_id, self._heard_ms(now_ms) + terms[1])

    def worker_vanished(self, worker_id: WorkerId, incarnation: int, now_ms: int) -> None:
        """A worker has no session: it may come back to its attempts within its grace."""
        self._vanished[worker_id] = incarnation
        self._graces.set(worker_id, self._heard_ms(now_ms) + self._settings.worker_grace_ms)

    def worker_silent(self, worker_id: WorkerId, incarnation: int, now_ms: int) -> None:
        """A worker is not heard, or hears nothing; its process may run on behind a broken network.
        It has until its last lease ends to come back, if that is longer than the grace: leases that
        are shorter end by themselves."""
        settings, state = self._settings, self._state
        self._vanished[worker_id] = incarnation
        worker = state.workers.get(worker_id)
        held = worker.held if worker is not None else ()
        grace_ms = max(
            settings.worker_grace_ms,
            settings.lease_ms,
            *(state.jobs[job_id].lease_ms for job_id in held),
        )
        self._graces.set(worker_id, self._heard_ms(now_ms) + grace_ms)

    def worker_returned(self, worker_id: WorkerId) -> None:
        """A worker is back."""
        self._vanished.pop(worker_id, None)
        self._graces.cancel(worker_id)

    def sent(self, job_ids: bytes) -> None:
        """Attempts are on their way to a worker: whether they start cannot be known any more."""
        if self._unsent:
            for job_id in ids_of(job_ids):
                self._unsent.pop(job_id, None)

    def not_sent(self, state: GridState, job_id: JobId, attempt: int) -> None:
        """The worker of this attempt has no session. If it gets none, nobody started it."""
        job = state.jobs.get(job_id)
        if job is not None and job.state is ASSIGNED and job.attempt == attempt:
            self._unsent[job_id] = attempt

    def given_up(self, state: GridState, job: JobRecord, jitter: Jitter) -> LostAttempt:
        """The running attempt of a job as lost."""
        not_started = self._unsent.get(job.job_id) == job.attempt if self._unsent else False
        return lost_attempt(state, job, jitter, not_started=not_started)

    # --- what is due

    def due(self, state: GridState, now_ms: int, jitter: Jitter, count_max: int) -> list[Command]:
        """Commands for what is over, of up to `count_max` jobs in all.

        Workers come first and all at once: what they held must not wait for its leases besides.
        """
        self._scan_on(now_ms)
        heard_ms = self._heard_ms(now_ms)
        if not any(timers.may_be_due(now_ms) for timers in self._timers):
            return []
        commands: list[Command] = []
        count = 0
        if now_ms < self._renewed_ms:
            heard_ms = NEVER_MS
        while count < count_max and (gone := self._graces.pop_due(heard_ms, 1)):
            close = self._close(state, gone[0], heard_ms, jitter)
            if close is not None:
                commands.append(close)
                count += 1 + len(close.lost)
        lost = self._lost(state, heard_ms, jitter, count_max - count)
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
        self, state: GridState, worker_id: WorkerId, heard_ms: int, jitter: Jitter
    ) -> CloseWorker | None:
        worker = state.workers.get(worker_id)
        incarnation = self._vanished[worker_id]
        if worker is None or worker.incarnation != incarnation:
            del self._vanished[worker_id]
            return None
        self._graces.set(worker_id, heard_ms + state.settings.lease_ms)
        held = [state.jobs[job_id] for job_id in worker.held]
        return CloseWorker(
            worker_id, incarnation, tuple(self.given_up(state, job, jitter) for job in held)
        )

    def _lost(
        self, state: GridState, heard_ms: int, jitter: Jitter, count_max: int
    ) -> tuple[LostAttempt, ...]:
        again_ms = heard_ms + state.settings.lease_ms
        lost = []
        for job_id in self._leases.pop_due(heard_ms, count_max):
            job = state.jobs.get(job_id)
            if job is not None and job.state is ASSIGNED:
                self._leases.set(job_id, again_ms)
                lost.append(self.given_up(state, job, jitter))
        return tuple(lost)

    def _released(self, state: GridState, now_ms: int, count_max: int) -> tuple[LostAttempt, ...]:
        again_ms = now_ms + state.settings.lease_ms
        released = []
        for key in self._delays.pop_due(now_ms, count_max):
            array, job = state.arrays.get(key), state.jobs.get(key)
            if array is not None and array.delayed:
                released.append(LostAttempt(array.array_id, 0))
            elif job is not None and job.state is DELAYED:
                released.append(LostAttempt(key, job.attempt))
            else:
                continue
            self._delays.set(key, again_ms)
        return tuple(released)

    def _expired(self, state: GridState, now_ms: int, count_max: int) -> tuple[JobId, ...]:
        again_ms = now_ms + state.settings.lease_ms
        expired = []
        for key in self._waits.pop_due(now_ms, count_max):
            if len(key) == PREFIX_BYTES:
                array = state.arrays.get(key)
                if array is None or not array.tasks_waiting:
                    continue  # every task has begun: none of them can wait too long any more
                expired.append(array.array_id)
            else:
                expired.append(key)
            self._waits.set(key, again_ms)
        return tuple(expired)

    def _forgotten(self, state: GridState, now_ms: int, count_max: int) -> tuple[JobId, ...]:
        again_ms = now_ms + state.settings.lease_ms
        forgotten = []
        for key in self._keeps.pop_due(now_ms, count_max):
            array = state.arrays.get(key)
            if array is not None and not array.forget_asked:  # else it goes with its last task
                forgotten.append(array.array_id)
            elif key in state.jobs:
                forgotten.append(key)
            else:
                continue
            self._keeps.set(key, again_ms)
        return tuple(forgotten)

    # --- the state, after a change of leader

    def _scan_on(self, now_ms: int) -> None:
        """Set the timers of the next records that were there when leadership was gained."""
        if self._scan is None:
            return
        count = SCAN_RECORDS_MAX
        if now_ms < self._gained_ms + SCAN_FIRST_MS:
            count = min(count, SCAN_RECORDS_FIRST)
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
        # What an event has set since is exact, and stays.
        job_id = record.job_id
        if record.state is ASSIGNED:
            if job_id not in self._terms:
                # From now: heartbeats since the change of leader found no lease to renew.
                self._start_lease(job_id, record.attempt, record.lease_ms, now_ms)
                self._graces.put_off(record.worker_id, self._heard_ms(now_ms) + record.lease_ms)
        elif record.end is not None:
            if job_id not in self._keeps:
                self._keeps.set(job_id, self._rest_ms(record.stamp_ms, self._keep_ms(record)))
        elif record.state is not BLOCKED:  # its times begin when it is blocked no more
            if record.state is DELAYED and job_id not in self._delays:
                self._delays.set(job_id, self._rest_ms(record.stamp_ms, record.delay_ms))
            if record.options.expire_ms and job_id not in self._waits:
                self._waits.set(job_id, self._rest_ms(record.stamp_ms, record.options.expire_ms))

    def _set_array(self, array: ArrayRecord) -> None:
        key = array.array_id[:PREFIX_BYTES]
        options = array.options
        if array.is_ended:
            if key not in self._keeps:
                keep_ms = options.result_ttl_ms or self._settings.result_ttl_ms
                self._keeps.set(key, self._rest_ms(array.stamp_ms, keep_ms))
            return
        if array.delayed and key not in self._delays:
            self._delays.set(key, self._rest_ms(array.stamp_ms, options.delay_ms))
        if options.expire_ms and array.tasks_waiting and key not in self._waits:
            self._waits.set(key, self._rest_ms(array.stamp_ms, options.expire_ms))

    def _rest_ms(self, stamp_ms: int, duration_ms: int) -> int:
        """When something is over that began at a stamp of the group's time."""
        passed_ms = elapsed_ms(self._state, stamp_ms, self._time_ms)
        return self._gained_ms + max(0, duration_ms - passed_ms)

    # --- events

    def _on_waiting(self, event: Event, state: GridState, now_ms: int) -> None:
        """Jobs wait: their delay runs, and their time limit of waiting."""
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
        self._terms.update(dict.fromkeys(job_ids, (event.attempt, event.lease_ms)))
        self._leases.set_all(job_ids, self._heard_ms(now_ms) + event.lease_ms)
        self._waits.cancel_all(job_ids)

    def _on_attempt_lost(self, event: Event, state: GridState, now_ms: int) -> None:
        self._end_leases(_keys(event))
        self._on_waiting(event, state, now_ms)

    def _on_ended(self, event: Event, state: GridState, now_ms: int) -> None:
        """Jobs are at their end, or the tasks of an array that never began are."""
        keys = _keys(event)
        self._delays.cancel_all(keys)
        self._waits.cancel_all(keys)
        if event.job_id or event.run is not None:
            self._end_leases(keys)
            # Of a run none can have left its end in the same entry again: they are done.
            record = _first_record(state, keys)
            if record is not None and record.end is not None:
                self._keeps.set_all(keys, now_ms + self._keep_ms(record))

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
            keep_ms = array.options.result_ttl_ms or self._settings.result_ttl_ms
            self._keeps.set(_key(event), now_ms + keep_ms)

    def _on_redriven(self, event: Event, state: GridState, now_ms: int) -> None:
        self._keeps.cancel(event.job_id)
        if event.array_id:
            self._keeps.cancel(event.array_id[:PREFIX_BYTES])
        self._on_waiting(event, state, now_ms)

    def _on_forgotten(self, event: Event, state: GridState, now_ms: int) -> None:
        self._keeps.cancel_all(_keys(event))

    def _on_worker_opened(self, event: Event, state: GridState, now_ms: int) -> None:
        """What a worker holds was announced by it, or is sent to it again: new leases."""
        worker = state.workers.get(event.worker_id)
        for job_id in worker.held if worker is not None else ():
            self.renew(job_id, state.jobs[job_id].attempt, now_ms)

    def _on_worker_closed(self, event: Event, state: GridState, now_ms: int) -> None:
        if event.worker_id not in state.workers:  # it may have come back in the same entry
            self.worker_returned(event.worker_id)

    def _on_settings(self, event: Event, state: GridState, now_ms: int) -> None:
        """New settings count for what begins from now on."""
        self._settings = state.settings

    def _heard_ms(self, now_ms: int) -> int:
        """The time in which workers could be heard, by which leases and graces go."""
        gap_ms = now_ms - self._now_ms
        self._now_ms = now_ms
        if gap_ms > LEAP_MS:
            self._stood_ms += gap_ms
            self._renewed_ms = now_ms + RENEWAL_MS
        return now_ms - self._stood_ms

    def _start_lease(self, job_id: JobId, attempt: int, lease_ms: int, now_ms: int) -> None:
        self._terms[job_id] = (attempt, lease_ms)
        self._leases.set(job_id, self._heard_ms(now_ms) + lease_ms)

    def _end_leases(self, job_ids: Sequence[JobId]) -> None:
        pop = self._terms.pop
        for job_id in job_ids:
            pop(job_id, None)
        self._leases.cancel_all(job_ids)
        if self._unsent:
            for job_id in job_ids:
                self._unsent.pop(job_id, None)

    def _keep_ms(self, record: JobRecord) -> int:
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
