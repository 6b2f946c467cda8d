"""The worker as a pure machine: events in, instructions out. No IO, no clock, no random numbers.

An event may be about many attempts, and an instruction name many: events of one turn are answered
together, slots are filled once for all of them, and credit is granted once a turn (`TurnOver`).

Invariants of the machine and its parts (`session`, `assignments`, `attempts`, `credit`):
- an attempt (job, attempt, fence) runs at most once in this process, however often it is delivered;
- at most `slots` executions are under way, and waiting attempts start oldest first; calls in the
  shell's event loop share one slot (the line), and a call that waits takes a slot of its own;
- an ack is sent only after its result is durable, and is repeated until the grid has taken it;
- a newer fence of a job ends the older attempt, whose result is dropped;
- a grant leaves the attempts in hand, granted and owed within slots and prefetch window; a repeated
  delivery takes no credit;
- a host above its CPU cap gets one job at a time;
- prefetched jobs behind a long run are returned, and so are all that have not started when the
  worker leaves or is drained;
- losing the leader ends nothing: attempts run on and are announced to the next leader, whose fence
  decides whether their results still count;
- a member that does not answer a hello or a ping is left, and the other members are tried at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rollq.base.ids import JobId
from rollq.base.jobs import AttemptRef
from rollq.base.limits import UNTAKEN_RESULTS_MAX
from rollq.base.needs import WorkerLoad
from rollq.base.stamp import Jitter
from rollq.roles.worker.assignments import Assignments
from rollq.roles.worker.attempts import ENDING, AttemptPhase
from rollq.roles.worker.credit import SessionCredit
from rollq.roles.worker.orders import Orders
from rollq.roles.worker.session import DOWN, OPEN, LeaderSession, LinkState, WorkerSetup
from rollq.roles.worker.signals import (
    CallsEnded,
    CallWaits,
    Connected,
    CpuBusy,
    CpuOk,
    Disconnected,
    DrainRequested,
    Event,
    Exit,
    Finished,
    InputsFailed,
    InputsReady,
    Instruction,
    LoadMeasured,
    MessageReceived,
    ProgramsFound,
    PublishRequested,
    ResultStored,
    SlotsFreed,
    Started,
    StartFailed,
    StopRequested,
    StoredResult,
    Tick,
    TurnOver,
    UploadFailed,
)
from rollq.wire import messages as wire
from rollq.wire.run_messages import AcksTaken, AssignRun, assignments_of


class WorkerMachine:
    """Session, attempts and credit. `handle` is the only mutator."""

    __slots__ = (
        "_assignments",
        "_attempts",
        "_credit",
        "_draining",
        "_has_acked",
        "_has_left",
        "_is_drained",
        "_load",
        "_orders",
        "_reported_capped",
        "_session",
        "_setup",
        "_was_busy",
    )

    def __init__(
        self, setup: WorkerSetup, jitter: Jitter, stored: Sequence[StoredResult] = ()
    ) -> None:
        """Start with the results in the durable table, oldest first."""
        self._setup = setup
        self._orders = Orders()
        self._credit = SessionCredit(setup.slots, setup.ahead)
        self._session = LeaderSession(setup, jitter, self._orders)
        self._assignments = Assignments(
            setup, self._session, self._credit.window, self._orders, stored
        )
        self._attempts = self._assignments.attempts
        self._draining = False  # it leaves when it is idle
        self._is_drained = False  # drained by the leader of this session
        self._has_acked = False  # since the last TurnOver
        self._was_busy = False  # above the CPU cap since the last heartbeat
        self._reported_capped = False  # as the last heartbeat reported
        self._load: WorkerLoad | None = None  # last measured
        self._has_left = False  # drained or stopped: events are ignored

    def handle(self, event: Event) -> list[Instruction]:
        """Handle one event; returns the shell's instructions, in order."""
        if not self._has_left:
            HANDLERS[type(event)](self, event)
            self._settle()
        return self._orders.take()

    # --- views

    @property
    def holding(self) -> tuple[AttemptRef, ...]:
        """All attempts of this worker: running, or ended and not taken."""
        return tuple([held.ref for held in self._attempts])

    @property
    def running_count(self) -> int:
        """Slots in use."""
        return self._attempts.running_count + (self._attempts.lined_count > 0)

    @property
    def waiting_count(self) -> int:
        """Attempts that wait for a slot."""
        return self._attempts.waiting_count

    @property
    def credit(self) -> int:
        """Credit granted in this session and not spent."""
        return self._credit.granted

    @property
    def is_legacy(self) -> bool:
        """Whether the session is with a legacy leader."""
        return self._session.is_legacy

    @property
    def link(self) -> LinkState:
        """The state of the session."""
        return self._session.state

    def phase(self, job_id: JobId) -> AttemptPhase | None:
        """The phase of the attempt of this job."""
        held = self._attempts.get(job_id)
        return held.phase if held is not None else None

    def is_open(self, ref: AttemptRef) -> bool:
        """Whether the work of this attempt has not ended."""
        held = self._attempts.find(ref)
        return held is not None and held.phase <= ENDING

    # --- the session

    def _on_started(self, event: Started) -> None:
        self._session.dial()

    def _on_connected(self, event: Connected) -> None:
        self._session.greet(self.holding)
        if self._session.is_legacy:  # open without a Welcome
            self._assignments.report_all()

    def _on_disconnected(self, event: Disconnected) -> None:
        self._session.lost(event.refusal)
        self._credit.reset()

    def _on_received(self, event: MessageReceived) -> None:
        self._session.heard(event.messages)
        for message in event.messages:
            on_message = ON_MESSAGE.get(type(message))
            if on_message is not None:
                on_message(self, message)
                if self._session.state is DOWN:
                    break  # the rest belongs to a closed session

    def _on_welcome(self, message: wire.Welcome) -> None:
        self._session.welcomed(message)
        self._is_drained = False
        self._credit.reset(message.owed)
        self._assignments.report_all()
        if self._load is not None:  # the leader need not wait for the next heartbeat
            self._renew()

    def _on_not_leader(self, message: wire.NotLeader) -> None:
        self._session.redirected(message)
        self._credit.reset()

    def _on_assign(self, message: wire.AssignJob) -> None:
        is_draining = self._draining or self._is_drained
        is_new = self._assignments.assigned(message, is_draining=is_draining)
        self._credit.spend(is_new=is_new)

    def _on_assign_run(self, message: AssignRun) -> None:
        is_draining = self._draining or self._is_drained
        count = self._assignments.assigned_run(message, is_draining=is_draining)
        if count is not None:
            self._credit.spend_many(count)
            return
        for one in assignments_of(message):
            self._on_assign(one)

    def _on_drained(self, message: wire.Drain) -> None:
        """Credit is granted while drained, too: it counts once the drain ends."""
        self._is_drained = message.is_drained
        if message.is_drained:
            self._assignments.give_back_all("draining")

    def _on_stop_job(self, message: wire.StopJob) -> None:
        self._assignments.stop(message)

    def _on_taken(self, message: wire.AckTaken) -> None:
        self._assignments.taken(message)

    def _on_taken_run(self, message: AcksTaken) -> None:
        self._assignments.taken_run(message)

    def _on_error(self, message: wire.Error) -> None:
        self._assignments.refused_by_leader(message)

    def _on_programs(self, event: ProgramsFound) -> None:
        self._session.found(event)

    def _on_publish(self, event: PublishRequested) -> None:
        self._session.publish(event.message)

    def _on_tick(self, event: Tick) -> None:
        self._session.tick(event.now_ms)
        if self._session.state is DOWN:
            self._credit.reset()
        self._assignments.tick(event.now_ms)
        if self._session.is_renewal_due([held.lease_ms for held in self._attempts]):
            self._renew()

    # --- executions

    def _on_inputs_ready(self, event: InputsReady) -> None:
        self._assignments.inputs_ready(event.refs)

    def _on_inputs_failed(self, event: InputsFailed) -> None:
        self._assignments.inputs_failed(event.ref, event.error)

    def _on_slots_freed(self, event: SlotsFreed) -> None:
        self._assignments.slots_freed(event.runs)

    def _on_calls_ended(self, event: CallsEnded) -> None:
        self._assignments.calls_ended(event.results, event.ran_ms)

    def _on_call_waits(self, event: CallWaits) -> None:
        self._assignments.call_waits(event.ref, event.rest)
        if self._is_drained:  # calls behind it in the line have not started
            self._assignments.give_back_all("draining")

    def _on_finished(self, event: Finished) -> None:
        self._assignments.finished(event.results)

    def _on_start_failed(self, event: StartFailed) -> None:
        self._assignments.start_failed(event.ref, event.detail, not_started=event.not_started)

    def _on_stored(self, event: ResultStored) -> None:
        self._has_acked = True
        self._assignments.stored(event.refs)

    def _on_upload_failed(self, event: UploadFailed) -> None:
        self._assignments.upload_failed(event.ref, event.detail)

    # --- credit

    def _on_cpu_ok(self, event: CpuOk) -> None:
        self._credit.cpu_busy = False

    def _on_cpu_busy(self, event: CpuBusy) -> None:
        self._credit.cpu_busy = self._was_busy = True
        if (
            not self._reported_capped
            and self._session.state is OPEN
            and not self._session.is_legacy
        ):
            self._renew()

    def _on_load(self, event: LoadMeasured) -> None:
        self._load = event.load

    def _renew(self) -> None:
        """Send a heartbeat. A load that swings around the cap is reported as above it, until it
        stayed below it from one heartbeat to the next."""
        self._reported_capped = self._was_busy
        self._session.renew(self.holding, is_capped=self._reported_capped, load=self._load)
        self._was_busy = self._credit.cpu_busy

    def _on_turn_over(self, event: TurnOver) -> None:
        """Grant credit, unless it should wait for acks."""
        has_acked, self._has_acked = self._has_acked, False
        if self._draining or self._session.state is not OPEN:
            return
        if len(self._attempts) >= UNTAKEN_RESULTS_MAX:
            return
        if not has_acked and self._acks_come_in_time():
            return  # sent in one frame with the acks
        count = self._credit.grant(self._attempts.in_hand)
        if count:
            self._orders.send(wire.Credit(count))

    def _acks_come_in_time(self) -> bool:
        """Whether results are being written, and there is enough work until their acks are sent."""
        unbegun = self._attempts.waiting_count + self._attempts.lined_count
        return self._attempts.is_storing and unbegun > self._setup.slots

    def _settle(self) -> None:
        """Runs after every event."""
        if not self._has_left:
            self._assignments.fill_slots()
            if self._draining and self._attempts.idle:
                self._leave("drained")

    # --- leaving

    def _on_drain(self, event: DrainRequested) -> None:
        self._draining = True
        if self._session.returns_are_free:
            self._assignments.give_back_all("draining")

    def _on_stop(self, event: StopRequested) -> None:
        self._assignments.give_back_all("stopped", with_line=True)
        self._leave("stopped")

    def _leave(self, why: str) -> None:
        self._has_left = True
        self._session.leave(why)
        self._credit.reset()
        self._orders.give(Exit())


HANDLERS: dict[type, Callable[[WorkerMachine, Any], None]] = {
    Started: WorkerMachine._on_started,
    Connected: WorkerMachine._on_connected,
    Disconnected: WorkerMachine._on_disconnected,
    MessageReceived: WorkerMachine._on_received,
    TurnOver: WorkerMachine._on_turn_over,
    InputsReady: WorkerMachine._on_inputs_ready,
    InputsFailed: WorkerMachine._on_inputs_failed,
    SlotsFreed: WorkerMachine._on_slots_freed,
    CallsEnded: WorkerMachine._on_calls_ended,
    CallWaits: WorkerMachine._on_call_waits,
    Finished: WorkerMachine._on_finished,
    StartFailed: WorkerMachine._on_start_failed,
    ResultStored: WorkerMachine._on_stored,
    UploadFailed: WorkerMachine._on_upload_failed,
    CpuOk: WorkerMachine._on_cpu_ok,
    CpuBusy: WorkerMachine._on_cpu_busy,
    LoadMeasured: WorkerMachine._on_load,
    Tick: WorkerMachine._on_tick,
    ProgramsFound: WorkerMachine._on_programs,
    PublishRequested: WorkerMachine._on_publish,
    DrainRequested: WorkerMachine._on_drain,
    StopRequested: WorkerMachine._on_stop,
}

ON_MESSAGE: dict[type, Callable[[WorkerMachine, Any], None]] = {
    wire.Welcome: WorkerMachine._on_welcome,
    wire.NotLeader: WorkerMachine._on_not_leader,
    wire.AssignJob: WorkerMachine._on_assign,
    AssignRun: WorkerMachine._on_assign_run,
    wire.StopJob: WorkerMachine._on_stop_job,
    wire.Drain: WorkerMachine._on_drained,
    wire.AckTaken: WorkerMachine._on_taken,
    AcksTaken: WorkerMachine._on_taken_run,
    wire.Error: WorkerMachine._on_error,
}
