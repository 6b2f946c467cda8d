"""What becomes of each assignment: inputs, slot, execution, durable result, report. Pure.

    assigned → PREPARING → WAITING → RUNNING → ENDING → STORING → OFFERED → taken
                   └──────────┴─────────┴─────────┴────→ REFUSED ────────────┘

A function that runs in the shell's loop is LINED in place of RUNNING: such calls run one after the
other, so many of them stand in line for one slot, and those that never wait need no event of their
own. One that waits is RUNNING from then on, and those behind it wait for a slot again. How many
stand in line grows while none waits, and begins with one again when one did.

An attempt without inputs to bring begins in WAITING; one that need not wait is RUNNING in the same
event. STOPPING is RUNNING after a stop.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import count, groupby, repeat
from typing import Final

from rollq.base.errors import ErrorCode, RemoteError, RollqError
from rollq.base.jobs import AttemptRef, Status
from rollq.base.limits import (
    DETAIL_BYTES_MAX,
    LOOK_MS,
    UNTAKEN_RESULTS_MAX,
)
from rollq.base.staged import ids_of
from rollq.roles.worker.acks import ack_of, ack_runs, legacy_ack
from rollq.roles.worker.attempts import (
    ENDING,
    LINED,
    OFFERED,
    PREPARING,
    REFUSED,
    RUNNING,
    STOPPING,
    STORING,
    WAITING,
    Attempts,
    Held,
)
from rollq.roles.worker.credit import AHEAD_MS, PrefetchWindow
from rollq.roles.worker.orders import Orders
from rollq.roles.worker.session import IDLE_HEARTBEAT_MS, OPEN, LeaderSession, WorkerSetup
from rollq.roles.worker.signals import FailJob, KillJob, StoredResult, UploadOutputs
from rollq.wire import messages as wire
from rollq.wire.run_messages import AckRun, AcksTaken, AssignRun, assignments_of

LINE_MAX: Final = 256  # calls that stand in line
GIVE_BACK_MS: Final = 2_000  # what was prefetched and waited so long after all goes back
CACHE_MARK: Final = b'"CacheId"'
CACHED_FILE: Final = re.compile(rb'"CacheId"\s*:\s*"')  # in the body of a job


class Assignments:
    """The rules of one worker. Every instruction goes to `orders`.

    Attributes:
        attempts: What is held; for looking at.
    """

    __slots__ = (
        "_calls",
        "_held_max",
        "_line_max",
        "_now_ms",
        "_orders",
        "_session",
        "_window",
        "attempts",
    )

    def __init__(
        self,
        setup: WorkerSetup,
        session: LeaderSession,
        window: PrefetchWindow,
        orders: Orders,
        stored: Sequence[StoredResult],
    ) -> None:
        self._session = session
        self._window = window
        self._orders = orders
        self._held_max = UNTAKEN_RESULTS_MAX + setup.slots + setup.ahead
        self._calls = setup.calls
        self._line_max = 1  # 1 <= it <= LINE_MAX
        self._now_ms = 0  # of the last tick
        self.attempts = Attempts(setup.slots)
        for record in stored:
            self.attempts.hold(Held(record.ref, OFFERED, record.lease_ms, record=record))

    # --- from the leader

    def assigned(self, message: wire.AssignJob, *, is_draining: bool) -> bool:
        """An assignment came; whether it is a new one."""
        ref = AttemptRef(message.job_id, message.attempt, message.fence)
        attempts = self.attempts
        older = attempts.get(message.job_id)
        if older is not None and older.ref == ref:
            self.report(older)
            return False
        if ref.fence and attempts.is_over(ref):
            return False  # of a legacy leader every attempt has the same name
        if older is not None:
            self._supersede(older)
        if message.expect_ms:
            self._window.ran(message.expect_ms)  # as if it had been seen already
        has_inputs = bool(message.blobs or message.parents) or _names_cache(message)
        phase = PREPARING if has_inputs else WAITING
        held = Held(ref, phase, message.lease_ms, message, has_inputs, self._now_ms)
        is_full = len(attempts) >= self._held_max
        attempts.hold(held)
        if is_draining or is_full:
            held.has_inputs = False  # nothing was brought yet
            self.give_back(held, "draining" if is_draining else "too many results are not taken")
        elif has_inputs:
            self._orders.prepare(message, ref)
        else:
            self.fill_slots()
        return True

    def assigned_run(self, message: AssignRun, *, is_draining: bool) -> int | None:
        """A run came, all of whose attempts are new and need nothing brought: how many they are.
        None: they must be looked at one by one."""
        ids = tuple(ids_of(message.job_ids))
        attempts = self.attempts
        if (
            is_draining
            or message.blobs
            or len(attempts) + len(ids) > self._held_max
            or CACHE_MARK in b"".join(message.bodies)
            or not attempts.are_new(ids)
        ):
            return None
        if message.expect_ms:
            self._window.ran_alike(message.expect_ms, len(ids))
        refs = list(map(AttemptRef, ids, repeat(message.attempt), count(message.fence)))
        jobs = assignments_of(message)
        fits_line = message.exec_name in self._calls and attempts.may_line_up(
            len(ids), self._line_max
        )
        same = repeat(LINED if fits_line else WAITING), repeat(message.lease_ms)
        held = map(Held, refs, *same, jobs, repeat(False), repeat(self._now_ms))
        attempts.hold_all(ids, held, in_line=fits_line)
        if fits_line:
            self._orders.call(list(zip(jobs, refs, strict=True)))
        return len(ids)

    def stop(self, message: wire.StopJob) -> None:
        """The grid wants an attempt to end."""
        ref = AttemptRef(message.job_id, message.attempt, message.fence)
        held = self.attempts.find(ref)
        if held is None:
            self._stop_unknown(ref)
        elif held.phase <= WAITING:
            self._drop_inputs(held)
            self._store(held, StoredResult(ref, held.lease_ms, Status.CANCELLED))
        elif held.phase <= ENDING and held.phase is not STOPPING:
            if held.phase is RUNNING:
                held.phase = STOPPING
            self._orders.give(KillJob(ref))
        else:
            self.report(held)  # ended already: the grid decides what its result is worth

    def taken(self, message: wire.AckTaken) -> None:
        """The grid has taken a report."""
        held = self.attempts.get(message.job_id)
        if held is None or held.ref.attempt != message.attempt:
            return
        if held.phase is OFFERED or held.phase is REFUSED:
            self._forget(held)

    def taken_run(self, message: AcksTaken) -> None:
        """The grid has taken reports."""
        over = self.attempts.forget_taken(ids_of(message.job_ids), message.attempts)
        self._orders.forget_all([held.ref for held in over if held.phase is OFFERED])

    def refused_by_leader(self, message: wire.Error) -> None:
        """A request of ours was refused. If that is an ack because the group lacks outputs that it
        refers to, they are uploaded again before it is repeated."""
        if message.code != ErrorCode.BLOB_MISSING:
            return
        held = self.attempts.get(message.request_id)
        if held is not None and held.phase is OFFERED and held.record is not None:
            self._orders.give(UploadOutputs(held.record))

    def _supersede(self, held: Held) -> None:
        """A newer attempt of the job came: this one can only be stale."""
        if held.phase <= WAITING:
            self._drop_inputs(held)
            self._forget(held)
        elif held.phase <= ENDING:
            if held.phase is not STOPPING:
                self._orders.give(KillJob(held.ref))
            self.attempts.drop(held)
        else:
            self._forget(held)

    def _stop_unknown(self, ref: AttemptRef) -> None:
        """Told to stop what never reached us: report that it is over, or the job would hang until
        its lease ends. It must not run if it is delivered after all."""
        if self.attempts.is_over(ref):
            return
        older = self.attempts.get(ref.job_id)
        if older is not None:
            self._supersede(older)
        held = Held(ref, ENDING, IDLE_HEARTBEAT_MS)
        self.attempts.hold(held)
        self._store(held, StoredResult(ref, held.lease_ms, Status.CANCELLED))

    # --- inputs and slots

    def inputs_ready(self, refs: Sequence[AttemptRef]) -> None:
        """These wait for a slot from now on."""
        for ref in refs:
            held = self.attempts.find(ref)
            if held is not None and held.phase is PREPARING:
                self.attempts.wait(held, self._now_ms)

    def inputs_failed(self, ref: AttemptRef, error: RollqError) -> None:
        """Fail the job if its own names or digests are wrong, for every worker would find that.
        Everything else, bytes that came damaged too, may go better elsewhere."""
        held = self.attempts.find(ref)
        if held is None or held.phase is not PREPARING:
            return
        held.has_inputs = False  # the shell has cleared them away
        if isinstance(error, RemoteError) and error.code is not ErrorCode.BLOB_CORRUPT:
            assert held.job is not None, "it has not started"
            held.phase = ENDING
            self._orders.give(FailJob(held.job, ref, str(error)))
        else:
            # It is this worker that lacks something, so the attempt does not count: a worker whose
            # disk is full would use up every attempt of the jobs that it is given.
            held.not_started = error.code in (ErrorCode.NO_PROGRAM, ErrorCode.DISK_FULL)
            self._refuse(held, str(error))

    def fill_slots(self) -> None:
        """Start what waits while a slot is free, oldest first. A call takes its place in line; if
        the line is as long as it may be, it will soon be shorter."""
        attempts = self.attempts
        while (held := attempts.next_waiting()) is not None:
            if held.job is not None and held.job.exec_name in self._calls:
                room = self._line_max - attempts.lined_count
                if room <= 0 or not (attempts.lined_count or attempts.has_room):
                    return
                lined = attempts.line_up(self._calls, room)
                self._orders.call([(one.job, one.ref) for one in lined if one.job is not None])
                continue
            if attempts.start_next(self._now_ms) is None:
                return
            assert held.job is not None, "a waiting attempt has its job"
            self._orders.start(held.job, held.ref)
            held.job = None
            held.has_inputs = False

    def give_back(self, held: Held, detail: str) -> None:
        """Another worker may have it: nothing of it was tried here."""
        self._drop_inputs(held)
        held.not_started = True
        self._refuse(held, detail)

    def give_back_all(self, detail: str, *, with_line: bool = False) -> None:
        """Give back all that has not begun."""
        for held in self.attempts.not_begun(with_line=with_line):
            self.give_back(held, detail)

    def tick(self, now_ms: int) -> None:
        """Give back what waits behind something long."""
        self._now_ms = now_ms
        oldest_ms = self.attempts.oldest_start_ms()
        # A start is dated by the tick before it, so it may have run for LOOK_MS less.
        self._window.is_stuck = oldest_ms is not None and now_ms - oldest_ms > AHEAD_MS + LOOK_MS
        for held in self.attempts.waited_since(now_ms - GIVE_BACK_MS):
            assert held.job is not None, "a waiting attempt has its job"
            if self._session.returns_are_free or may_run_again(held.job):
                self.give_back(held, "prefetched, and no slot came free")

    def _drop_inputs(self, held: Held) -> None:
        if held.has_inputs:
            held.has_inputs = False
            self._orders.drop_inputs(held.ref)

    # --- ends

    def slots_freed(self, runs: Sequence[tuple[AttemptRef, float]]) -> None:
        """Executions are over; the next may start while we write down how these ended."""
        for ref, run_ms in runs:
            self._window.ran(run_ms)
            self.attempts.free_slot(ref)

    def calls_ended(self, results: Sequence[StoredResult], ran_ms: float) -> None:
        """Calls of the line ended without waiting; the next ones may follow them."""
        self._window.ran_alike(ran_ms, len(results))
        self._line_max = min(2 * self._line_max, LINE_MAX)
        self.finished(results)

    def call_waits(self, ref: AttemptRef, rest: Sequence[AttemptRef]) -> None:
        """A call did not end at once."""
        self._line_max = 1
        self.attempts.leave_line(ref, self._now_ms)
        if rest:
            self.attempts.back_in_front(rest, self._now_ms)

    def finished(self, results: Sequence[StoredResult]) -> None:
        """Store how executions ended."""
        self._orders.store_all(self.attempts.end_all(results))

    def start_failed(self, ref: AttemptRef, detail: str, *, not_started: bool) -> None:
        """It could not be run here."""
        held = self._ended(ref)
        if held is not None:
            held.not_started = not_started
            self._refuse(held, detail)

    def stored(self, refs: Sequence[AttemptRef]) -> None:
        """Results are durable: ack them."""
        offered, superseded = self.attempts.offer_all(refs)
        self._orders.forget_all(superseded)
        self._report_offered(offered)

    def upload_failed(self, ref: AttemptRef, detail: str) -> None:
        """The outputs of a result are lost: the grid is told to run the job again."""
        held = self.attempts.find(ref)
        if held is not None and held.phase is OFFERED:
            self._orders.forget(ref)
            self._refuse(held, detail)

    def _ended(self, ref: AttemptRef) -> Held | None:
        """The attempt whose execution ended, if it still counts."""
        if self.attempts.dropped_ended(ref):
            return None
        held = self.attempts.find(ref)
        return held if held is not None and held.phase <= ENDING else None

    def _store(self, held: Held, record: StoredResult) -> None:
        self.attempts.end(held, STORING)
        held.record = record
        self._orders.store(record)

    def _refuse(self, held: Held, detail: str) -> None:
        self.attempts.end(held, REFUSED)
        held.detail = detail[:DETAIL_BYTES_MAX]
        self.report(held)

    # --- reports

    def report_all(self) -> None:
        """A session is open: tell its leader all that it has not taken yet."""
        for is_offered, group in groupby(list(self.attempts), lambda held: held.phase is OFFERED):
            if is_offered:
                self._report_offered(list(group))
            else:
                for held in group:
                    self.report(held)

    def _report_offered(self, offered: list[Held]) -> None:
        if self._session.takes_runs and self._session.state is OPEN:
            for run in ack_runs([ack_of(held) for held in offered]):
                self._orders.send(run)
        else:
            for held in offered:
                self.report(held)

    def report(self, held: Held) -> None:
        """Tell the leader how an attempt ended, if it has and if there is a leader."""
        if self._session.state is not OPEN:
            return
        if self._session.is_legacy:
            result = None if held.ref.fence else legacy_ack(held)
            if result is not None:  # such a leader does not say that it has taken one
                self._orders.send(result)
                self._forget(held)
            return
        if held.phase is REFUSED:
            ref, why = held.ref, (held.detail, held.not_started)
            self._orders.send(wire.Nack(ref.job_id, ref.attempt, ref.fence, *why))
        elif held.phase is OFFERED:
            ack = ack_of(held)
            self._orders.send(AckRun((ack,)) if self._session.takes_runs else ack)

    def _forget(self, held: Held) -> None:
        self.attempts.forget(held)
        if held.phase is OFFERED:
            self._orders.forget(held.ref)


def _names_cache(job: wire.AssignJob) -> bool:
    return CACHED_FILE.search(job.body) is not None


def may_run_again(job: wire.AssignJob) -> bool:
    """Whether giving it back leaves it another attempt, with a leader that counts that as one."""
    return job.attempt == 1 and (job.options is None or job.options.max_attempts != 1)
