"""Checkers of sessions with workers and clients: credits, runs, answers, reads, results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from rollq.base.ids import JobId, WorkerId, task_id
from rollq.base.jobs import AttemptRef
from rollq.base.staged import bodies_of, ids_of
from rollq.grid import events as facts
from rollq.grid.effects import Applied
from rollq.grid.state import GridState
from rollq.raft.types import Entry
from rollq.roles.client.session.signals import Request
from rollq.roles.member.driver import Driver
from rollq.roles.member.outputs import ToSession
from rollq.testing.checkers.base import Checker
from rollq.testing.checkers.batches import BatchChecker
from rollq.testing.ledger import CANCELLED, DEAD, DONE, GONE, Ledger
from rollq.testing.sim_client import SimClient
from rollq.testing.sim_member import SimMember
from rollq.testing.workload import inputs_of, outputs_of, plan_of, result_of, status_of
from rollq.wire import messages as wire
from rollq.wire.run_messages import AssignRun, assignments_of
from rollq.wire.staging_messages import CommitBatch, StageJobs

STATE_OF_OUTCOME = {"done": DONE, "dead": DEAD, "cancelled": CANCELLED}


def assignments_in(messages: Iterable[Any]) -> Iterator[wire.AssignJob]:
    """The assignments in messages to a worker, with runs split into jobs."""
    for message in messages:
        if isinstance(message, AssignRun):
            yield from assignments_of(message)
        elif isinstance(message, wire.AssignJob):
            yield message


class Credits(Checker):
    """A worker session never gets more new attempts than it has granted credit for."""

    name = "credit"

    def __init__(self) -> None:
        self._workers: dict[tuple[str, int, int], WorkerId] = {}
        self._granted: dict[tuple[str, int, int], int] = {}
        self._opened: dict[tuple[str, int, WorkerId], int] = {}  # the last fence before it

    def on_receive(self, member: SimMember, session: int, message: Any) -> None:
        key = (member.name, member.life, session)
        if isinstance(message, wire.HelloWorker):
            self._workers[key] = message.worker_id
            self._granted[key] = 0
        elif isinstance(message, wire.Credit) and key in self._granted:
            self._granted[key] += message.count

    def on_apply(self, member: SimMember, entry: Entry, applied: Applied, state: GridState) -> None:
        for event in facts.each_of(applied.events):
            if event.kind == facts.WORKER_OPENED:
                self._opened[member.name, member.life, event.worker_id] = state.last_fence

    def on_send(self, member: SimMember, driver: Driver, output: Any) -> None:
        if not isinstance(output, ToSession):
            return
        key = (member.name, member.life, output.session)
        for message in assignments_in(output.messages):
            # Attempts from before the session are sent again, and cost no credit.
            if message.fence > self._opened[member.name, member.life, self._workers[key]]:
                self._granted[key] -= 1
                if self._granted[key] < 0:
                    self.fail(f"{member.name} sent session {output.session} more than its credit")


class Runs(Checker):
    """An attempt runs at most once, and only as committed, on the worker it was assigned to."""

    name = "an attempt runs once"

    def __init__(self, ledger: Ledger) -> None:
        self._ledger = ledger
        self._started: dict[AttemptRef, WorkerId] = {}
        self._tried: dict[AttemptRef, None] = {}  # inputs could not be fetched

    def begins(self, ref: AttemptRef, worker_id: WorkerId, job: wire.AssignJob) -> None:
        """A worker starts an execution."""
        if ref in self._started:
            self.fail(f"attempt {ref.attempt} of job {ref.job_id.hex()} was started twice")
        self._started[ref] = worker_id
        if job.blobs != inputs_of(job.body):
            self.fail(f"job {ref.job_id.hex()} was assigned with other inputs than it has")
        job_model = self._ledger.jobs.get(ref.job_id)
        if job_model is None or ref.fence > job_model.fence:
            self.fail(f"attempt {ref.attempt} of job {ref.job_id.hex()} runs uncommitted")
        elif ref.fence == job_model.fence and job_model.worker_id != worker_id:
            self.fail(f"attempt {ref.attempt} of job {ref.job_id.hex()} runs on another worker")

    def tried(self, ref: AttemptRef) -> None:
        """A worker could not fetch the inputs of an attempt."""
        self._tried[ref] = None

    def has_started(self, ref: AttemptRef) -> bool:
        """Whether a worker has tried to start this attempt."""
        return ref in self._started or ref in self._tried

    def start_count(self, job_id: JobId) -> int:
        """How many attempts of a job were started."""
        return sum(1 for ref in self._started if ref.job_id == job_id)


@dataclass(slots=True)
class SubmittedJob:
    """A job as submitted by its client."""

    client: str
    body: bytes
    accepted: bool = False
    result: wire.Result | None = None


@dataclass(slots=True)
class ClientBook(Checker):
    """Answers to clients are true, committed, complete and not stale."""

    ledger: Ledger
    jobs: dict[JobId, SubmittedJob] = field(default_factory=dict)
    arrays: dict[JobId, SubmittedJob] = field(default_factory=dict)
    task_counts: dict[JobId, int] = field(default_factory=dict)
    first_tasks: dict[JobId, JobId] = field(default_factory=dict)  # array -> id of its task 0
    prefixes: dict[bytes, JobId] = field(default_factory=dict)
    seen_index: int = 0  # the highest index that any client has seen the effect of
    reads: dict[bytes, tuple[int, JobId | None]] = field(default_factory=dict)
    result_count: int = 0
    read_count: int = 0
    accepted_count: int = 0
    batches: BatchChecker = field(default_factory=BatchChecker)

    name = "what clients were told"

    # --- observations by clients

    def asked(self, client: SimClient, request: Request) -> None:
        """The application sends a request."""
        if isinstance(request, wire.SubmitJob):
            self.jobs.setdefault(request.job_id, SubmittedJob(client.client_id, request.body))
        elif isinstance(request, wire.SubmitBulk):
            for item in request.items:
                self.jobs.setdefault(item.job_id, SubmittedJob(client.client_id, item.body))
        elif isinstance(request, wire.SubmitArray):
            known = SubmittedJob(client.client_id, request.body)
            self.arrays.setdefault(request.array_id, known)
            self.task_counts[request.array_id] = request.task_count
            first_id = task_id(request.array_id, request.first_task)
            self.first_tasks[request.array_id] = first_id
            self.prefixes[request.array_id[:12]] = request.array_id
        elif isinstance(request, StageJobs):
            for group in request.groups:
                if not group.redrives:
                    for job_id, body in zip(ids_of(group.job_ids), bodies_of(group), strict=True):
                        self.jobs.setdefault(job_id, SubmittedJob(client.client_id, body))
        elif isinstance(request, wire.Query):
            job = self.jobs.get(request.key) if request.what == "job" else None
            known_job = request.key if job is not None and job.accepted else None
            self.reads.setdefault(request.request_id, (self.seen_index, known_job))

    def told(self, client: SimClient, request: Request, answer: Any) -> None:
        """A client received an answer."""
        if isinstance(request, CommitBatch):
            self._batch_answered((client.client_id, request.batch_key), answer)
        elif isinstance(answer, wire.Accepted):
            self._accepted(request)
        elif isinstance(answer, wire.Answer):
            self._answered(answer)

    def _accepted(self, request: Request) -> None:
        if isinstance(request, wire.SubmitJob):
            self._accepted_job(request.job_id)
        elif isinstance(request, wire.SubmitBulk):
            for item in request.items:
                self._accepted_job(item.job_id)
        elif isinstance(request, wire.SubmitArray):
            index = self.ledger.arrays.get(request.array_id)
            if index is None:
                self.fail(f"array {request.array_id.hex()} was accepted but is not committed")
            else:
                self.seen_index = max(self.seen_index, index)
                self.arrays[request.array_id].accepted = True
                self.accepted_count += 1

    def _batch_answered(self, name: tuple[str, str], answer: Any) -> None:
        is_accepted = isinstance(answer, wire.Accepted)
        index, job_ids = self.batches.committed.get(name, (0, []))
        if is_accepted != (index > 0):
            self.fail(f"batch {name[1]}: {answer}, but it was committed at {index}")
        self.seen_index = max(self.seen_index, index)
        for job_id in job_ids:  # they are enqueued some entries later
            self.accepted_count += not self.jobs[job_id].accepted
            self.jobs[job_id].accepted = True

    def _accepted_job(self, job_id: JobId) -> None:
        job_model = self.ledger.jobs.get(job_id)
        if job_model is None:
            self.fail(f"job {job_id.hex()} was accepted but is not committed")
        else:
            self.seen_index = max(self.seen_index, job_model.born_index)
            self.jobs[job_id].accepted = True
            self.accepted_count += 1

    def _answered(self, answer: wire.Answer) -> None:
        seen_index, _ = self.reads.pop(answer.request_id)
        self.read_count += 1
        if answer.index < seen_index:
            self.fail(
                f"a read was answered at index {answer.index}, but {seen_index} had been seen "
                "before it was asked"
            )
        self.seen_index = max(self.seen_index, answer.index)

    def delivered(self, client: SimClient, result: wire.Result) -> None:
        """A client received a result."""
        self.result_count += 1
        known = self._submitted(result.job_id)
        if known is None or known.client != client.client_id:
            self.fail(f"{client.name} got a result of job {result.job_id.hex()}, not its own")
            return
        job_model = self.ledger.jobs.get(result.job_id)
        if job_model is None:
            self._delivered_cut(result)
            return
        self.seen_index = max(self.seen_index, min(job_model.ended_index, self.ledger.last_index))
        if result.outcome == "done":
            plan = plan_of(known.body)
            right = (
                status_of(plan),
                result_of(result.job_id, known.body),
                plan.exit_code,
                outputs_of(known.body),
            )
            if (result.status, result.result, result.exit_code, result.blobs) != right:
                self.fail(f"job {result.job_id.hex()} has a wrong result: {result}")

    def _delivered_cut(self, result: wire.Result) -> None:
        """A client received the combined result of tasks that were never assigned."""
        array_id = self.prefixes.get(result.job_id[:12], b"")
        cut = self.ledger.cuts.get(array_id) or self.ledger.past_cuts.get(array_id)
        if cut is None:
            self.fail(f"result of job {result.job_id.hex()}, which was never committed")
            return
        self.seen_index = max(self.seen_index, cut.index)
        first = self.task_counts[array_id] - cut.count
        told = (result.job_id, result.count, STATE_OF_OUTCOME[result.outcome])
        if told != (task_id(self.first_tasks[array_id], first), cut.count, cut.state):
            self.fail(f"the cut of array {array_id.hex()} was told as {result}")

    def _submitted(self, job_id: JobId) -> SubmittedJob | None:
        known = self.jobs.get(job_id)
        if known is None:
            array_id = self.prefixes.get(job_id[:12])
            known = self.arrays.get(array_id) if array_id is not None else None
        return known

    # --- at the end

    def missing(self, clients: dict[str, SimClient]) -> list[str]:
        """Unmet obligations: unfinished jobs, and results that were not delivered."""
        unmet: list[str] = []
        for job_id, job in self.jobs.items():
            if job.accepted:
                self._check_job(job_id, clients[job.client], unmet)
        for array_id, array in self.arrays.items():
            if array.accepted:
                for number in range(self.task_counts[array_id]):
                    job_id = task_id(self.first_tasks[array_id], number)
                    if job_id in self.ledger.jobs:
                        self._check_job(job_id, clients[array.client], unmet)
                self._check_cut(array_id, clients[array.client], unmet)
        return unmet

    def _check_cut(self, array_id: JobId, client: SimClient, unmet: list[str]) -> None:
        cut = self.ledger.cuts.get(array_id)
        if cut is not None:
            last = task_id(self.first_tasks[array_id], self.task_counts[array_id] - 1)
            if last not in client.results:
                unmet.append(f"{client.name} never heard of the cut of array {array_id.hex()}")

    def _check_job(self, job_id: JobId, client: SimClient, unmet: list[str]) -> None:
        job_model = self.ledger.jobs.get(job_id)
        if job_model is None:
            unmet.append(f"job {job_id.hex()} was accepted and is lost")
        elif job_model.state == GONE:
            return  # its result expired, or it was purged
        elif job_model.state not in STATE_OF_OUTCOME.values():
            unmet.append(
                f"job {job_id.hex()} is still {job_model.state} (attempt {job_model.attempt})"
            )
        else:
            result = client.results.get(job_id)
            if result is None:
                unmet.append(f"{client.name} never got the result of job {job_id.hex()}")
            elif STATE_OF_OUTCOME[result.outcome] != job_model.state:
                state = job_model.state
                unmet.append(
                    f"{client.name} was told {result.outcome}, job {job_id.hex()} is {state}"
                )
