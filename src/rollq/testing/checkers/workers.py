"""Checker of each worker: slots, prefetch, CPU cap, credit, and that no attempt gets lost.

Its own account of what a worker holds, made from the events that its machine got and from what the
machine asked for.
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
class Account:
    """One life of a worker."""

    slots: int
    ahead: int
    newest: dict[JobId, AttemptRef]  # of each job that ever came
    seen: set[AttemptRef]
    in_hand: dict[AttemptRef, None] = field(default_factory=dict)  # their work is not over
    ready: dict[AttemptRef, None] = field(default_factory=dict)  # of these: only a slot is lacking
    # Ready until a newer attempt of their job came in the same read. The machine takes messages in
    # their order, so it may have started them before. Only during one event.
    replaced: dict[AttemptRef, None] = field(default_factory=dict)
    line: dict[AttemptRef, None] = field(default_factory=dict)  # calls: together in one slot
    running: dict[AttemptRef, int] = field(default_factory=dict)  # with the tick of their start
    started: set[AttemptRef] = field(default_factory=set)  # or failed without a start
    granted: int = 0  # and not spent
    owed: int = 0  # announced by the Welcome
    now_ms: int = 0
    is_busy: bool = False
    is_draining: bool = False
    gets_none: bool = False  # the leader has drained it

    @property
    def taken(self) -> int:
        """What is here or may come."""
        return len(self.in_hand) + self.granted + self.owed

    def is_stuck(self) -> bool:
        """Whether something runs too long for a prefetch."""
        return any(
            self.now_ms - begun_ms > AHEAD_MS + LOOK_MS for begun_ms in self.running.values()
        )

    def begin(self, ref: AttemptRef) -> bool:
        """It is started; whether it was ready for that."""
        was_ready = ref in self.ready or ref in self.replaced
        self.ready.pop(ref, None)
        self.in_hand[ref] = None  # also one that was replaced: it runs until it is killed
        self.started.add(ref)
        return was_ready

    def drop(self, ref: AttemptRef) -> None:
        """Its work is over."""
        self.in_hand.pop(ref, None)
        self.ready.pop(ref, None)
        self.line.pop(ref, None)
        self.running.pop(ref, None)

    def supersede(self, ref: AttemptRef) -> None:
        """A newer attempt of its job came; what runs counts until it has ended."""
        older = self.newest.get(ref.job_id)
        if older is not None and (older in self.ready or older not in self.started):
            if older in self.ready:
                self.replaced[older] = None
            self.drop(older)
        self.newest[ref.job_id] = ref
        self.seen.add(ref)


class WorkerRules(Checker):
    """What the worker's machine promises."""

    name = "the worker's rules"

    def __init__(self) -> None:
        self._accounts: dict[tuple[str, int], Account] = {}

    def worked(self, worker: SimWorker, event: Any, instructions: list[Any]) -> None:
        key = (worker.name, worker.life)
        account = self._accounts.get(key)
        if account is None:
            held = {ref.job_id: ref for ref in worker.table}
            account = Account(worker.slots, worker.ahead, held, set(worker.table))
            self._accounts[key] = account
        account.replaced.clear()
        got_none = account.gets_none
        hear(account, event)
        if got_none and account.gets_none and any(map(_starts, instructions)):
            self.fail(f"{worker.name} is drained and starts something")
        for instruction in instructions:
            self._obey(worker, account, instruction)
        self._check(worker, account, event)

    def _obey(self, worker: SimWorker, account: Account, instruction: Any) -> None:
        if isinstance(instruction, signals.StartJobs):
            for _, ref in instruction.jobs:
                if not account.begin(ref):
                    self.fail(f"{worker.name} starts an attempt that is not ready: {ref}")
                account.running[ref] = account.now_ms
            self._check_slots(worker, account)
        elif isinstance(instruction, signals.StartCalls):
            for _, ref in instruction.jobs:
                if not account.begin(ref):
                    self.fail(f"{worker.name} calls what is not ready: {ref}")
                account.line[ref] = None
            self._check_slots(worker, account)
        elif isinstance(instruction, signals.StoreResults):
            for record in instruction.results:
                account.drop(record.ref)
        elif isinstance(instruction, signals.FailJob):
            account.started.add(instruction.ref)
        elif isinstance(instruction, signals.Disconnect):
            account.granted = account.owed = 0
        elif isinstance(instruction, signals.SendToMember):
            for message in instruction.messages:
                if isinstance(message, wire.Nack):
                    account.drop(AttemptRef(message.job_id, message.attempt, message.fence))
                elif isinstance(message, wire.Credit):
                    self._granted(worker, account, message.count)

    def _check_slots(self, worker: SimWorker, account: Account) -> None:
        taken = len(account.running) + bool(account.line)
        if taken > account.slots:
            self.fail(f"{worker.name} runs {taken} in {account.slots} slots")

    def _granted(self, worker: SimWorker, account: Account, count: int) -> None:
        before = account.taken
        account.granted += count
        if account.is_draining:
            self.fail(f"{worker.name} grants credit in a drain")
        if account.is_busy and (before or count > 1):
            self.fail(f"{worker.name} is above its CPU cap, has {before} and grants {count}")
        most = account.slots if account.is_stuck() else account.slots + account.ahead
        if account.taken > most:
            self.fail(f"{worker.name} has {before} and grants {count}, more than {most} in all")

    def _check(self, worker: SimWorker, account: Account, event: Any) -> None:
        machine = worker.machine
        if machine is None or machine.link is LinkState.LEFT:
            return
        ready = [ref for ref in account.ready if machine.phase(ref.job_id) is not REFUSED]
        # What is next may be a call, which waits for its place in line.
        if ready and not account.line and len(account.running) < account.slots:
            self.fail(f"{worker.name} has a free slot, and {len(ready)} attempts wait for one")
        holding = set(machine.holding)
        for ref in account.in_hand:
            if ref == account.newest[ref.job_id] and ref not in holding:
                self.fail(f"{worker.name} lost attempt {ref.attempt} of job {ref.job_id.hex()}")
        if (
            isinstance(event, signals.TurnOver)
            and machine.link is OPEN
            and not account.is_draining
            and len(holding) < UNTAKEN_RESULTS_MAX
            and account.taken < (1 if account.is_busy else account.slots)
        ):
            self.fail(f"{worker.name} leaves slots without credit: it has {account.taken}")


def _starts(instruction: Any) -> bool:
    return isinstance(instruction, signals.StartJobs | signals.StartCalls)


def hear(account: Account, event: Any) -> None:
    """Keep the account of what a machine was told."""
    if isinstance(event, signals.MessageReceived):
        for message in event.messages:
            if isinstance(message, wire.NotLeader):
                break  # what follows was sent in a session that is over
            hear_message(account, message)
    elif isinstance(event, signals.InputsReady):
        account.ready.update((ref, None) for ref in event.refs if ref in account.in_hand)
    elif isinstance(event, signals.SlotsFreed):
        for ref, _ in event.runs:
            account.running.pop(ref, None)
    elif isinstance(event, signals.CallWaits):
        if event.ref in account.line:
            del account.line[event.ref]
            account.running[event.ref] = account.now_ms
        for ref in event.rest:
            if account.line.pop(ref, ref) is None and ref == account.newest[ref.job_id]:
                account.started.discard(ref)
                account.ready[ref] = None
            elif ref != account.newest[ref.job_id]:
                account.drop(ref)
    elif isinstance(event, signals.Finished | signals.CallsEnded):
        for record in event.results:
            account.drop(record.ref)
    elif isinstance(event, signals.StartFailed):
        account.running.pop(event.ref, None)
        account.line.pop(event.ref, None)
        if event.ref != account.newest.get(event.ref.job_id):
            account.drop(event.ref)
    elif isinstance(event, signals.Disconnected):
        account.granted = account.owed = 0
    elif isinstance(event, signals.Tick):
        account.now_ms = event.now_ms
    elif isinstance(event, signals.CpuBusy | signals.CpuOk):
        account.is_busy = isinstance(event, signals.CpuBusy)
    elif isinstance(event, signals.DrainRequested):
        account.is_draining = True


def hear_message(account: Account, message: Any) -> None:
    """Keep the account of what a worker was sent."""
    if isinstance(message, wire.Welcome):
        account.granted, account.owed = 0, message.owed
        account.gets_none = False
    elif isinstance(message, wire.Drain):
        account.gets_none = message.is_drained
    elif isinstance(message, AssignRun):
        for one in assignments_of(message):
            hear_message(account, one)
    elif isinstance(message, wire.AssignJob | wire.StopJob):
        ref = AttemptRef(message.job_id, message.attempt, message.fence)
        newest = account.newest.get(ref.job_id)
        is_new = ref not in account.seen and (newest is None or newest.fence < ref.fence)
        if is_new:
            account.supersede(ref)
        if isinstance(message, wire.AssignJob):
            if account.owed:
                account.owed -= 1
            elif is_new and account.granted:
                account.granted -= 1
            if is_new:
                account.in_hand[ref] = None
                if not (message.blobs or message.parents):
                    account.ready[ref] = None
