"""A leader to try dispatch on: a grid, its index, and a second index as a follower keeps it."""

from __future__ import annotations

import msgspec

from rollq.base.ids import JobId, WorkerId
from rollq.base.needs import Amounts
from rollq.grid.commands import AssignRun, AssignTasks, Command, ForgetJobs, OpenWorker
from rollq.grid.effects import Applied, RunDone
from rollq.grid.explanations import RawExplanation
from rollq.grid.runs import ids_in
from rollq.grid.views import UnservedView, queue_view
from rollq.policy.dispatch import Dispatcher
from rollq.policy.endings import ResultDetail
from rollq.policy.needs import ANYTHING, ProgramSet
from tests.unit.grid.kit import Grid, job_id, worker_id

NOTHING = ResultDetail()
EVERYTHING = ("job.assign.>",)


class Desk(Grid):
    """A grid with a dispatcher. What is decided is written as `job@worker`."""

    def __init__(self, placement: str = "least-load") -> None:
        super().__init__(workers=())
        self.dispatcher = Dispatcher(self.state, placement)
        self.follower = Dispatcher(self.state, placement)
        self.capped: set[WorkerId] = set()

    def apply(self, *commands: Command) -> Applied:
        """Apply one entry; both members see its events."""
        applied = super().apply(*commands)
        self.dispatcher.observe(applied.events)
        self.follower.observe(applied.events)
        return applied

    def worker(
        self,
        name: str,
        credit: int = 0,
        patterns: tuple[str, ...] = EVERYTHING,
        incarnation: int = 1,
        programs: ProgramSet = ANYTHING,
        *,
        labels: tuple[str, ...] = (),
        resources: Amounts = (),
    ) -> None:
        """A worker opens a session and grants credit."""
        opened = OpenWorker(worker_id(name), incarnation, name, patterns, 4)
        self.apply(msgspec.structs.replace(opened, labels=labels, resources=resources))
        held = len(self.state.workers[worker_id(name)].held)
        who = worker_id(name), incarnation, name
        self.dispatcher.open_worker(*who, patterns, held, programs=programs)
        self.grant(name, credit)

    def grant(self, name: str, credit: int) -> None:
        """A worker grants more credit."""
        self.dispatcher.grant(worker_id(name), credit)

    def credit(self, name: str) -> int:
        """What a worker may still be given."""
        return self.dispatcher.credit(worker_id(name))

    def decide(self, count_max: int = 1_000) -> list[AssignRun | AssignTasks]:
        """Decide job by job, without applying it; in runs of one."""
        decided: list[AssignRun | AssignTasks] = []
        while len(decided) < count_max and (one := self.dispatcher.decide(1)):
            decided += one
        return decided

    def settle(self, decided: list[AssignRun | AssignTasks]) -> list[str]:
        """Apply decisions on one job each; those that were taken."""
        applied = self.apply(*decided)
        taken = []
        for command, outcome in zip(decided, applied.outcomes, strict=True):
            if isinstance(outcome, RunDone) and outcome.count == 1:
                taken.append(said(command))
            else:
                self.dispatcher.refused(command, (0,))
        return taken

    def run(self, count_max: int = 1_000) -> list[str]:
        """Decide and apply."""
        return self.settle(self.decide(count_max))

    def explained(self, wanted: JobId, said: ResultDetail = NOTHING) -> RawExplanation:
        """Of something that is known: why it waits, or how it ended. Results say what is given."""
        told = self.dispatcher.explain(
            wanted,
            is_capped=self.capped.__contains__,
            address="10.0.0.1:5000",
            read=lambda _: said,
        )
        assert told is not None
        return told

    def reason(self, name: str) -> str:
        """The same of a job or array by its name, in a word."""
        return self.explained(job_id(name)).code

    def unserved(self, count_max: int = 100) -> list[UnservedView]:
        """What nobody who is connected can run."""
        return self.dispatcher.unserved(count_max)

    def waiting_count(self, queue: str = "q") -> int:
        """How many jobs and tasks wait in a queue."""
        view = queue_view(self.state, queue)
        return 0 if view is None else view.queued

    def forget(self, name: str) -> None:
        """The TTL of an ended job is over."""
        self.apply(ForgetJobs((job_id(name),)))


def in_ones(decided: list[AssignRun | AssignTasks]) -> list[AssignRun | AssignTasks]:
    """The same decisions on one job each."""
    ones: list[AssignRun | AssignTasks] = []
    for command in decided:
        if isinstance(command, AssignRun):
            where = command.worker_id, command.incarnation, command.attempt, command.lease_ms
            ones += [AssignRun(*where, job_id) for job_id in ids_in(command.job_ids)]
        else:
            ones += [msgspec.structs.replace(command, count=1)] * command.count
    return ones


def said(command: AssignRun | AssignTasks) -> str:
    """A decision on one job in words."""
    job_id = command.job_ids if isinstance(command, AssignRun) else command.array_id
    return f"{name_of(job_id)}@{command.worker_id.lstrip(bytes(1)).decode()}"


def name_of(job_id: JobId) -> str:
    """The name that an id was made of."""
    return job_id[:12].lstrip(bytes(1)).decode()
