"""A worker in the simulator: the production machine, virtual executions and files, a durable
table."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any, cast

from rollq.base.errors import ErrorCode, RemoteError, RollqError
from rollq.base.ids import JobId, WorkerId
from rollq.base.jobs import AttemptRef, Status
from rollq.base.limits import LOOK_MS
from rollq.roles import dialogue
from rollq.roles.blobs.failures import FETCH_TRIES, may_fetch_again
from rollq.roles.worker import signals
from rollq.roles.worker.machine import WorkerMachine
from rollq.roles.worker.session import WorkerSetup
from rollq.testing.checkers.base import Violation
from rollq.testing.clock import MS
from rollq.testing.network import SessionLink
from rollq.testing.sim_files import WorkerFiles
from rollq.testing.sim_member import World
from rollq.testing.sim_session import SimSession
from rollq.testing.workload import WorkerOffer, outputs_of, plan_of, result_of, status_of
from rollq.wire.messages import AssignJob

FETCH_MS_MAX = 40  # duration of a fetch of inputs, or of an upload of outputs
LATE_PER_MILLE = 80  # share of slow fetches
LATE_MS_MAX = 2_500
CALL_MS_MAX = 100  # a shorter call does not give up the shared slot
CALLS_A_TURN = 4
# Some lives are of older versions, whose hello lists all attempts, and which get single jobs.
FEATURES_BEFORE = ("compact", "accepted", "lease", "patterns", "alive", "programs", "returns")
FEATURES = (*FEATURES_BEFORE, "holdings", "runs", "drain")


class SimWorker(SimSession):
    """One worker: its process, if it runs, and its durable table."""

    def __init__(
        self,
        world: World,
        name: str,
        *,
        addresses: tuple[str, ...],
        patterns: tuple[str, ...],
        slots: int,
        ahead: int,
        programs: frozenset[str],
        calls: frozenset[str],
        offer: WorkerOffer,
        on_start: Callable[[AttemptRef, WorkerId, AssignJob], None],
        on_tried: Callable[[AttemptRef], None],
    ) -> None:
        super().__init__()
        self.world = world
        self.name = name
        self.worker_id: WorkerId = world.streams.named(f"{name}/id").draw_id()
        self.machine: WorkerMachine | None = None
        self.life = 0
        self.table: dict[AttemptRef, signals.StoredResult] = {}
        self.run_count = 0
        self._addresses = addresses
        self._patterns = patterns
        self.slots = slots
        self.ahead = ahead
        self.files = WorkerFiles(world.files)
        self._chance = world.streams.named(f"{name}/files")
        self._preparing: dict[AttemptRef, AssignJob] = {}
        self._prepared: dict[AttemptRef, None] = {}  # inputs were intact when fetched
        self._programs = programs
        self._calls = calls
        self._offer = offer
        self._on_start = on_start
        self._on_tried = on_tried
        self._running: dict[AttemptRef, tuple[int, AssignJob]] = {}  # with the number of the run
        self._line: dict[AttemptRef, AssignJob] = {}  # calls that have not started
        self._paused = False
        self._backlog: list[signals.Event] = []

    @property
    def is_patient(self) -> bool:
        """Whether it tolerates a silent member for longer than at first."""
        return self.machine is not None and self.machine._session.is_patient

    @property
    def held_jobs(self) -> list[JobId]:
        """The jobs that it holds."""
        return [] if self.machine is None else [ref.job_id for ref in self.machine.holding]

    @property
    def is_full(self) -> bool:
        """Whether executions take all its slots."""
        return len(self._running) >= self.slots

    # --- lifecycle

    def start(self) -> None:
        """Start the process with the durable table."""
        if self.machine is not None:
            return
        self.life += 1
        self._paused = False
        setup = WorkerSetup(
            self.worker_id,
            self._addresses,
            self._patterns,
            self.name,
            self.life,
            self.slots,
            FEATURES if self.life % 3 else FEATURES_BEFORE,
            self.ahead,
            calls=self._calls,
            labels=self._offer.labels,
            resources=self._offer.resources,
        )
        chance = self.world.streams.named(f"{self.name}/{self.life}")
        self.machine = WorkerMachine(setup, chance, tuple(self.table.values()))
        self.world.trace.note(self.name, "start", self.life)
        self._feed(signals.ProgramsFound(self._programs))
        self._feed(signals.Started())
        self.world.timeline.after(LOOK_MS * MS, self._tick, self.life)

    def crash(self, *, lose_table: bool) -> None:
        """Crash the process and everything that runs in it."""
        if self.machine is None:
            return
        self.world.trace.note(self.name, "crash", "table lost" if lose_table else "")
        self.machine = None
        self.life += 1
        self._forget_executions()
        self._backlog.clear()
        self._paused = False
        if self._link is not None:
            self.world.network.close_by_endpoint(self._link, abrupt=True)
            self._link = None
        if lose_table:
            self.table.clear()
            self.files.lose()

    def _forget_executions(self) -> None:
        self._running.clear()
        self._line.clear()
        self._preparing.clear()
        self._prepared.clear()

    def pause(self) -> None:
        """Suspend the process: it neither receives nor renews leases."""
        self._paused = True
        self.world.trace.note(self.name, "pause")

    def resume(self, life: int) -> None:
        """Resume the process where it was; its attempts may be lost by now (a zombie)."""
        if self.life != life:
            return
        self._paused = False
        self.world.trace.note(self.name, "resume")
        backlog, self._backlog = self._backlog, []
        for event in _in_runs(backlog):
            self._feed(event)

    def cpu(self, *, busy: bool) -> None:
        """The CPU load of its machine has crossed the cap."""
        self._feed(signals.CpuBusy() if busy else signals.CpuOk())

    def find(self, programs: frozenset[str]) -> None:
        """Change its installed programs."""
        self._programs = programs
        self.world.trace.note(self.name, "has", *sorted(programs))
        self._feed(signals.ProgramsFound(programs))

    def drain(self) -> None:
        """Ask it to finish its running attempts and exit."""
        self._feed(signals.DrainRequested())

    # --- the machine's shell

    def _feed(self, event: signals.Event) -> None:
        if self._paused:
            self._backlog.append(event)
        else:
            self._handle(event)
            self._handle(signals.TurnOver())

    def _handle(self, event: signals.Event) -> None:
        if self.machine is not None:
            instructions = self.machine.handle(event)
            for check in self.world.on_worker_event:
                check(self, event, instructions)
            for instruction in instructions:
                getattr(self, DO[type(instruction)])(instruction)

    def _tick(self, life: int) -> None:
        if life == self.life and self.machine is not None:
            self.world.timeline.after(LOOK_MS * MS, self._tick, life)
            if not self._paused:
                self._feed(signals.Tick(self.world.timeline.now_us // MS))

    def receive(self, link: SessionLink, message: Any) -> None:
        """A message of the member."""
        if link is self._link:
            self._feed(signals.MessageReceived([message]))

    def _do_send_all(self, instruction: signals.SendToMember) -> None:
        for message in instruction.messages:
            self._do_send(dialogue.SendToLeader(message))

    # --- inputs

    def _do_prepare(self, instruction: signals.PrepareInputs) -> None:
        for job, ref in instruction.jobs:
            self._preparing[ref] = job
            self._bring_later(ref, FETCH_TRIES)

    def _bring_later(self, ref: AttemptRef, tries_left: int) -> None:
        late = self._chance.chance(LATE_PER_MILLE)
        delay_ms = self._chance.draw(1, LATE_MS_MAX if late else FETCH_MS_MAX)
        self.world.timeline.after(delay_ms * MS, self._bring, self.life, ref, tries_left - 1)

    def _bring(self, life: int, ref: AttemptRef, tries_left: int) -> None:
        if life != self.life or ref not in self._preparing:
            return
        job = self._preparing[ref]
        error: RollqError | None
        if plan_of(job.body).bad_inputs:
            error = RemoteError(ErrorCode.BAD_PAYLOAD, "a name that leads out of the directory")
        else:
            error = self.files.fetch(job.blobs, self._chance)
        if error is None:
            del self._preparing[ref]
            self._prepared[ref] = None
            self._feed(signals.InputsReady([ref]))
            return
        self.world.count(f"inputs_{error.code.name.lower()}")
        if may_fetch_again(error, tries_left):
            self._bring_later(ref, tries_left)
        else:
            del self._preparing[ref]
            self._on_tried(ref)
            self._feed(signals.InputsFailed(ref, error))

    def _do_drop_inputs(self, instruction: signals.DropInputs) -> None:
        for ref in instruction.refs:
            self._preparing.pop(ref, None)
            self._prepared.pop(ref, None)

    def _do_fail(self, instruction: signals.FailJob) -> None:
        job, ref = instruction.job, instruction.ref
        exit_code = plan_of(job.body).exit_code
        result = result_of(ref.job_id, job.body)
        record = signals.StoredResult(ref, job.lease_ms, Status.FAILED, result, exit_code)
        self._later(1, signals.Finished([record]))

    # --- executions

    def _do_start(self, instruction: signals.StartJobs) -> None:
        for job, ref in instruction.jobs:
            self._run(job, ref)

    def _do_call(self, instruction: signals.StartCalls) -> None:
        if not self._line:
            self.world.timeline.after(1, self._serve, self.life)
        self._line.update((ref, job) for job, ref in instruction.jobs)

    def _serve(self, life: int) -> None:
        """Run calls of the shared slot, until one takes long."""
        if life != self.life:
            return
        ended: list[signals.StoredResult] = []
        waits: AttemptRef | None = None
        for ref, job in list(self._line.items())[:CALLS_A_TURN]:
            del self._line[ref]
            if not self._run(job, ref, is_call=True):
                continue
            if plan_of(job.body).run_ms > CALL_MS_MAX:
                waits = ref
                break
            ended.append(self._over(ref))
        if ended:
            self.world.count("calls_in_line")
            self._feed(signals.CallsEnded(ended, 0.1))
        if waits is not None:
            self._end_later(waits)
            rest = list(self._line)
            self._line.clear()
            self._feed(signals.CallWaits(waits, rest))
        elif self._line and life == self.life:
            self.world.timeline.after(MS, self._serve, life)

    def _run(self, job: AssignJob, ref: AttemptRef, *, is_call: bool = False) -> bool:
        """Start an execution; returns whether it is running."""
        plan = plan_of(job.body)
        if job.exec_name not in self._programs:
            self._later(1, signals.StartFailed(ref, "no such program", not_started=True))
            return False
        if (job.blobs or job.parents) and self._prepared.pop(ref, ref) is ref:
            raise Violation("inputs", f"job {ref.job_id.hex()} was started without its inputs")
        self.world.trace.note(self.name, "runs", ref.job_id, ref.attempt, ref.fence)
        self._on_start(ref, self.worker_id, job)
        if ref.attempt < plan.start_fails_below:
            self._later(1, signals.StartFailed(ref, "no such program"))
            return False
        self.run_count += 1
        self._running[ref] = (self.run_count, job)
        if not is_call:
            self._end_later(ref)
        return True

    def _end_later(self, ref: AttemptRef) -> None:
        ticket, job = self._running[ref]
        delay_us = plan_of(job.body).run_ms * MS
        self.world.timeline.after(delay_us, self._end, self.life, ticket, ref)

    def _end(self, life: int, ticket: int, ref: AttemptRef) -> None:
        if life != self.life or ref not in self._running or self._running[ref][0] != ticket:
            return
        record = self._over(ref)
        self._feed(signals.SlotsFreed([(ref, record.run_ms)]))
        self._feed(signals.Finished([record]))

    def _over(self, ref: AttemptRef) -> signals.StoredResult:
        _, job = self._running.pop(ref)
        plan = plan_of(job.body)
        result = result_of(ref.job_id, job.body)
        return signals.StoredResult(
            ref,
            job.lease_ms,
            status_of(plan),
            result,
            plan.exit_code,
            run_ms=plan.run_ms,
            blobs=outputs_of(job.body),
        )

    def _do_kill(self, instruction: signals.KillJob) -> None:
        ref = instruction.ref
        if ref in self._running or ref in self._line:
            job = self._line.pop(ref, None) or self._running.pop(ref)[1]
            record = signals.StoredResult(ref, job.lease_ms, Status.CANCELLED, signal=9)
            self._later(5, signals.Finished([record]))

    def _do_store(self, instruction: signals.StoreResults) -> None:
        delay_us = self.world.streams.disk.draw(1, 4 * MS)
        self.world.timeline.after(delay_us, self._stored, self.life, instruction.results)

    def _stored(self, life: int, records: list[signals.StoredResult]) -> None:
        if life == self.life:
            self.table.update((record.ref, record) for record in records)
            self._feed(signals.ResultStored([record.ref for record in records]))

    def _do_forget(self, instruction: signals.ForgetResults) -> None:
        for ref in instruction.refs:
            self.table.pop(ref, None)

    def _do_upload(self, instruction: signals.UploadOutputs) -> None:
        record = instruction.result
        delay_ms = self._chance.draw(1, FETCH_MS_MAX)
        self.world.timeline.after(delay_ms * MS, self._uploaded, self.life, record)

    def _uploaded(self, life: int, record: signals.StoredResult) -> None:
        if life == self.life:
            self.world.count("outputs_uploaded_again")
            self.world.files.upload(record.blobs)
            self._feed(signals.ResultStored([record.ref]))

    def _do_exit(self, instruction: signals.Exit) -> None:
        self.machine = None
        self.life += 1
        self._forget_executions()

    def _later(self, delay_ms: int, event: signals.Event) -> None:
        self.world.timeline.after(delay_ms * MS, self._feed_life, self.life, event)

    def _feed_life(self, life: int, event: signals.Event) -> None:
        if life == self.life:
            self._feed(event)


def _in_runs(events: list[signals.Event]) -> Iterator[signals.Event]:
    """Consecutive messages become one read of a process that was suspended."""
    for kind, group in groupby(events, type):
        if kind is signals.MessageReceived:
            reads = cast("Iterator[signals.MessageReceived]", group)
            yield signals.MessageReceived([m for event in reads for m in event.messages])
        else:
            yield from group


DO: dict[type, str] = {
    signals.SendToMember: "_do_send_all",
    signals.Connect: "_do_connect",
    signals.Disconnect: "_do_disconnect",
    signals.PrepareInputs: "_do_prepare",
    signals.DropInputs: "_do_drop_inputs",
    signals.StartJobs: "_do_start",
    signals.StartCalls: "_do_call",
    signals.FailJob: "_do_fail",
    signals.KillJob: "_do_kill",
    signals.StoreResults: "_do_store",
    signals.ForgetResults: "_do_forget",
    signals.UploadOutputs: "_do_upload",
    signals.Exit: "_do_exit",
}
