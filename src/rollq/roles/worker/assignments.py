"""The life of each assignment: inputs, slot, execution, durable result, report. Pure.

    assigned → PREPARING → WAITING → RUNNING → ENDING → STORING → OFFERED → taken
                   └──────────┴─────────┴─────────┴────→ REFUSED ────────────┘

A function that runs in the shell's event loop is LINED in place of RUNNING: such calls run one
after the other, so many of them are queued in the one slot of the line, and calls that never wait
need no event of their own. A call that waits becomes RUNNING, and those behind it wait for a slot
again. The line may grow while no call waits, and shrinks to one when a call did.

An attempt without inputs to fetch begins in WAITING; if a slot is free it is RUNNING in the same
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

LINE_MAX: Final = 256  # calls in the line
GIVE_BACK_MS: Final = 2_000  # a prefetched job that has waited so long is returned
CACHE_MARK: Final = b'"CacheId"'
CACHED_FILE: Final = re.compile(rb'"CacheId"\s*:\s*"')  # in the body of a job


class Assignments:
    """Handles the attempts of one worker. Every instruction goes to `orders`.

    Attributes:
        attempts: The held attempts; for reading.
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
        self._line_max = 1  # 1 <= _line_max <= LINE_MAX
        self._now_ms = 0  # of the last tick
        self.attempts = Attempts(setup.slots)
        for record in stored:
            self.attempts.hold(Held(record.ref, OFFERED, record.lease_ms, record=record))

    # --- messages of the leader

    def assigned(self, message: wire.AssignJob, *, is_draining: bool) -> bool:
        """Handle an assignment; returns whether it is a new one."""
        ref = AttemptRef(message.job_id, message.attempt, message.fence)
        attempts = self.attempts
        older = attempts.get(message.job_id)
        if older is not None and older.ref == ref:
            self.report(older)
            return False
        if ref.fence and attempts.is_over(ref):
            return False  # for a legacy leader all attempts have the same name
        if older is not None:
            self._supersede(older)
        if message.expect_ms:
            self._window.ran(message.expect_ms)  # counts as a run
        has_inputs = bool(message.blobs or message.parents) or _names_cache(message)
        phase = PREPARING if has_inputs else WAITING
        held = Held(ref, phase, message.lease_ms, message, has_inputs, self._now_ms)
        is_full = len(attempts) >= self._held_max
        attempts.hold(held)
        if is_draining or is_full:
            held.has_inputs = False  # nothing was fetched yet
            self.give_back(held, "draining" if is_draining else "too many results are not taken")
        elif has_inputs:
            self._orders.prepare(message, ref)
        else:
            self.fill_slots()
        return True

    def assigned_run(self, message: AssignRun, *, is_draining: bool) -> int | None:
        """Handle a run whose attempts are all new and have no inputs; returns their number. None:
        they must be handled one by one."""
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
        """The grid stops an attempt."""
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
            self.report(held)  # ended already: the grid decides about its result

    def taken(self, message: wire.AckTaken) -> None:
        """The grid has taken a report."""
        held = self.attempts.get(message.job_id)
        if held is None or held.ref.attempt != message.attempt:
            return
        if held.phase is OFFERED or held.phase is REFUSED:
            self._forget(held)

    def taken_run(self, message: AcksTaken) -> None:
        """The grid has taken several reports."""
        over = self.attempts.forget_taken(ids_of(message.job_ids), message.attempts)
        self._orders.forget_all([held.ref for held in over if held.phase is OFFERED])

    def refused_by_leader(self, message: wire.Error) -> None:
        """The leader refused a request. If it lacks outputs that an ack refers to, upload them
        again before the ack is repeated."""
        if message.code != ErrorCode.BLOB_MISSING:
            return
        held = self.attempts.get(message.request_id)
        if held is not None and held.phase is OFFERED and held.record is not None:
            self._orders.give(UploadOutputs(held.record))

    def _supersede(self, held: Held) -> None:
        """A newer attempt of the job was assigned: this one is stale."""
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
        """A stop of an attempt that never arrived: report it as cancelled, or the job would hang
        until its lease expires. It must not run if it is delivered later."""
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
        """The inputs of these attempts are complete: they wait for a slot."""
        for ref in refs:
            held = self.attempts.find(ref)
            if held is not None and held.phase is PREPARING:
                self.attempts.wait(held, self._now_ms)

    def inputs_failed(self, ref: AttemptRef, error: RollqError) -> None:
        """Fail the job if its names or digests are invalid, as every worker would find. Return it
        for all other errors, also damaged data: another worker may succeed."""
        held = self.attempts.find(ref)
        if held is None or held.phase is not PREPARING:
            return
        held.has_inputs = False  # the shell has removed them
        if isinstance(error, RemoteError) and error.code is not ErrorCode.BLOB_CORRUPT:
            assert held.job is not None, "it has not started"
            held.phase = ENDING
            self._orders.give(FailJob(held.job, ref, str(error)))
        else:
            # These are faults of this worker, so the attempt does not count: a worker with a full
            # disk would use up all attempts of its jobs.
            held.not_started = error.code in (ErrorCode.NO_PROGRAM, ErrorCode.DISK_FULL)
            self._refuse(held, str(error))

    def fill_slots(self) -> None:
        """Start waiting attempts while a slot is free, oldest first. A call joins the line; if the
        line is full, it soon is shorter."""
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
        """Return an attempt that has not started, for another worker."""
        self._drop_inputs(held)
        held.not_started = True
        self._refuse(held, detail)

    def give_back_all(self, detail: str, *, with_line: bool = False) -> None:
        """Return all attempts that have not started."""
        for held in self.attempts.not_begun(with_line=with_line):
            self.give_back(held, detail)

    def tick(self, now_ms: int) -> None:
        """Return attempts that wait behind a long run."""
        self._now_ms = now_ms
        oldest_ms = self.attempts.oldest_start_ms()
        # A start is dated by the tick before it, so the run may be up to LOOK_MS shorter.
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
        """Executions ended; free their slots before their results are known."""
        for ref, run_ms in runs:
            self._window.ran(run_ms)
            self.attempts.free_slot(ref)

    def calls_ended(self, results: Sequence[StoredResult], ran_ms: float) -> None:
        """Calls of the line ended without waiting; the line may grow."""
        self._window.ran_alike(ran_ms, len(results))
        self._line_max = min(2 * self._line_max, LINE_MAX)
        self.finished(results)

    def call_waits(self, ref: AttemptRef, rest: Sequence[AttemptRef]) -> None:
        """A call of the line waits: it takes a slot of its own, and the rest waits again."""
        self._line_max = 1
        self.attempts.leave_line(ref, self._now_ms)
        if rest:
            self.attempts.back_in_front(rest, self._now_ms)

    def finished(self, results: Sequence[StoredResult]) -> None:
        """Store the results of executions."""
        self._orders.store_all(self.attempts.end_all(results))

    def start_failed(self, ref: AttemptRef, detail: str, *, not_started: bool) -> None:
        """An execution could not be started."""
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
        """The outputs of a result are lost: nack, so the job runs again."""
        held = self.attempts.find(ref)
        if held is not None and held.phase is OFFERED:
            self._orders.forget(ref)
            self._refuse(held, detail)

    def _ended(self, ref: AttemptRef) -> Held | None:
        """The attempt of an ended execution, unless it was superseded."""
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
        """A session is open: report all that is not taken."""
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
        """Report the end of an attempt, if it has ended and a session is open."""
        if self._session.state is not OPEN:
            return
        if self._session.is_legacy:
            result = None if held.ref.fence else legacy_ack(held)
            if result is not None:  # a legacy leader does not confirm reports
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
    """Whether the job has attempts left if returning it counts as one, as for old leaders."""
    return job.attempt == 1 and (job.options is None or job.options.max_attempts != 1)
