"""A worker's machine in a state that tests want, and what they say to it."""

from __future__ import annotations

from rollq.base.jobs import AttemptRef, Status
from rollq.roles.worker.machine import WorkerMachine
from rollq.roles.worker.session import WorkerSetup
from rollq.roles.worker.signals import (
    Connected,
    Event,
    Finished,
    ForgetResults,
    Instruction,
    MessageReceived,
    ResultStored,
    SendToMember,
    Started,
    StartJobs,
    StoredResult,
    StoreResults,
    TurnOver,
)
from rollq.wire import messages as wire
from tests.unit.roles.chance import MiddleJitter

WORKER = b"w" * 16
LEASE_MS = 3_000


def job(number: int) -> bytes:
    return number.to_bytes(16, "big")


def ref(number: int, attempt: int = 1, fence: int = 0) -> AttemptRef:
    return AttemptRef(job(number), attempt, fence or 10 * number + attempt)


# --- events of one


def received(message: wire.MemberMessage) -> MessageReceived:
    return MessageReceived([message])


def assign(of: AttemptRef) -> MessageReceived:
    return received(wire.AssignJob(of.job_id, of.attempt, of.fence, LEASE_MS, "q", "exec", b"body"))


def stop(of: AttemptRef) -> MessageReceived:
    return received(wire.StopJob(of.job_id, of.attempt, of.fence))


def taken(of: AttemptRef) -> MessageReceived:
    return received(wire.AckTaken(of.job_id, of.attempt))


def finished(
    of: AttemptRef,
    status: int = Status.OK,
    result: bytes = b"",
    end: tuple[int, int, int, int] = (0, 0, 0, 0),
) -> Finished:
    return Finished([StoredResult(of, LEASE_MS, status, result, *end)])


def stored(of: AttemptRef) -> ResultStored:
    return ResultStored([of])


# --- instructions of one


def say(message: wire.WorkerMessage) -> SendToMember:
    return SendToMember([message])


def ack(of: AttemptRef, status: int = Status.OK, result: bytes = b"") -> SendToMember:
    return say(wire.AckJob(of.job_id, of.attempt, of.fence, status, result))


def store(record: StoredResult) -> StoreResults:
    return StoreResults([record])


def forget(of: AttemptRef) -> ForgetResults:
    return ForgetResults([of])


# --- machines


class Worker(WorkerMachine):
    """One whose instructions name one attempt or message each, as most tests speak of one, and
    whose every event is a turn."""

    __slots__ = ()

    def handle(self, event: Event) -> list[Instruction]:
        out = super().handle(event) + super().handle(TurnOver())
        return [one for many in out for one in split(many)]


def split(instruction: Instruction) -> list[Instruction]:
    if isinstance(instruction, SendToMember):
        return [SendToMember([message]) for message in instruction.messages]
    if isinstance(instruction, StartJobs):
        return [StartJobs([job]) for job in instruction.jobs]
    if isinstance(instruction, StoreResults):
        return [StoreResults([record]) for record in instruction.results]
    if isinstance(instruction, ForgetResults):
        return [ForgetResults([of]) for of in instruction.refs]
    return [instruction]


def machine(slots: int = 2, stored: tuple[StoredResult, ...] = ()) -> Worker:
    setup = WorkerSetup(WORKER, ("m1", "m2"), ("q",), "box", 7, slots, ("compact",))
    return Worker(setup, MiddleJitter(), stored)


def welcomed(slots: int = 2, stored: tuple[StoredResult, ...] = ()) -> Worker:
    worker = machine(slots, stored)
    worker.handle(Started())
    worker.handle(Connected())
    worker.handle(received(wire.Welcome("g", 1)))
    return worker


def of_type(out: list[Instruction], kind: type) -> list[Instruction]:
    return [instruction for instruction in out if isinstance(instruction, kind)]


def started(out: list[Instruction]) -> list[AttemptRef]:
    return [of for i in out if isinstance(i, StartJobs) for _, of in i.jobs]


def run_to_offer(worker: WorkerMachine, of: AttemptRef) -> None:
    worker.handle(assign(of))
    worker.handle(finished(of, Status.OK, b"r"))
    worker.handle(stored(of))
