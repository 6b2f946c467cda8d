"""The worker's machine: stopping, room and leaving."""

from __future__ import annotations

from rollq.base.jobs import Status
from rollq.base.limits import DEDUP_RECORDS_MAX, UNTAKEN_RESULTS_MAX
from rollq.roles.worker.signals import (
    Connected,
    CpuBusy,
    CpuOk,
    Disconnect,
    Disconnected,
    DrainRequested,
    Exit,
    KillJob,
    SendToMember,
    StartFailed,
    StoredResult,
    StoreResults,
)
from rollq.wire import messages as wire
from tests.unit.roles.worker_machines import (
    LEASE_MS,
    ack,
    assign,
    finished,
    forget,
    job,
    machine,
    of_type,
    received,
    ref,
    run_to_offer,
    say,
    started,
    stop,
    store,
    stored,
    taken,
    welcomed,
)

# --- stopping


def test_stop_kills_and_acks_what_the_execution_says() -> None:
    worker = welcomed()
    worker.handle(assign(ref(1)))
    assert worker.handle(stop(ref(1))) == [KillJob(ref(1))]
    assert worker.handle(stop(ref(1))) == []
    worker.handle(finished(ref(1), Status.CANCELLED))
    assert worker.handle(stored(ref(1))) == [ack(ref(1), Status.CANCELLED)]
    assert worker.handle(stop(ref(1))) == [ack(ref(1), Status.CANCELLED)]


def test_stop_of_a_waiting_attempt_never_starts_it() -> None:
    worker = welcomed(slots=1)
    worker.handle(assign(ref(1)))
    worker.handle(assign(ref(2)))
    out = worker.handle(stop(ref(2)))
    assert out == [store(StoredResult(ref(2), LEASE_MS, Status.CANCELLED))]
    assert started(worker.handle(finished(ref(1)))) == []


def test_stop_of_an_attempt_that_never_came_is_answered_and_it_never_runs() -> None:
    worker = welcomed()
    out = worker.handle(stop(ref(1)))
    assert [type(i) for i in out] == [StoreResults]
    assert worker.handle(assign(ref(1))) == []
    assert worker.handle(stored(ref(1))) == [ack(ref(1), Status.CANCELLED)]
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
    out = worker.handle(finished(ref(1)))
    assert started(out) == [ref(2)]
    assert of_type(out, SendToMember) == []
    assert say(wire.Credit(1)) in worker.handle(finished(ref(2)))


def test_busy_cpu_keeps_credit_back() -> None:
    worker = welcomed()
    worker.handle(CpuBusy())
    worker.handle(assign(ref(1)))
    worker.handle(assign(ref(2)))
    assert of_type(worker.handle(finished(ref(1))), SendToMember) == []
    assert worker.handle(CpuOk()) == [say(wire.Credit(1))]


def test_a_busy_computer_runs_one_at_a_time_and_never_none() -> None:
    worker = welcomed()
    worker.handle(CpuBusy())
    for number in (1, 2):
        worker.handle(assign(ref(number)))
    assert of_type(worker.handle(finished(ref(1))), SendToMember) == []
    assert of_type(worker.handle(finished(ref(2))), SendToMember) == [say(wire.Credit(1))]
    assert worker.handle(CpuOk()) == [say(wire.Credit(1))]


def test_results_that_nobody_takes_stop_the_credit_and_then_the_work() -> None:
    worker = welcomed(slots=1)
    number = 0
    while worker.credit:
        number += 1
        run_to_offer(worker, ref(number))
    assert number == UNTAKEN_RESULTS_MAX
    assert started(worker.handle(assign(ref(number + 1)))) == [ref(number + 1)]
    out = worker.handle(assign(ref(number + 2)))
    assert [type(i.messages[0]) for i in out if isinstance(i, SendToMember)] == [wire.Nack]


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
    assert [type(i.messages[0]) for i in out if isinstance(i, SendToMember)] == [wire.Nack]
    worker.handle(taken(ref(2)))
    worker.handle(finished(ref(1)))
    worker.handle(stored(ref(1)))
    out = worker.handle(taken(ref(1)))
    assert out == [
        forget(ref(1)),
        say(wire.Goodbye("drained")),
        Disconnect(),
        Exit(),
    ]
    assert worker.handle(assign(ref(3))) == []


def test_a_drain_gives_back_what_has_not_begun_and_says_that_it_has_not() -> None:
    worker = machine(slots=1)
    worker.handle(Connected())
    worker.handle(received(wire.Welcome("g", 1, ("programs",), 2)))
    worker.handle(assign(ref(1)))
    assert worker.handle(assign(ref(2))) == []
    second, third = (wire.Nack(job(n), 1, 10 * n + 1, "draining", True) for n in (2, 3))
    assert worker.handle(DrainRequested()) == [say(second)]
    assert worker.handle(assign(ref(3))) == [say(third)]
    assert started(worker.handle(finished(ref(1)))) == []


def test_a_drain_runs_what_waits_if_its_leader_would_count_an_attempt() -> None:
    worker = machine(slots=1)
    worker.handle(Connected())
    worker.handle(received(wire.Welcome("g", 1, (), 2)))
    worker.handle(assign(ref(1)))
    worker.handle(assign(ref(2)))
    assert worker.handle(DrainRequested()) == []
    assert started(worker.handle(finished(ref(1)))) == [ref(2)]


def test_a_worker_that_its_leader_drains_gives_back_what_has_not_begun_and_stays() -> None:
    worker = machine(slots=1)
    worker.handle(Connected())
    worker.handle(received(wire.Welcome("g", 1, ("programs", "drain"), 2)))
    worker.handle(assign(ref(1)))
    assert worker.handle(assign(ref(2))) == []
    second, third = (wire.Nack(job(n), 1, 10 * n + 1, "draining", True) for n in (2, 3))
    assert worker.handle(received(wire.Drain(True)))[0] == say(second)
    assert worker.handle(assign(ref(3)))[0] == say(third)
    assert of_type(worker.handle(finished(ref(1))), Exit) == []
    worker.handle(stored(ref(1)))
    assert of_type(worker.handle(taken(ref(1))), Exit) == []
    worker.handle(received(wire.Drain(False)))
    assert started(worker.handle(assign(ref(4)))) == [ref(4)]


def test_a_session_begins_without_a_drain() -> None:
    worker = machine(slots=1)
    worker.handle(Connected())
    worker.handle(received(wire.Welcome("g", 1, ("programs", "drain"))))
    worker.handle(received(wire.Drain(True)))
    worker.handle(Disconnected())
    worker.handle(Connected())
    worker.handle(received(wire.Welcome("g", 1, ("programs", "drain"), 1)))
    assert started(worker.handle(assign(ref(1)))) == [ref(1)]


def test_a_failed_start_says_whether_anything_was_tried() -> None:
    worker = welcomed(slots=2)
    for number, not_started in ((1, True), (2, False)):
        worker.handle(assign(ref(number)))
        out = worker.handle(StartFailed(ref(number), "why", not_started))
        nack = wire.Nack(job(number), 1, 10 * number + 1, "why", not_started)
        assert out[0] == say(nack)


def test_drain_without_a_session_or_work_leaves_at_once() -> None:
    assert machine().handle(DrainRequested()) == [Exit()]
    greeting = machine()
    greeting.handle(Connected())
    assert greeting.handle(DrainRequested()) == [Disconnect(), Exit()]


def test_end_of_an_unknown_execution_changes_nothing() -> None:
    worker = welcomed()
    assert worker.handle(finished(ref(1))) == []
    assert worker.handle(StartFailed(ref(1))) == []
    run_to_offer(worker, ref(1))
    assert worker.handle(finished(ref(1))) == []


def test_an_ack_is_said_again_when_its_result_is_told_to_be_stored_again() -> None:
    worker = welcomed()
    run_to_offer(worker, ref(1))
    assert worker.handle(stored(ref(1))) == [ack(ref(1), result=b"r")]
    worker.handle(taken(ref(1)))
    assert worker.handle(stored(ref(1))) == [forget(ref(1))]
