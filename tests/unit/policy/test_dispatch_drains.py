"""What the leader gives to workers that are drained."""

from rollq.grid.commands import DrainWorkers, OpenWorker
from tests.unit.grid.kit import job_id, worker_id
from tests.unit.policy.kit import Desk

W1, W2 = worker_id("w1"), worker_id("w2")


def drain(desk: Desk, *names: str, undo: bool = False) -> None:
    desk.apply(DrainWorkers(tuple(map(worker_id, names)), undo))


def test_nothing_is_decided_for_a_drained_worker_and_its_credit_waits() -> None:
    desk = Desk()
    desk.worker("w1", credit=2)
    drain(desk, "w1")
    desk.submit("a", "b", "c")
    assert desk.run() == []
    desk.grant("w1", 1)
    assert desk.credit("w1") == 3
    assert desk.run() == []
    drain(desk, "w1", undo=True)
    assert desk.run() == ["a@w1", "b@w1", "c@w1"]


def test_others_serve_meanwhile() -> None:
    desk = Desk()
    desk.worker("w1", credit=2)
    desk.worker("w2", credit=2)
    drain(desk, "w1")
    desk.submit("a", "b", "c")
    assert desk.run() == ["a@w2", "b@w2"]
    drain(desk, "w1", undo=True)
    assert desk.run() == ["c@w1"]


def test_a_worker_that_comes_back_drained_gets_nothing() -> None:
    desk = Desk()
    desk.worker("w1", credit=1)
    drain(desk, "w1")
    desk.submit("a")
    desk.worker("w1", credit=1, incarnation=2)
    assert desk.run() == []
    drain(desk, "w1", undo=True)
    assert desk.run() == ["a@w1"]


def test_what_was_decided_before_the_drain_is_refused_and_goes_elsewhere() -> None:
    desk = Desk()
    desk.worker("w1", credit=1)
    desk.submit("a")
    decided = desk.decide()
    drain(desk, "w1")
    assert desk.settle(decided) == []
    assert desk.credit("w1") == 1
    desk.worker("w2", credit=1)
    assert desk.run() == ["a@w2"]


def test_a_drain_and_its_end_in_one_entry_leave_the_worker_as_it_was() -> None:
    desk = Desk()
    desk.worker("w1", credit=1)
    desk.apply(DrainWorkers((W1,)), DrainWorkers((W1,), True))
    desk.submit("a")
    assert desk.run() == ["a@w1"]


def test_a_session_that_opens_in_the_entry_of_its_drain_is_drained() -> None:
    desk = Desk()
    desk.worker("w1", credit=1)
    desk.apply(OpenWorker(W1, 2, "w1", ("job.assign.>",), 1), DrainWorkers((W1,)))
    desk.dispatcher.open_worker(W1, 2, "w1", ("job.assign.>",))
    desk.grant("w1", 1)
    desk.submit("a")
    assert desk.run() == []


def test_it_is_explained() -> None:
    desk = Desk()
    desk.worker("w1", credit=1)
    desk.worker("w2", credit=1, patterns=("job.assign.q",))
    desk.submit("a")
    drain(desk, "w1", "w2")
    assert desk.explained(job_id("a")).why == "all 2 workers for queue q are draining: w1, w2"
    desk.submit("b", queue="other")
    assert desk.explained(job_id("b")).why == "the only worker for queue other is draining: w1"


def test_a_job_that_asks_for_a_drained_worker_waits_for_it() -> None:
    desk = Desk()
    desk.worker("w1", credit=1)
    desk.worker("w2", credit=1)
    drain(desk, "w1")
    desk.submit("a", worker_name="w1")
    assert desk.run() == []
    assert desk.explained(job_id("a")).why == "the only worker for queue q is draining: w1"
    drain(desk, "w1", undo=True)
    assert desk.run() == ["a@w1"]
