"""The worker as a pure machine: one door, events in, instructions out. No IO, no clock, no chance.

An event may tell of many attempts, and an instruction name many: what comes together is answered
together, and slots are filled and credit given once for all of it.

Laws kept here:
- an attempt (job, attempt, fence) runs at most once in this process, however often it is delivered;
- an ack leaves only after its result is durable, and is repeated until the grid has taken it;
- a newer fence of a job ends the older attempt, whose result is dropped;
- credit granted and not yet spent never exceeds the free slots, and a delivery that repeats an
  attempt moves no credit;
- losing the leader ends nothing: attempts run on and are announced to the next leader, whose fence
  decides whether their results still count;
- a member that falls silent is left: one that does not answer a hello or a ping is not waited for,
  and the other members are tried at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

from rollq.base.ids import JobId
from rollq.base.jobs import AttemptRef, Status
from rollq.base.limits import GREETING_MS_MAX, PROGRAMS_MAX, SILENCE_MS_MAX, UNTAKEN_RESULTS_MAX
from rollq.base.stamp import Jitter
from rollq.roles.offers import Offers
from rollq.roles.redial import Redial
from rollq.roles.silence import Silence, Verdict
from rollq.roles.worker.attempts import (
    OFFERED,
    REFUSED,
    RUNNING,
    STOPPING,
    STORING,
    WAITING,
    Attempts,
    Held,
    Phase,
)
from rollq.roles.worker.orders import Orders
from rollq.roles.worker.plain import plain_ack
from rollq.roles.worker.session import IDLE_HEARTBEAT_MS, Link, WorkerSetup
from rollq.roles.worker.signals import (
    Connect,
    Connected,
    CpuBusy,
    CpuOk,
    Disconnect,
    Disconnected,
    DrainRequested,
    Event,
    Exit,
    Finished,
    Instruction,
    KillJob,
    ProgramsFound,
    Received,
    Started,
    StartFailed,
    Stored,
    StoredResult,
    Tick,
)
from rollq.wire import messages as wire
from rollq.wire.features import ALIVE, PROGRAMS

DOWN: Final = Link.DOWN
OPEN: Final = Link.OPEN


class WorkerMachine:
    """Attempts, results not yet taken, credit and the session. `handle` is the only mutator."""

    __slots__ = (
        "_attempts",
        "_beat_ms",
        "_cpu_ok",
        "_draining",
        "_found",
        "_granted",
        "_held_max",
        "_is_plain",
        "_knows_programs",
        "_link",
        "_now_ms",
        "_offers",
        "_orders",
        "_ping_ms",
        "_redial",
        "_setup",
        "_silence",
        "_unpaid",
        "_was_heard",
    )

    def __init__(
        self, setup: WorkerSetup, jitter: Jitter, stored: Sequence[StoredResult] = ()
    ) -> None:
        """Start from the results that the durable table still holds, oldest first."""
        self._setup = setup
        self._redial = Redial(setup.addresses, jitter)
        # A worker's hello is answered once it went through the log.
        self._silence = Silence(GREETING_MS_MAX, SILENCE_MS_MAX)
        self._offers = Offers()
        self._is_plain = False  # the session is one with a legacy leader
        self._was_heard = False  # in this session
        self._ping_ms = 0  # of the session: 0 if its member does not answer pings
        self._attempts = Attempts(setup.slots + setup.ahead)
        self._held_max = UNTAKEN_RESULTS_MAX + setup.slots + setup.ahead
        self._unpaid = 0  # assignments that the leader owes us and sends without credit
        self._granted = 0  # credit that the leader has not spent, as far as we know
        self._link = Link.DOWN
        self._now_ms = 0
        self._beat_ms = 0
        self._cpu_ok = True
        self._draining = False
        self._found: ProgramsFound | None = None  # what can be run here, as far as it was said
        # Whether the leader knows Announce, and counts no attempt for what is given back.
        self._knows_programs = False
        self._orders = Orders()  # of the event that is handled now
        for record in stored:
            self._attempts.hold(Held(record.ref, OFFERED, record.lease_ms, record=record))

    def handle(self, event: Event) -> list[Instruction]:
        """Take one event; what the shell must now do, in order."""
        self._orders = Orders()
        if self._link is not Link.LEFT:
            HANDLERS[type(event)](self, event)
            self._settle()
        return self._orders.given

    # --- views

    @property
    def holding(self) -> tuple[AttemptRef, ...]:
        """Every attempt that this worker answers for, running or finished and not taken."""
        return tuple([held.ref for held in self._attempts])

    @property
    def running_count(self) -> int:
        """Slots in use."""
        return self._attempts.running_count

    @property
    def credit(self) -> int:
        """Credit granted in this session and not spent."""
        return self._granted

    @property
    def is_plain(self) -> bool:
        """Whether the session is one with a legacy leader."""
        return self._is_plain

    @property
    def link(self) -> Link:
        """Where the session stands."""
        return self._link

    def phase(self, job_id: JobId) -> Phase | None:
        """Where the attempt of this job stands here."""
        held = self._attempts.get(job_id)
        return held.phase if held is not None else None

    def is_open(self, ref: AttemptRef) -> bool:
        """Whether this attempt waits or runs here."""
        held = self._attempts.find(ref)
        return held is not None and (held.in_slot or held.phase is WAITING)

    # --- the session

    def _on_started(self, event: Started) -> None:
        self._orders.give(Connect(self._redial.address, 0))

    def _on_connected(self, event: Connected) -> None:
        setup = self._setup
        self._link = Link.GREETING
        self._ping_ms = 0
        self._silence.opened(self._now_ms, self._redial.address)
        self._is_plain = self._offers.is_plain(self._redial.address)
        self._was_heard = False
        if self._is_plain:
            self._open_plainly()
            return
        self._orders.say(
            wire.HelloWorker(
                setup.worker_id,
                setup.patterns,
                setup.name,
                setup.incarnation,
                setup.slots,
                self.holding,
                setup.features,
                setup.blob_address,
            )
        )

    def _open_plainly(self) -> None:
        """A legacy leader answers no hello, and reads the first pattern alone."""
        setup = self._setup
        self._orders.say(wire.HelloWorker(setup.worker_id, setup.patterns[:1], plain=True))
        self._link = Link.OPEN
        self._knows_programs = False
        for held in [one for one in self._attempts if not one.ref.fence]:
            self._report(held)

    def _on_disconnected(self, event: Disconnected) -> None:
        if self._is_plain and self._link is OPEN and not self._was_heard:
            self._offers.hung_up(self._redial.address)
        self._lose_session()
        self._orders.give(Connect(*self._redial.failed()))

    def _lose_session(self) -> None:
        """Credit belongs to a session: the next leader starts at zero."""
        self._link = Link.DOWN
        self._granted = 0
        self._unpaid = 0

    def _on_received(self, event: Received) -> None:
        # An error is what a member of ours says to a plain hello; a legacy leader has none.
        self._was_heard |= any(type(message) is not wire.Error for message in event.messages)
        is_answer = self._link is OPEN
        self._silence.heard(self._now_ms, is_answer=is_answer)
        for message in event.messages:
            on_message = ON_MESSAGE.get(type(message))
            if on_message is not None:
                on_message(self, message)
                if self._link is DOWN:
                    break  # what follows was said in a session that is over

    def _on_welcome(self, message: wire.Welcome) -> None:
        self._link = Link.OPEN
        self._unpaid = message.owed
        self._ping_ms = message.ping_ms if ALIVE in message.features else 0
        self._knows_programs = PROGRAMS in message.features
        self._announce(frozenset())
        self._redial.welcomed()
        self._offers.welcomed()
        self._beat_ms = self._now_ms
        for held in self._attempts:
            self._report(held)

    def _on_not_leader(self, message: wire.NotLeader) -> None:
        self._lose_session()
        self._orders.give(Disconnect())
        self._orders.give(Connect(*self._redial.redirected(message.leader, message.members)))

    def _on_tick(self, event: Tick) -> None:
        self._now_ms = event.now_ms
        if self._link is not DOWN:
            self._maybe_leave_member()
        if self._link is not OPEN or self._is_plain:
            return
        lease_ms = min((held.lease_ms for held in self._attempts), default=3 * IDLE_HEARTBEAT_MS)
        if event.now_ms - self._beat_ms >= lease_ms // 3:
            self._orders.say(wire.Heartbeat(self.holding))
            self._beat_ms = self._now_ms

    def _maybe_leave_member(self) -> None:
        """Ping a member that says nothing, or leave it for the next."""
        is_greeting = self._link is Link.GREETING
        verdict = self._silence.judge(self._now_ms, is_greeting=is_greeting, ping_ms=self._ping_ms)
        if verdict is Verdict.PING:
            self._orders.say(wire.Ping())
        elif verdict is Verdict.HANG_UP:
            if is_greeting:
                self._offers.unanswered(self._redial.address)
            self._lose_session()
            self._orders.give(Disconnect(stuck=True))
            self._orders.give(Connect(*self._redial.silent()))

    # --- assignments

    def _on_assign(self, message: wire.AssignJob) -> None:
        ref = AttemptRef(message.job_id, message.attempt, message.fence)
        paid = not self._unpaid
        self._unpaid -= not paid
        attempts = self._attempts
        older = attempts.get(message.job_id)
        if older is not None and older.ref == ref:
            self._report(older)
            return
        if ref.fence and attempts.is_over(ref):
            return  # of a legacy leader every attempt has the same name
        self._granted -= paid and self._granted > 0
        if older is not None:
            self._supersede(older)
        held = Held(ref, WAITING, message.lease_ms)
        if self._draining or len(attempts) >= self._held_max:
            attempts.hold(held)
            self._give_back(held, "draining" if self._draining else "no room")
        elif attempts.hold_started(held):
            self._orders.start(message, ref)
        else:
            held.job = message
            attempts.hold(held)

    def _supersede(self, held: Held) -> None:
        """A newer attempt of the job came: this one can only be stale."""
        if held.in_slot:
            if held.phase is RUNNING:
                self._orders.give(KillJob(held.ref))
            self._attempts.drop(held)
        else:
            self._forget(held)

    def _on_stop(self, message: wire.StopJob) -> None:
        ref = AttemptRef(message.job_id, message.attempt, message.fence)
        held = self._attempts.find(ref)
        if held is None:
            self._stop_unknown(ref)
        elif held.phase is RUNNING:
            held.phase = STOPPING
            self._orders.give(KillJob(ref))
        elif held.phase is WAITING:
            self._store(held, StoredResult(ref, held.lease_ms, Status.CANCELLED))
        else:
            self._report(held)  # ended already: the grid decides what its result is worth

    def _stop_unknown(self, ref: AttemptRef) -> None:
        """Told to stop what never reached us: say that it is over, or the job would hang until its
        lease ends. It must not run if it is delivered after all."""
        if self._attempts.is_over(ref):
            return
        older = self._attempts.get(ref.job_id)
        if older is not None:
            self._supersede(older)
        held = Held(ref, STORING, IDLE_HEARTBEAT_MS)
        self._attempts.hold(held)
        self._store(held, StoredResult(ref, held.lease_ms, Status.CANCELLED))

    # --- executions

    def _on_finished(self, event: Finished) -> None:
        for record in event.results:
            held = self._ended(record.ref)
            if held is not None:
                self._store(held, record)

    def _on_start_failed(self, event: StartFailed) -> None:
        held = self._ended(event.ref)
        if held is not None:
            held.not_started = event.not_started
            self._refuse(held, event.detail)

    def _ended(self, ref: AttemptRef) -> Held | None:
        """The attempt whose execution ended, if anybody still asks for it."""
        if self._attempts.dropped_ended(ref):
            return None
        held = self._attempts.find(ref)
        return held if held is not None and held.in_slot else None

    def _store(self, held: Held, record: StoredResult) -> None:
        self._attempts.leave_slot(held, STORING)
        held.record = record
        self._orders.store(record)

    def _on_stored(self, event: Stored) -> None:
        find = self._attempts.find
        for ref in event.refs:
            held = find(ref)
            if held is None:
                self._orders.forget(ref)  # superseded while it was written
            elif held.phase is STORING or held.phase is OFFERED:  # or told once more
                held.phase = OFFERED
                self._report(held)

    def _give_back(self, held: Held, detail: str) -> None:
        """Another worker may have it: nothing of it was tried here."""
        held.not_started = True
        self._refuse(held, detail)

    def _refuse(self, held: Held, detail: str) -> None:
        self._attempts.leave_slot(held, REFUSED)
        held.detail = detail
        self._report(held)

    def _report(self, held: Held) -> None:
        """Tell the leader how an attempt ended, if it has and if there is a leader."""
        if self._link is not OPEN:
            return
        ref, record = held.ref, held.record
        if self._is_plain:
            result = None if ref.fence else plain_ack(held)
            if result is not None:  # such a leader does not say that it has taken one
                self._orders.say(result)
                self._forget(held)
        elif held.phase is REFUSED:
            why = held.detail, held.not_started
            self._orders.say(wire.Nack(ref.job_id, ref.attempt, ref.fence, *why))
        elif held.phase is OFFERED and record is not None:
            end = record.exit_code, record.signal, record.run_ms, record.peak_bytes
            files = record.blobs, record.fetched_bytes, record.held_bytes
            known = ref.job_id, ref.attempt, ref.fence, record.status, record.result
            self._orders.say(wire.AckJob(*known, *end, *files))

    def _on_taken(self, message: wire.AckTaken) -> None:
        held = self._attempts.get(message.job_id)
        if held is None or held.ref.attempt != message.attempt:
            return
        if held.phase is OFFERED or held.phase is REFUSED:
            self._forget(held)

    def _forget(self, held: Held) -> None:
        self._attempts.forget(held)
        if held.phase is OFFERED:
            self._orders.forget(held.ref)

    # --- room

    def _on_cpu_ok(self, event: CpuOk) -> None:
        self._cpu_ok = True

    def _on_cpu_busy(self, event: CpuBusy) -> None:
        self._cpu_ok = False

    def _on_programs(self, event: ProgramsFound) -> None:
        before = self._found.names if self._found is not None else frozenset()
        is_new = self._found != event
        self._found = event
        if is_new:
            self._announce(before)

    def _announce(self, before: frozenset[str]) -> None:
        """Say what changed since `before`. Of too many nothing is said but that."""
        found = self._found
        if found is None or not self._knows_programs or self._link is not OPEN:
            return
        if len(found.names) > PROGRAMS_MAX:
            self._orders.say(wire.Announce(is_any=True, ships=found.ships))
            return
        if len(before) > PROGRAMS_MAX:
            before = frozenset()
        added, removed = sorted(found.names - before), sorted(before - found.names)
        self._orders.say(wire.Announce(tuple(added), tuple(removed), ships=found.ships))

    def _on_drain(self, event: DrainRequested) -> None:
        self._draining = True
        if self._knows_programs:
            for held in self._attempts.waiting():
                self._give_back(held, "draining")

    def _settle(self) -> None:
        """After every event: fill free slots, then give back credit for those that stay free."""
        while (held := self._attempts.start_next()) is not None:
            assert held.job is not None, "a waiting attempt has its job"
            self._orders.start(held.job, held.ref)
            held.job = None
        if self._draining:
            self._maybe_leave()
            return
        free = self._attempts.free_count - self._granted - self._unpaid
        if not self._cpu_ok:
            # A busy computer runs one at a time; never none: others may keep it busy for ever.
            free = int(free == self._setup.slots + self._setup.ahead)
        if free <= 0 or self._link is not OPEN:
            return
        if len(self._attempts) < UNTAKEN_RESULTS_MAX:
            self._granted += free
            self._orders.say(wire.Credit(free))

    def _maybe_leave(self) -> None:
        if not self._attempts.idle:
            return
        if self._link is OPEN:
            self._orders.say(wire.Goodbye("drained"))
        if self._link is not DOWN:
            self._orders.give(Disconnect())
        self._link = Link.LEFT
        self._orders.give(Exit())


HANDLERS: dict[type, Callable[[WorkerMachine, Any], None]] = {
    Started: WorkerMachine._on_started,
    Connected: WorkerMachine._on_connected,
    Disconnected: WorkerMachine._on_disconnected,
    Received: WorkerMachine._on_received,
    Finished: WorkerMachine._on_finished,
    StartFailed: WorkerMachine._on_start_failed,
    Stored: WorkerMachine._on_stored,
    CpuOk: WorkerMachine._on_cpu_ok,
    CpuBusy: WorkerMachine._on_cpu_busy,
    Tick: WorkerMachine._on_tick,
    ProgramsFound: WorkerMachine._on_programs,
    DrainRequested: WorkerMachine._on_drain,
}

ON_MESSAGE: dict[type, Callable[[WorkerMachine, Any], None]] = {
    wire.Welcome: WorkerMachine._on_welcome,
    wire.NotLeader: WorkerMachine._on_not_leader,
    wire.AssignJob: WorkerMachine._on_assign,
    wire.StopJob: WorkerMachine._on_stop,
    wire.AckTaken: WorkerMachine._on_taken,
}
