"""A grid to try things on: names in place of ids, and every law checked after every entry."""

from __future__ import annotations

from typing import Any

from rollq.base.errors import ErrorCode
from rollq.base.ids import JobId, WorkerId
from rollq.base.jobs import AttemptRef, JobOptions, Status
from rollq.grid import commands as c
from rollq.grid.apply import apply_entry
from rollq.grid.command_codec import encode_batch
from rollq.grid.effects import Applied, Outcome, Refused
from rollq.grid.events import each_of
from rollq.grid.invariants import check
from rollq.grid.state import ArrayRecord, GridState, JobRecord


def job_id(name: str) -> JobId:
    """Sixteen bytes for a name; no two names share a prefix of twelve."""
    return name.encode().rjust(12, b"\0") + b"job\0"


def worker_id(name: str) -> WorkerId:
    """Sixteen bytes for a worker's name."""
    return name.encode().rjust(16, b"\0")


def kinds(applied: Applied) -> list[str]:
    """What happened, in words."""
    return [event.kind for event in each_of(applied.events)]


def refusal(outcome: Outcome) -> ErrorCode:
    """The code of a refusal."""
    assert isinstance(outcome, Refused), outcome
    return outcome.code


class Grid:
    """A state with one-line verbs. Jobs, workers and arrays are called by name."""

    def __init__(self, *, workers: tuple[str, ...] = ("w1",)) -> None:
        self.state = GridState()
        self.stamp_ms = 1_000
        for name in workers:
            self.open_worker(name)

    def apply(self, *commands: c.Command) -> Applied:
        """Apply one entry and check all laws."""
        self.stamp_ms += 10
        data = encode_batch(self.stamp_ms, commands)
        applied = apply_entry(self.state, self.state.applied_index + 1, data)
        assert not check(self.state)
        assert len(applied.outcomes) == len(commands)
        return applied

    def ask(self, command: c.Command) -> Outcome:
        """Apply one command; its outcome. A refusal must change nothing and say nothing."""
        applied = self.apply(command)
        outcome = applied.outcomes[0]
        if isinstance(outcome, Refused):
            assert not applied.events
            assert not applied.effects
        return outcome

    def job(self, name: str) -> JobRecord:
        """The record of a job."""
        return self.state.jobs[job_id(name)]

    def array(self, name: str) -> ArrayRecord:
        """The record of an array."""
        array = self.state.array_of(job_id(name))
        assert array is not None
        return array

    def submit(self, *names: str, client: str = "ann", queue: str = "q", **options: Any) -> Applied:
        """Submit jobs; the body of each is its name."""
        return self.apply(*(submit(name, client=client, queue=queue, **options) for name in names))

    def submit_array(self, name: str, count: int, running_max: int = 0, **options: Any) -> Applied:
        """Submit an array of the client ann."""
        made = JobOptions(**options) if options else None
        return self.apply(
            c.SubmitArray(job_id(name), "ann", "q", "exe", b"body", count, made, running_max)
        )

    def assign(self, *names: str, worker: str = "w1") -> Applied:
        """Start the next attempt of jobs."""
        return self.apply(*(self.assignment(name, worker) for name in names))

    def assignment(self, name: str, worker: str = "w1") -> c.AssignJob:
        """The command that starts the next attempt of a job."""
        attempt = self.job(name).attempt + 1 if job_id(name) in self.state.jobs else 1
        held = self.state.workers.get(worker_id(worker))
        incarnation = held.incarnation if held is not None else 1
        return c.AssignJob(job_id(name), worker_id(worker), incarnation, attempt, 5_000)

    def assign_task(self, name: str, worker: str = "w1") -> Outcome:
        """Start the next task of an array."""
        return self.ask(c.AssignTask(job_id(name), worker_id(worker), 1, 5_000))

    def start(self, *names: str, worker: str = "w1", **options: Any) -> None:
        """Submit and assign."""
        self.submit(*names, **options)
        self.assign(*names, worker=worker)

    def ack(self, name: str, status: Status = Status.OK, **fields: Any) -> Applied:
        """The running attempt of a job gives a result."""
        return self.apply(self.acknowledgement(name, status, **fields))

    def acknowledgement(self, name: str, status: Status = Status.OK, **fields: Any) -> c.AckJob:
        """The command that ends the running attempt of a job."""
        record = self.job(name)
        fields.setdefault("result", b"result")
        return c.AckJob(record.job_id, record.attempt, record.fence, status, **fields)

    def nack(
        self,
        name: str,
        delay_ms: int = 0,
        detail: str = "no such exec",
        *,
        not_started: bool = False,
    ) -> Applied:
        """The worker cannot run the attempt of a job."""
        record = self.job(name)
        which = record.job_id, record.attempt, record.fence
        return self.apply(c.NackJob(*which, detail, delay_ms, not_started))

    def kill(self, name: str) -> None:
        """Make a job dead by letting all its attempts come to nothing."""
        while self.job(name).end is None:
            self.assign(name)
            self.nack(name)

    def open_worker(
        self, name: str, incarnation: int = 1, running: tuple[str, ...] = (), delay_ms: int = 0
    ) -> Applied:
        """Begin a session that announces the running attempts of these jobs."""
        refs = tuple(
            AttemptRef(job_id(job), self.job(job).attempt, self.job(job).fence) for job in running
        )
        return self.apply(
            c.OpenWorker(worker_id(name), incarnation, name, (">",), 4, refs, delay_ms)
        )


def submit(
    name: str,
    *,
    client: str = "ann",
    queue: str = "q",
    body: bytes | None = None,
    **options: Any,
) -> c.SubmitJob:
    """The command that submits a job."""
    return c.SubmitJob(
        job_id(name),
        client,
        queue,
        "exe",
        name.encode() if body is None else body,
        JobOptions(**options) if options else None,
    )
