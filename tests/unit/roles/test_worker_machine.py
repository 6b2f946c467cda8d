from __future__ import annotations

import pytest

from rollq.base.jobs import AttemptRef, Status
from rollq.base.limits import DEDUP_RECORDS_MAX, UNTAKEN_RESULTS_MAX
from rollq.roles.worker.attempts import Phase
from rollq.roles.worker.machine import IDLE_HEARTBEAT_MS, Link, WorkerMachine, WorkerSetup
from rollq.roles.worker.signals import (
    Connect,
    Connected,
    CpuBusy,
    CpuOk,
    Disconnect,
    Disconnected,
    DrainRequested,
    Exit,
    Finished,
    ForgetResult,
    Instruction,
    KillJob,
    Received,
    Send,
    Started,
    StartFailed,
    StartJob,
    Stored,
    StoredResult,
    StoreResult,
    Tick,
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


# --- session


def test_start_dials_and_hello_declares_everything_held() -> None:
    held = StoredResult(ref(1), LEASE_MS, Status.OK, b"r")
    worker = machine(stored=(held,))
    assert worker.handle(Started()) == [Connect("m1", 0)]
    assert worker.handle(Connected()) == [
        Send(wire.HelloWorker(WORKER, ("q",), "box", 7, 2, (ref(1),), ("compact",)))
    ]
    out = worker.handle(Received(wire.Welcome("g", 1)))
    assert out == [ack(ref(1), result=b"r"), Send(wire.Credit(2))]
    assert worker.link is Link.OPEN


def test_broken_session_keeps_attempts_and_declares_free_slots_anew() -> None:
    worker = welcomed()
    worker.handle(assign(ref(1)))
    assert worker.handle(Disconnected()) == [Connect("m2", 20)]
    assert worker.credit == 0
    hello = worker.handle(Connected())[0]
    assert isinstance(hello, Send)
    assert isinstance(hello.message, wire.HelloWorker)
    assert hello.message.holding == (ref(1),)
    assert worker.handle(Received(wire.Welcome("g", 2))) == [Send(wire.Credit(1))]


def test_attempts_that_the_welcome_announces_cost_no_credit() -> None:
    worker = welcomed()
    worker.handle(Disconnected())
    worker.handle(Connected())
    assert worker.handle(Received(wire.Welcome("g", 2, owed=1))) == [Send(wire.Credit(1))]
    assert started(worker.handle(assign(ref(1)))) == [ref(1)]
    assert worker.credit == 1
    worker.handle(CpuBusy())
    worker.handle(Finished(ref(1), Status.OK, b"r"))
    assert worker.handle(CpuOk())[-1] == Send(wire.Credit(1))


def test_not_leader_closes_and_follows_the_named_leader() -> None:
    worker = machine()
    worker.handle(Started())
    worker.handle(Connected())
    out = worker.handle(Received(wire.NotLeader("m3", ("m1", "m3"))))
    assert out == [Disconnect(), Connect("m3", 0)]
    worker.handle(Connected())
    out = worker.handle(Received(wire.NotLeader()))
    assert out == [Disconnect(), Connect("m1", 500)]


def test_messages_of_no_concern_are_ignored() -> None:
    assert welcomed().handle(Received(wire.Error(bytes(16), 100, "what?"))) == []


def test_heartbeat_every_third_of_the_shortest_lease() -> None:
    worker = welcomed()
    worker.handle(assign(ref(1)))
    beats = [now for now in range(0, 3_001, 100) if worker.handle(Tick(now))]
    assert beats == [1_000, 2_000, 3_000]
    out = worker.handle(Tick(4_000))
    assert out == [Send(wire.Heartbeat((ref(1),)))]


def test_idle_worker_still_beats_now_and_then_but_not_without_a_session() -> None:
    worker = welcomed()
    assert worker.handle(Tick(IDLE_HEARTBEAT_MS - 1)) == []
    assert worker.handle(Tick(IDLE_HEARTBEAT_MS)) == [Send(wire.Heartbeat(()))]
    worker.handle(Disconnected())
    assert worker.handle(Tick(5 * IDLE_HEARTBEAT_MS)) == []


def test_lease_that_could_not_be_renewed_is_suspected_and_the_attempt_runs_on() -> None:
    worker = welcomed()
    worker.handle(assign(ref(1)))
    worker.handle(Tick(LEASE_MS - 1))
    assert not worker.suspected(job(1))
    worker.handle(Disconnected())
    worker.handle(Tick(3 * LEASE_MS))
    assert worker.suspected(job(1))
    assert worker.phase(job(1)) is Phase.RUNNING
    assert not worker.suspected(job(2))
    worker.handle(Connected())
    worker.handle(Received(wire.Welcome("g", 1)))
    assert not worker.suspected(job(1))


# --- one attempt


def test_ack_waits_for_the_durable_result_and_repeats_until_taken() -> None:
    worker = welcomed()
    out = worker.handle(assign(ref(1)))
    assert started(out) == [ref(1)]
    out = worker.handle(Finished(ref(1), Status.FAILED, b"r", 3, 9, 40, 50))
    record = StoredResult(ref(1), LEASE_MS, Status.FAILED, b"r", 3, 9, 40, 50)
    assert out == [StoreResult(record), Send(wire.Credit(1))]
    the_ack = Send(wire.AckJob(job(1), 1, ref(1).fence, 1, b"r", 3, 9, 40, 50))
    assert worker.handle(Stored(ref(1))) == [the_ack]
    assert worker.handle(assign(ref(1))) == [the_ack]
    assert worker.handle(taken(ref(1))) == [ForgetResult(ref(1))]
    assert worker.handle(taken(ref(1))) == []
    assert worker.holding == ()


def test_result_made_while_disconnected_is_acked_after_the_welcome() -> None:
    worker = welcomed()
    worker.handle(assign(ref(1)))
    worker.handle(Disconnected())
    assert of_type(worker.handle(Finished(ref(1))), Send) == []
    assert worker.handle(Stored(ref(1))) == []
    worker.handle(Connected())
    assert ack(ref(1)) in worker.handle(Received(wire.Welcome("g", 1)))


@pytest.mark.parametrize("when", ["running", "storing", "taken"])
def test_delivered_again_runs_once_and_moves_no_credit(when: str) -> None:
    worker = welcomed()
    worker.handle(assign(ref(1)))
    if when != "running":
        worker.handle(Finished(ref(1)))
    if when == "taken":
        worker.handle(Stored(ref(1)))
        worker.handle(taken(ref(1)))
    before = worker.credit
    assert worker.handle(assign(ref(1))) == []
    assert worker.credit == before


def test_same_attempt_number_with_a_newer_fence_is_another_run() -> None:
    worker = welcomed()
    run_to_offer(worker, ref(1))
    worker.handle(taken(ref(1)))
    again = ref(1, fence=999)
    assert started(worker.handle(assign(again))) == [again]


def test_program_that_cannot_start_is_nacked_until_taken() -> None:
    worker = welcomed()
    worker.handle(assign(ref(1)))
    nack = Send(wire.Nack(job(1), 1, ref(1).fence, "no such program"))
    out = worker.handle(StartFailed(ref(1), "no such program"))
    assert out == [nack, Send(wire.Credit(1))]
    worker.handle(Disconnected())
    worker.handle(Connected())
    assert nack in worker.handle(Received(wire.Welcome("g", 1)))
    assert worker.handle(taken(ref(1))) == []
    assert worker.holding == ()


def test_answer_for_another_attempt_forgets_nothing() -> None:
    worker = welcomed()
    run_to_offer(worker, ref(1, attempt=2))
    assert worker.handle(taken(ref(1, attempt=1))) == []
    assert worker.phase(job(1)) is Phase.OFFERED
    worker.handle(assign(ref(2)))
    assert worker.handle(taken(ref(2))) == []
    assert worker.phase(job(2)) is Phase.RUNNING


# --- newer attempts


def test_newer_attempt_kills_the_older_and_takes_the_next_slot() -> None:
    worker = welcomed()
    old, new = ref(1), ref(1, attempt=2)
    worker.handle(assign(old))
    out = worker.handle(assign(new))
    assert out[0] == KillJob(old)
    assert started(out) == [new]
    assert worker.running_count == 2
    assert worker.handle(assign(old)) == []
    assert worker.handle(Finished(old, Status.CANCELLED)) == [Send(wire.Credit(1))]
    assert worker.handle(Finished(old, Status.CANCELLED)) == []
    assert worker.handle(assign(old)) == []
    assert worker.running_count == 1


def test_newer_attempt_waits_while_the_killed_one_still_has_the_only_slot() -> None:
    worker = welcomed(slots=1)
    old, new = ref(1), ref(1, attempt=2)
    worker.handle(assign(old))
    worker.handle(stop(old))
    out = worker.handle(assign(new))
    assert out == []
    assert worker.phase(job(1)) is Phase.WAITING
    assert started(worker.handle(StartFailed(old))) == [new]


def test_newer_attempt_drops_a_result_that_can_only_be_stale() -> None:
    worker = welcomed()
    run_to_offer(worker, ref(1))
    out = worker.handle(assign(ref(1, attempt=2)))
    assert out[0] == ForgetResult(ref(1))
    worker.handle(Finished(ref(1, attempt=2)))
    worker.handle(assign(ref(1, attempt=3)))
    assert worker.handle(Stored(ref(1, attempt=2))) == [ForgetResult(ref(1, attempt=2))]


def test_older_attempt_delivered_late_is_ignored() -> None:
    worker = welcomed()
    worker.handle(assign(ref(1, attempt=2)))
    assert worker.handle(assign(ref(1, attempt=1))) == []
    assert worker.handle(stop(ref(1, attempt=1))) == []


# --- stopping


def test_stop_kills_and_acks_what_the_execution_says() -> None:
    worker = welcomed()
    worker.handle(assign(ref(1)))
    assert worker.handle(stop(ref(1))) == [KillJob(ref(1))]
    assert worker.handle(stop(ref(1))) == []
    worker.handle(Finished(ref(1), Status.CANCELLED))
    assert worker.handle(Stored(ref(1))) == [ack(ref(1), Status.CANCELLED)]
    assert worker.handle(stop(ref(1))) == [ack(ref(1), Status.CANCELLED)]


def test_stop_of_a_waiting_attempt_never_starts_it() -> None:
    worker = welcomed(slots=1)
    worker.handle(assign(ref(1)))
    worker.handle(assign(ref(2)))
    out = worker.handle(stop(ref(2)))
    assert out == [StoreResult(StoredResult(ref(2), LEASE_MS, Status.CANCELLED))]
    assert started(worker.handle(Finished(ref(1)))) == []


def test_stop_of_an_attempt_that_never_came_is_answered_and_it_never_runs() -> None:
    worker = welcomed()
    out = worker.handle(stop(ref(1)))
    assert [type(i) for i in out] == [StoreResult]
    assert worker.handle(assign(ref(1))) == []
    assert worker.handle(Stored(ref(1))) == [ack(ref(1), Status.CANCELLED)]
    worker.handle(taken(ref(1)))
    assert worker.handle(stop(ref(1))) == []


def test_stop_of_a_newer_attempt_that_never_came_ends_the_older() -> None:
    worker = welcomed()
    worker.handle(assign(ref(1)))
    out = worker.handle(stop(ref(1, attempt=2)))
    assert out[0] == KillJob(ref(1))


# --- room


def test_more_than_fits_waits_and_earns_no_credit_until_it_fits() -> None:
    worker = welcomed(slots=1)
    assert started(worker.handle(assign(ref(1)))) == [ref(1)]
    assert worker.handle(assign(ref(2))) == []
    out = worker.handle(Finished(ref(1)))
    assert started(out) == [ref(2)]
    assert of_type(out, Send) == []
    assert Send(wire.Credit(1)) in worker.handle(Finished(ref(2)))


def test_busy_cpu_keeps_credit_back() -> None:
    worker = welcomed()
    worker.handle(CpuBusy())
    worker.handle(assign(ref(1)))
    assert of_type(worker.handle(Finished(ref(1))), Send) == []
    assert worker.handle(CpuOk()) == [Send(wire.Credit(1))]


def test_results_that_nobody_takes_stop_the_credit_and_then_the_work() -> None:
    worker = welcomed(slots=1)
    number = 0
    while worker.credit:
        number += 1
        run_to_offer(worker, ref(number))
    assert number == UNTAKEN_RESULTS_MAX
    assert started(worker.handle(assign(ref(number + 1)))) == [ref(number + 1)]
    out = worker.handle(assign(ref(number + 2)))
    assert [type(i.message) for i in out if isinstance(i, Send)] == [wire.Nack]


def test_dedup_is_bounded() -> None:
    worker = welcomed(slots=1)
    for number in range(1, DEDUP_RECORDS_MAX + 2):
        run_to_offer(worker, ref(number))
        worker.handle(taken(ref(number)))
    assert worker.handle(assign(ref(2))) == []
    assert started(worker.handle(assign(ref(1)))) == [ref(1)]


# --- leaving


def test_drain_finishes_what_runs_refuses_the_rest_and_leaves() -> None:
    worker = welcomed()
    worker.handle(assign(ref(1)))
    assert worker.handle(DrainRequested()) == []
    out = worker.handle(assign(ref(2)))
    assert [type(i.message) for i in out if isinstance(i, Send)] == [wire.Nack]
    worker.handle(taken(ref(2)))
    worker.handle(Finished(ref(1)))
    worker.handle(Stored(ref(1)))
    out = worker.handle(taken(ref(1)))
    assert out == [
        ForgetResult(ref(1)),
        Send(wire.Goodbye("drained")),
        Disconnect(),
        Exit(),
    ]
    assert worker.handle(assign(ref(3))) == []


def test_drain_without_a_session_or_work_leaves_at_once() -> None:
    assert machine().handle(DrainRequested()) == [Exit()]
    greeting = machine()
    greeting.handle(Connected())
    assert greeting.handle(DrainRequested()) == [Disconnect(), Exit()]


def test_end_of_an_unknown_execution_changes_nothing() -> None:
    worker = welcomed()
    assert worker.handle(Finished(ref(1))) == []
    assert worker.handle(StartFailed(ref(1))) == []
    run_to_offer(worker, ref(1))
    assert worker.handle(Finished(ref(1))) == []
    assert worker.handle(Stored(ref(1))) == []
