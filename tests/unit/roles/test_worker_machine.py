"""The worker's machine: its session, one attempt, and newer attempts."""

from __future__ import annotations

import pytest

from rollq.base.jobs import BlobRef, Status
from rollq.base.limits import PROGRAMS_MAX
from rollq.roles.worker.attempts import AttemptPhase
from rollq.roles.worker.session import IDLE_HEARTBEAT_MS, LinkState
from rollq.roles.worker.signals import (
    Connect,
    Connected,
    CpuBusy,
    CpuOk,
    Disconnect,
    Disconnected,
    Finished,
    KillJob,
    ProgramsFound,
    SendToMember,
    Started,
    StartFailed,
    StoredResult,
    Tick,
)
from rollq.wire import messages as wire
from tests.unit.roles.worker_machines import (
    LEASE_MS,
    WORKER,
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

# --- session


def test_start_dials_and_hello_declares_everything_held() -> None:
    held = StoredResult(ref(1), LEASE_MS, Status.OK, b"r")
    worker = machine(stored=(held,))
    assert worker.handle(Started()) == [Connect("m1", 0)]
    assert worker.handle(Connected()) == [
        say(wire.HelloWorker(WORKER, ("q",), "box", 7, 2, (ref(1),), ("compact",)))
    ]
    out = worker.handle(received(wire.Welcome("g", 1)))
    assert out == [ack(ref(1), result=b"r"), say(wire.Credit(2))]
    assert worker.link is LinkState.OPEN


def test_broken_session_keeps_attempts_and_declares_free_slots_anew() -> None:
    worker = welcomed()
    worker.handle(assign(ref(1)))
    assert worker.handle(Disconnected()) == [Connect("m2", 20)]
    assert worker.credit == 0
    hello = worker.handle(Connected())[0]
    assert isinstance(hello, SendToMember)
    (message,) = hello.messages
    assert isinstance(message, wire.HelloWorker)
    assert message.holding == (ref(1),)
    assert worker.handle(received(wire.Welcome("g", 2))) == [say(wire.Credit(1))]


def test_attempts_that_the_welcome_announces_cost_no_credit() -> None:
    worker = welcomed()
    worker.handle(Disconnected())
    worker.handle(Connected())
    assert worker.handle(received(wire.Welcome("g", 2, owed=1))) == [say(wire.Credit(1))]
    assert started(worker.handle(assign(ref(1)))) == [ref(1)]
    assert worker.credit == 1
    worker.handle(CpuBusy())
    worker.handle(finished(ref(1), Status.OK, b"r"))
    assert worker.handle(CpuOk())[-1] == say(wire.Credit(1))


def test_not_leader_closes_and_follows_the_named_leader() -> None:
    worker = machine()
    worker.handle(Started())
    worker.handle(Connected())
    out = worker.handle(received(wire.NotLeader("m3", ("m1", "m3"))))
    assert out == [Disconnect(), Connect("m3", 0)]
    worker.handle(Connected())
    out = worker.handle(received(wire.NotLeader()))
    assert out == [Disconnect(), Connect("m1", 500)]


def test_messages_of_no_concern_are_ignored() -> None:
    assert welcomed().handle(received(wire.Error(bytes(16), 100, "what?"))) == []


def test_heartbeat_every_third_of_the_shortest_lease() -> None:
    worker = welcomed()
    worker.handle(assign(ref(1)))
    beats = [now for now in range(0, 3_001, 100) if worker.handle(Tick(now))]
    assert beats == [1_000, 2_000, 3_000]
    out = worker.handle(Tick(4_000))
    assert out == [say(wire.Heartbeat((ref(1),)))]


def test_a_computer_above_its_cap_is_told_at_once_and_until_it_was_calm_for_a_while() -> None:
    worker = welcomed()
    assert say(wire.Heartbeat((), True)) in worker.handle(CpuBusy())
    for event in (CpuOk(), CpuBusy(), CpuOk()):  # a load that swings
        assert worker.handle(event) == []
    beats = [worker.handle(Tick(n * IDLE_HEARTBEAT_MS)) for n in (1, 2, 3)]
    told = [out[0].messages[0].is_capped for out in beats]  # type: ignore[union-attr]
    assert told == [True, False, False]
    assert say(wire.Heartbeat((), True)) in worker.handle(CpuBusy())


def test_idle_worker_still_beats_now_and_then_but_not_without_a_session() -> None:
    worker = welcomed()
    assert worker.handle(Tick(IDLE_HEARTBEAT_MS - 1)) == []
    assert worker.handle(Tick(IDLE_HEARTBEAT_MS)) == [say(wire.Heartbeat(()))]
    worker.handle(Disconnected())
    assert worker.handle(Tick(5 * IDLE_HEARTBEAT_MS)) == []


def test_an_attempt_whose_lease_could_not_be_renewed_runs_on() -> None:
    worker = welcomed()
    worker.handle(assign(ref(1)))
    worker.handle(Disconnected())
    worker.handle(Tick(3 * LEASE_MS))
    assert worker.phase(job(1)) is AttemptPhase.RUNNING
    worker.handle(Connected())
    worker.handle(received(wire.Welcome("g", 1)))
    assert worker.phase(job(1)) is AttemptPhase.RUNNING


# --- one attempt


def test_ack_waits_for_the_durable_result_and_repeats_until_taken() -> None:
    worker = welcomed()
    out = worker.handle(assign(ref(1)))
    assert started(out) == [ref(1)]
    blobs = (BlobRef(b"b" * 32, 8),)
    record = StoredResult(ref(1), LEASE_MS, Status.FAILED, b"r", 3, 9, 40, 50, blobs, 60, 70)
    out = worker.handle(Finished([record]))
    assert out == [store(record), say(wire.Credit(1))]
    the_ack = say(wire.AckJob(job(1), 1, ref(1).fence, 1, b"r", 3, 9, 40, 50, blobs, 60, 70))
    assert worker.handle(stored(ref(1))) == [the_ack]
    assert worker.handle(assign(ref(1))) == [the_ack]
    assert worker.handle(taken(ref(1))) == [forget(ref(1))]
    assert worker.handle(taken(ref(1))) == []
    assert worker.holding == ()


def test_result_made_while_disconnected_is_acked_after_the_welcome() -> None:
    worker = welcomed()
    worker.handle(assign(ref(1)))
    worker.handle(Disconnected())
    assert of_type(worker.handle(finished(ref(1))), SendToMember) == []
    assert worker.handle(stored(ref(1))) == []
    worker.handle(Connected())
    assert ack(ref(1)) in worker.handle(received(wire.Welcome("g", 1)))


@pytest.mark.parametrize("when", ["running", "storing", "taken"])
def test_delivered_again_runs_once_and_moves_no_credit(when: str) -> None:
    worker = welcomed()
    worker.handle(assign(ref(1)))
    if when != "running":
        worker.handle(finished(ref(1)))
    if when == "taken":
        worker.handle(stored(ref(1)))
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
    nack = say(wire.Nack(job(1), 1, ref(1).fence, "no such program"))
    out = worker.handle(StartFailed(ref(1), "no such program"))
    assert out == [nack, say(wire.Credit(1))]
    worker.handle(Disconnected())
    worker.handle(Connected())
    assert nack in worker.handle(received(wire.Welcome("g", 1)))
    assert worker.handle(taken(ref(1))) == []
    assert worker.holding == ()


def test_answer_for_another_attempt_forgets_nothing() -> None:
    worker = welcomed()
    run_to_offer(worker, ref(1, attempt=2))
    assert worker.handle(taken(ref(1, attempt=1))) == []
    assert worker.phase(job(1)) is AttemptPhase.OFFERED
    worker.handle(assign(ref(2)))
    assert worker.handle(taken(ref(2))) == []
    assert worker.phase(job(2)) is AttemptPhase.RUNNING


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
    assert worker.handle(finished(old, Status.CANCELLED)) == [say(wire.Credit(1))]
    assert worker.handle(finished(old, Status.CANCELLED)) == []
    assert worker.handle(assign(old)) == []
    assert worker.running_count == 1


def test_newer_attempt_waits_while_the_killed_one_still_has_the_only_slot() -> None:
    worker = welcomed(slots=1)
    old, new = ref(1), ref(1, attempt=2)
    worker.handle(assign(old))
    worker.handle(stop(old))
    out = worker.handle(assign(new))
    assert out == []
    assert worker.phase(job(1)) is AttemptPhase.WAITING
    assert started(worker.handle(StartFailed(old))) == [new]


def test_newer_attempt_drops_a_result_that_can_only_be_stale() -> None:
    worker = welcomed()
    run_to_offer(worker, ref(1))
    out = worker.handle(assign(ref(1, attempt=2)))
    assert out[0] == forget(ref(1))
    worker.handle(finished(ref(1, attempt=2)))
    worker.handle(assign(ref(1, attempt=3)))
    assert worker.handle(stored(ref(1, attempt=2))) == [forget(ref(1, attempt=2))]


def test_older_attempt_delivered_late_is_ignored() -> None:
    worker = welcomed()
    worker.handle(assign(ref(1, attempt=2)))
    assert worker.handle(assign(ref(1, attempt=1))) == []
    assert worker.handle(stop(ref(1, attempt=1))) == []


def test_a_worker_says_what_it_can_run_when_it_is_welcomed_and_when_that_changes() -> None:
    worker = machine()
    worker.handle(ProgramsFound(frozenset({"b", "a"}), ships=True))
    worker.handle(Connected())
    out = worker.handle(received(wire.Welcome("g", 1, ("programs",))))
    assert out[0] == say(wire.Announce(("a", "b"), ships=True))
    assert isinstance(out[1], SendToMember)  # credit comes after it
    assert worker.handle(ProgramsFound(frozenset({"b", "a"}), ships=True)) == []
    change = worker.handle(ProgramsFound(frozenset({"b", "c"}), ships=True))
    assert change == [say(wire.Announce(("c",), ("a",), ships=True))]
    worker.handle(Disconnected())
    assert worker.handle(ProgramsFound(frozenset({"c"}))) == []
    worker.handle(Connected())
    again = worker.handle(received(wire.Welcome("g", 2, ("programs",))))
    assert again[0] == say(wire.Announce(("c",)))


def test_a_worker_with_very_many_programs_may_be_given_anything() -> None:
    worker = machine()
    worker.handle(ProgramsFound(frozenset(map(str, range(PROGRAMS_MAX + 1)))))
    worker.handle(Connected())
    out = worker.handle(received(wire.Welcome("g", 1, ("programs",))))
    assert out[0] == say(wire.Announce(is_any=True))
    assert worker.handle(ProgramsFound(frozenset({"a"}))) == [say(wire.Announce(("a",)))]


def test_an_older_leader_is_told_of_no_programs() -> None:
    worker = machine()
    worker.handle(ProgramsFound(frozenset({"a"})))
    worker.handle(Connected())
    out = worker.handle(received(wire.Welcome("g", 1)))
    said = [message for one in out if isinstance(one, SendToMember) for message in one.messages]
    assert [type(message) for message in said] == [wire.Credit]
    assert worker.handle(ProgramsFound(frozenset({"b"}))) == []
