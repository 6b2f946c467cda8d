"""Workers that get no new jobs."""

from rollq.base.errors import ErrorCode
from rollq.grid.bounds import Bounds
from rollq.grid.commands import CloseWorker, DrainWorkers
from rollq.grid.effects import Done, SendDrain
from rollq.grid.events import AccessFact
from rollq.grid.snapshot import decode_snapshot, encode_snapshot
from rollq.grid.views import drain_page, worker_view
from tests.unit.grid.kit import Grid, job_id, kinds, refusal, worker_id

W1, W2 = worker_id("w1"), worker_id("w2")


def test_a_drained_worker_gets_nothing_and_keeps_what_it_has() -> None:
    grid = Grid()
    grid.start("a")
    grid.submit("b")
    applied = grid.apply(DrainWorkers((W1,), by="olga"))
    assert applied.outcomes == [Done(1)]
    assert applied.effects == [SendDrain(W1, is_drained=True)]
    (event,) = applied.events
    assert (event.kind, event.worker_id, event.count, event.detail) == ("worker_drain", W1, 1, "w1")
    assert event.access == AccessFact("olga")
    assert refusal(grid.ask(grid.assignment("b"))) is ErrorCode.WRONG_STATE
    assert list(grid.state.workers[W1].held) == [job_id("a")]
    applied = grid.apply(DrainWorkers((W1,), True, "olga"))
    assert kinds(applied) == ["worker_undrain"]
    assert applied.effects == [SendDrain(W1, is_drained=False)]
    grid.apply(grid.assignment("b"))
    assert list(grid.state.workers[W1].held) == [job_id("a"), job_id("b")]


def test_a_task_of_an_array_does_not_start_on_a_drained_worker() -> None:
    grid = Grid()
    grid.submit_array("many", 3)
    grid.apply(DrainWorkers((W1,)))
    assert refusal(grid.assign_task("many")) is ErrorCode.WRONG_STATE


def test_a_second_drain_changes_nothing() -> None:
    grid = Grid()
    grid.apply(DrainWorkers((W1,), by="olga"))
    applied = grid.apply(DrainWorkers((W1,), by="pia"))
    assert (applied.outcomes, applied.events, applied.effects) == ([Done(0)], [], [])
    assert grid.state.drained[W1].by == "olga"
    assert grid.ask(DrainWorkers((W1,), True)) == Done(1)
    assert grid.ask(DrainWorkers((W1, W2), True)) == Done(0)


def test_all_or_none_are_drained() -> None:
    grid = Grid()
    assert refusal(grid.ask(DrainWorkers((W1, W2)))) is ErrorCode.UNKNOWN_WORKER
    assert refusal(grid.ask(DrainWorkers((b"short",)))) is ErrorCode.BAD_OPTIONS
    assert grid.state.drained == {}


def test_a_worker_that_is_closed_and_comes_back_is_drained() -> None:
    grid = Grid()
    grid.submit("a")
    grid.apply(DrainWorkers((W1,), by="olga"))
    grid.apply(CloseWorker(W1, 1))
    (view,) = drain_page(grid.state, b"", 10)
    assert (view.name, view.is_known, view.held, view.by) == ("w1", False, 0, "olga")
    assert grid.ask(DrainWorkers((W1,))) == Done(0)
    grid.open_worker("w1", 2)
    assert refusal(grid.ask(grid.assignment("a"))) in (
        ErrorCode.WRONG_STATE,
        ErrorCode.UNKNOWN_WORKER,
    )
    seen = worker_view(grid.state, W1)
    assert seen is not None
    assert seen.is_drained
    (view,) = drain_page(grid.state, b"", 10)
    assert view.is_known


def test_a_snapshot_has_the_drains_in_their_order() -> None:
    grid = Grid(workers=("w2", "w1"))
    grid.apply(DrainWorkers((W2,), by="olga"))
    grid.apply(DrainWorkers((W1,), by="pia"))
    copy = decode_snapshot(encode_snapshot(grid.state))
    assert list(copy.drained.items()) == list(grid.state.drained.items())
    assert list(copy.drained) == [W2, W1]
    assert encode_snapshot(copy) == encode_snapshot(grid.state)


def test_drains_are_bounded_and_the_oldest_that_is_gone_gives_way() -> None:
    grid = Grid(workers=("w1", "w2"))
    grid.state.bounds = Bounds(workers=2)
    grid.apply(DrainWorkers((W1, W2)))
    grid.apply(CloseWorker(W2, 1))
    grid.open_worker("w3")
    applied = grid.apply(DrainWorkers((worker_id("w3"),)))
    assert kinds(applied) == ["worker_undrain", "worker_drain"]
    assert list(grid.state.drained) == [W1, worker_id("w3")]


def test_a_drained_worker_that_gives_way_within_the_command_is_not_drained_again() -> None:
    grid = Grid(workers=("w1", "w2"))
    grid.state.bounds = Bounds(workers=2)
    grid.apply(DrainWorkers((W1, W2)))
    grid.apply(CloseWorker(W2, 1))
    grid.open_worker("w3")
    third = worker_id("w3")
    applied = grid.apply(DrainWorkers((third, W2)))
    assert applied.outcomes == [Done(1)]
    assert kinds(applied) == ["worker_undrain", "worker_drain"]
    assert list(grid.state.drained) == [W1, third]
