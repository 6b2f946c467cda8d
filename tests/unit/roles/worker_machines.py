"""A worker's machine in a state that tests want, and what they say to it."""

from __future__ import annotations

from rollq.base.jobs import AttemptRef, Status
from rollq.roles.worker.machine import WorkerMachine
from rollq.roles.worker.session import WorkerSetup
from rollq.roles.worker.signals import (
    Connected,
    Finished,
    Instruction,
    Received,
    Send,
    Started,
    StartJob,
    Stored,
    StoredResult,
)
from rollq.wire import messages as wire
from tests.unit.roles.chance import MiddleJitter

WORKER = b"w" * 16
LEASE_MS = 3_000


def job(number: int) -> bytes:
    return number.to_bytes(16, "big")


def ref(number: int, attempt: int = 1, fence: int = 0) -> AttemptRef:
    return AttemptRef(job(number), attempt, fence or 10 * number + attempt)


def assign(of: AttemptRef) -> Received:
    message = wire.AssignJob(of.job_id, of.attempt, of.fence, LEASE_MS, "q", "exec", b"body")
    return Received(message)


def stop(of: AttemptRef) -> Received:
    return Received(wire.StopJob(of.job_id, of.attempt, of.fence))


def taken(of: AttemptRef) -> Received:
    return Received(wire.AckTaken(of.job_id, of.attempt))


def ack(of: AttemptRef, status: int = Status.OK, result: bytes = b"") -> Send:
    return Send(wire.AckJob(of.job_id, of.attempt, of.fence, status, result))


def machine(slots: int = 2, stored: tuple[StoredResult, ...] = ()) -> WorkerMachine:
    setup = WorkerSetup(WORKER, ("m1", "m2"), ("q",), "box", 7, slots, ("compact",))
    return WorkerMachine(setup, MiddleJitter(), stored)


def welcomed(slots: int = 2, stored: tuple[StoredResult, ...] = ()) -> WorkerMachine:
    worker = machine(slots, stored)
    worker.handle(Started())
    worker.handle(Connected())
    worker.handle(Received(wire.Welcome("g", 1)))
    return worker


def of_type(out: list[Instruction], kind: type) -> list[Instruction]:
    return [instruction for instruction in out if isinstance(instruction, kind)]


def started(out: list[Instruction]) -> list[AttemptRef]:
    return [i.ref for i in out if isinstance(i, StartJob)]


def run_to_offer(worker: WorkerMachine, of: AttemptRef) -> None:
    worker.handle(assign(of))
    worker.handle(Finished(of, Status.OK, b"r"))
    worker.handle(Stored(of))
