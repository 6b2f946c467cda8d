"""What a change of leader means for dispatch: the index stays, the office goes."""

from __future__ import annotations

from rollq.grid.commands import CancelJobs, OpenClient
from rollq.grid.snapshot import decode_snapshot, encode_snapshot
from rollq.policy.dispatch import Dispatcher
from tests.unit.grid.kit import job_id, worker_id
from tests.unit.policy.kit import EVERYTHING, Desk, in_ones, said


def decided_by(dispatcher: Dispatcher, credit: int = 100) -> list[str]:
    """What a member would decide, had it a worker w."""
    dispatcher.open_worker(worker_id("w"), 1, "w", EVERYTHING)
    dispatcher.grant(worker_id("w"), credit)
    return [said(command) for command in in_ones(dispatcher.decide(1_000))]


def test_a_follower_has_the_index_at_once() -> None:
    desk = Desk()
    desk.worker("w", 3)
    desk.submit("a", "b", "c", client="ann")
    desk.submit("x", "y", client="bob")
    desk.submit_array("arr", 3)
    assert desk.run() == ["a@w", "x@w", "b@w"]
    desk.nack("b")
    desk.ack("a")
    desk.apply(CancelJobs((job_id("c"),)))
    assert sorted(decided_by(desk.follower)) == ["arr@w", "arr@w", "arr@w", "b@w", "y@w"]


def test_the_index_is_rebuilt_from_a_snapshot_in_order() -> None:
    desk = Desk()
    desk.worker("w", 2)
    desk.submit("a", "b", "c")
    desk.submit_array("arr", 2)
    desk.submit_array("later", 2, delay_ms=9)
    desk.submit("d")
    assert desk.run() == ["a@w", "b@w"]
    desk.nack("a")
    state = decode_snapshot(encode_snapshot(desk.state))
    assert decided_by(Dispatcher(state)) == ["a@w", "c@w", "arr@w", "arr@w", "d@w"]


def test_abdication_drops_sessions_and_puts_decisions_back_in_order() -> None:
    desk = Desk()
    desk.worker("w", 4)
    desk.submit("a", "b", "c")
    desk.submit_array("arr", 2)
    desk.submit("m", worker_name="w")
    assert len(desk.decide()) == 4
    desk.dispatcher.step_down()
    assert desk.credit("w") == 0
    assert desk.decide() == []
    assert decided_by(desk.dispatcher) == ["m@w", "a@w", "b@w", "c@w", "arr@w", "arr@w"]


def test_a_decision_may_be_applied_after_abdication() -> None:
    desk = Desk()
    desk.worker("w", 2)
    desk.submit("a", "b", "c")
    desk.submit_array("arr", 1)
    decided = desk.decide()
    desk.dispatcher.step_down()
    desk.apply(*decided)
    assert decided_by(desk.dispatcher) == ["c@w", "arr@w"]


def test_the_last_task_may_be_applied_after_abdication() -> None:
    desk = Desk()
    desk.worker("w", 2)
    desk.submit_array("arr", 2)
    decided = desk.decide()
    desk.dispatcher.step_down()
    desk.apply(*decided)
    assert decided_by(desk.dispatcher) == []


def test_caps_hold_after_abdication() -> None:
    desk = Desk()
    desk.apply(OpenClient("ann", 1))
    desk.worker("w", 5)
    desk.submit("a", "b")
    assert len(desk.decide()) == 1
    desk.dispatcher.step_down()
    assert decided_by(desk.dispatcher) == ["a@w"]


def test_parked_lanes_wake_on_the_next_leader() -> None:
    desk = Desk()
    desk.apply(OpenClient("ann", 1))
    desk.worker("w", 5)
    desk.submit("a", "b")
    assert desk.run() == ["a@w"]
    desk.dispatcher.step_down()
    desk.ack("a")
    assert decided_by(desk.dispatcher) == ["b@w"]


def test_idle_queues_and_clients_are_forgotten() -> None:
    desk = Desk()
    desk.worker("w", 1)
    for number in range(300):
        name = f"j{number}"
        desk.submit(name, queue=f"queue{number}", client=f"client{number}")
        assert desk.run() == [f"{name}@w"]
        desk.ack(name)
        desk.forget(name)
        desk.grant("w", 1)
    for member in (desk.dispatcher, desk.follower):
        assert len(member._backlog._queues) < 150
