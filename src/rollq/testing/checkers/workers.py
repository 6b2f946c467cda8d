"""Checker of workers: slots, prefetch, CPU cap, credit, and that no attempt is lost.

The model is built from the events that a worker's machine got and from its instructions.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from rollq.base.ids import JobId
from rollq.base.jobs import AttemptRef
from rollq.base.limits import LOOK_MS, UNTAKEN_RESULTS_MAX
from rollq.roles.worker import signals
from rollq.roles.worker.attempts import REFUSED
from rollq.roles.worker.credit import AHEAD_MS
from rollq.roles.worker.session import OPEN, LinkState
from rollq.testing.checkers.base import Checker
from rollq.testing.sim_worker import SimWorker
from rollq.wire import messages as wire
from rollq.wire.run_messages import AssignRun, assignments_of


@dataclass(slots=True)
class WorkerModel:
    """Model of one life of a worker.

    Attributes:
        newest: The newest attempt of each job that was ever received.
        in_hand: Attempts whose work is not over.
        ready: The part of `in_hand` that only waits for a slot.
        replaced: Attempts that a newer one in the same read has replaced; valid for one event. The
            machine handles messages in order, so it may have started them before.
        line: Calls that share one slot.
        running: Running attempts, with the time of their start.
        started: Attempts that were started, or failed without a start.
        granted: Credit that is not spent.
        announced: Assignments announced by the Welcome.
        is_drained: The leader has drained it.
    """

    slots: int
    ahead: int
    newest: dict[JobId, AttemptRef]
    seen: set[AttemptRef]
    in_hand: dict[AttemptRef, None] = field(default_factory=dict)
    ready: dict[AttemptRef, None] = field(default_factory=dict)
    replaced: dict[AttemptRef, None] = field(default_factory=dict)
    line: dict[AttemptRef, None] = field(default_factory=dict)
    running: dict[AttemptRef, int] = field(default_factory=dict)
    started: set[AttemptRef] = field(default_factory=set)
    granted: int = 0
    announced: int = 0
    now_ms: int = 0
    is_busy: bool = False
    is_draining: bool = False
    is_drained: bool = False

    @property
    def taken(self) -> int:
        """Attempts that are here or may still be assigned."""
        return len(self.in_hand) + self.granted + self.announced

    def is_stuck(self) -> bool:
        """Whether an attempt has run too long to prefetch behind it."""
        return any(
            self.now_ms - begun_ms > AHEAD_MS + LOOK_MS for begun_ms in self.running.values()
        )

    def begin(self, ref: AttemptRef) -> bool:
        """Record a start; returns whether the attempt was ready for it."""
        was_ready = ref in self.ready or ref in self.replaced
        self.ready.pop(ref, None)
        self.in_hand[ref] = None  # a replaced one too: it runs until it is killed
        self.started.add(ref)
        return was_ready

    def drop(self, ref: AttemptRef) -> None:
        """Remove an attempt whose work is over."""
        self.in_hand.pop(ref, None)
        self.ready.pop(ref, None)
        self.line.pop(ref, None)
        self.running.pop(ref, None)

    def supersede(self, ref: AttemptRef) -> None:
        """Record a newer attempt of a job; the older one counts while it runs."""
        older = self.newest.get(ref.job_id)
        if older is not None and (older in self.ready or older not in self.started):
            if older in self.ready:
                self.replaced[older] = None
            self.drop(older)
        self.newest[ref.job_id] = ref
        self.seen.add(ref)


class WorkerRules(Checker):
    """The rules of the worker's machine."""

    name = "the worker's rules"

    def __init__(self) -> None:
        self._models: dict[tuple[str, int], WorkerModel] = {}

    def on_worker_event(self, worker: SimWorker, event: Any, instructions: list[Any]) -> None:
        key = (worker.name, worker.life)
        model = self._models.get(key)
        if model is None:
            held = {ref.job_id: ref for ref in worker.table}
            model = WorkerModel(worker.slots, worker.ahead, held, set(worker.table))
            self._models[key] = model
        model.replaced.clear()
        got_none = model.is_drained
        update(model, event)
        if got_none and model.is_drained and any(map(_starts, instructions)):
            self.fail(f"{worker.name} is drained and starts something")
        for instruction in instructions:
            self._check_instruction(worker, model, instruction)
        self._check(worker, model, event)

    def _check_instruction(self, worker: SimWorker, model: WorkerModel, instruction: Any) -> None:
        if isinstance(instruction, signals.StartJobs):
            for _, ref in instruction.jobs:
                if not model.begin(ref):
                    self.fail(f"{worker.name} starts an attempt that is not ready: {ref}")
                model.running[ref] = model.now_ms
            self._check_slots(worker, model)
        elif isinstance(instruction, signals.StartCalls):
            for _, ref in instruction.jobs:
                if not model.begin(ref):
                    self.fail(f"{worker.name} calls what is not ready: {ref}")
                model.line[ref] = None
            self._check_slots(worker, model)
        elif isinstance(instruction, signals.StoreResults):
            for record in instruction.results:
                model.drop(record.ref)
        elif isinstance(instruction, signals.FailJob):
            model.started.add(instruction.ref)
        elif isinstance(instruction, signals.Disconnect):
            model.granted = model.announced = 0
        elif isinstance(instruction, signals.SendToMember):
            for message in instruction.messages:
                if isinstance(message, wire.Nack):
                    model.drop(AttemptRef(message.job_id, message.attempt, message.fence))
                elif isinstance(message, wire.Credit):
                    self._granted(worker, model, message.count)

    def _check_slots(self, worker: SimWorker, model: WorkerModel) -> None:
        taken = len(model.running) + bool(model.line)
        if taken > model.slots:
            self.fail(f"{worker.name} runs {taken} in {model.slots} slots")

    def _granted(self, worker: SimWorker, model: WorkerModel, count: int) -> None:
        before = model.taken
        model.granted += count
        if model.is_draining:
            self.fail(f"{worker.name} grants credit in a drain")
        if model.is_busy and (before or count > 1):
            self.fail(f"{worker.name} is above its CPU cap, has {before} and grants {count}")
        limit = model.slots if model.is_stuck() else model.slots + model.ahead
        if model.taken > limit:
            self.fail(f"{worker.name} has {before} and grants {count}, more than {limit} in all")

    def _check(self, worker: SimWorker, model: WorkerModel, event: Any) -> None:
        machine = worker.machine
        if machine is None or machine.link is LinkState.LEFT:
            return
        ready = [ref for ref in model.ready if machine.phase(ref.job_id) is not REFUSED]
        # The next attempt may be a call, which waits in the shared slot.
        if ready and not model.line and len(model.running) < model.slots:
            self.fail(f"{worker.name} has a free slot, and {len(ready)} attempts wait for one")
        holding = set(machine.holding)
        for ref in model.in_hand:
            if ref == model.newest[ref.job_id] and ref not in holding:
                self.fail(f"{worker.name} lost attempt {ref.attempt} of job {ref.job_id.hex()}")
        if (
            isinstance(event, signals.TurnOver)
            and machine.link is OPEN
            and not model.is_draining
            and len(holding) < UNTAKEN_RESULTS_MAX
            and model.taken < (1 if model.is_busy else model.slots)
        ):
            self.fail(f"{worker.name} leaves slots without credit: it has {model.taken}")


def _starts(instruction: Any) -> bool:
    return isinstance(instruction, signals.StartJobs | signals.StartCalls)


def update(model: WorkerModel, event: Any) -> None:
    """Update the model with an event of the machine."""
    if isinstance(event, signals.MessageReceived):
        for message in event.messages:
            if isinstance(message, wire.NotLeader):
                break  # later messages are from a session that is over
            update_message(model, message)
    elif isinstance(event, signals.InputsReady):
        model.ready.update((ref, None) for ref in event.refs if ref in model.in_hand)
    elif isinstance(event, signals.SlotsFreed):
        for ref, _ in event.runs:
            model.running.pop(ref, None)
    elif isinstance(event, signals.CallWaits):
        if event.ref in model.line:
            del model.line[event.ref]
            model.running[event.ref] = model.now_ms
        for ref in event.rest:
            if model.line.pop(ref, ref) is None and ref == model.newest[ref.job_id]:
                model.started.discard(ref)
                model.ready[ref] = None
            elif ref != model.newest[ref.job_id]:
                model.drop(ref)
    elif isinstance(event, signals.Finished | signals.CallsEnded):
        for record in event.results:
            model.drop(record.ref)
    elif isinstance(event, signals.StartFailed):
        model.running.pop(event.ref, None)
        model.line.pop(event.ref, None)
        if event.ref != model.newest.get(event.ref.job_id):
            model.drop(event.ref)
    elif isinstance(event, signals.Disconnected):
        model.granted = model.announced = 0
    elif isinstance(event, signals.Tick):
        model.now_ms = event.now_ms
    elif isinstance(event, signals.CpuBusy | signals.CpuOk):
        model.is_busy = isinstance(event, signals.CpuBusy)
    elif isinstance(event, signals.DrainRequested):
        model.is_draining = True


def update_message(model: WorkerModel, message: Any) -> None:
    """Update the model with a message to the worker."""
    if isinstance(message, wire.Welcome):
        model.granted, model.announced = 0, message.owed
        model.is_drained = False
    elif isinstance(message, wire.Drain):
        model.is_drained = message.is_drained
    elif isinstance(message, AssignRun):
        for one in assignments_of(message):
            update_message(model, one)
    elif isinstance(message, wire.AssignJob | wire.StopJob):
        ref = AttemptRef(message.job_id, message.attempt, message.fence)
        newest = model.newest.get(ref.job_id)
        is_new = ref not in model.seen and (newest is None or newest.fence < ref.fence)
        if is_new:
            model.supersede(ref)
        if isinstance(message, wire.AssignJob):
            if model.announced:
                model.announced -= 1
            elif is_new and model.granted:
                model.granted -= 1
            if is_new:
                model.in_hand[ref] = None
                if not (message.blobs or message.parents):
                    model.ready[ref] = None
