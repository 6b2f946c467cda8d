import pytest

from rollq.base.ids import task_id
from rollq.base.jobs import Status
from rollq.grid.commands import (
    AckJob,
    CancelJobs,
    ConfirmResults,
    ExpireJobs,
    ForgetJobs,
    OpenClient,
    PauseQueue,
)
from rollq.grid.outbox import owed_to_client
from rollq.grid.views import (
    array_view,
    client_view,
    dead_page,
    grid_counts,
    job_view,
    queue_page,
    queue_view,
    worker_view,
)
from tests.unit.grid.kit import Grid, job_id, worker_id


def test_a_job_is_shown_as_it_stands() -> None:
    grid = Grid()
    grid.start("a", max_attempts=1)
    view = job_view(grid.state, job_id("a"))
    assert view is not None
    assert (view.state, view.attempt, view.worker_id) == ("assigned", 1, worker_id("w1"))
    grid.nack("a")
    view = job_view(grid.state, job_id("a"))
    assert view is not None
    assert view.end is not None
    assert (view.state, view.end.detail, view.end.confirmed) == ("dead", "no such exec", False)
    assert [one.attempt for one in view.attempts] == [1]
    assert job_view(grid.state, job_id("gone")) is None


def test_tasks_are_shown_before_and_after_they_are_records() -> None:
    grid = Grid()
    grid.submit_array("many", 5, delay_ms=3)
    array = job_id("many")

    def state(number: int) -> str:
        view = job_view(grid.state, task_id(array, number))
        return "" if view is None else view.state

    assert [state(0), state(4), state(5)] == ["delayed", "delayed", ""]
    grid.array("many").delayed = False
    grid.assign_task("many")
    assert [state(0), state(1)] == ["assigned", "queued"]
    grid.apply(CancelJobs((array,)))
    assert [state(0), state(1)] == ["assigned", "cancelled"]
    view = array_view(grid.state, array)
    assert view is not None
    assert (view.task_count, view.waiting, view.open, view.running) == (5, 0, 1, 1)
    assert (view.done, view.dead, view.cancelled) == (0, 0, 4)
    assert array_view(grid.state, job_id("gone")) is None


def test_queues_are_counted() -> None:
    grid = Grid()
    grid.start("a", "b")
    grid.ack("a")
    grid.submit("c", queue="r", delay_ms=4)
    grid.submit_array("many", 7)
    grid.apply(PauseQueue("r"))
    view = queue_view(grid.state, "q")
    assert view is not None
    assert (view.queued, view.assigned, view.done, view.paused) == (7, 1, 1, False)
    assert queue_view(grid.state, "gone") is None
    assert [one.name for one in queue_page(grid.state, "", 9)] == ["q", "r"]
    assert [one.paused for one in queue_page(grid.state, "q", 9)] == [True]
    totals = grid_counts(grid.state)
    assert (totals.queued, totals.delayed, totals.assigned, totals.done) == (7, 1, 1, 1)
    assert (totals.dead, totals.cancelled) == (0, 0)


@pytest.mark.parametrize("is_cancelled", [True, False])
def test_tasks_that_ended_unassigned_count_in_their_queue_until_they_are_forgotten(
    is_cancelled: bool,
) -> None:
    """The array and its queue say the same."""
    grid = Grid()
    many = job_id("many")
    grid.submit_array("many", 5)
    grid.assign_task("many")
    grid.apply(CancelJobs((many,)) if is_cancelled else ExpireJobs((many,)))
    record = grid.state.jobs[many]
    status = Status.CANCELLED if is_cancelled else Status.OK
    grid.apply(AckJob(many, record.attempt, record.fence, status))
    array, queue = array_view(grid.state, many), queue_view(grid.state, "q")
    assert array is not None
    assert queue is not None
    ends = (5, 0) if is_cancelled else (0, 4)
    assert (array.cancelled, array.dead) == (queue.cancelled, queue.dead) == ends
    totals = grid_counts(grid.state)
    assert (totals.cancelled, totals.dead, totals.expired) == (*ends, ends[1])
    grid.apply(ForgetJobs((many,)))
    assert queue_page(grid.state, "", 9) == []


def test_failed_jobs_are_counted_among_those_done_until_they_are_forgotten() -> None:
    grid = Grid()
    grid.start("a", "b", "c", "d")
    grid.ack("a")
    grid.ack("b", Status.FAILED)
    grid.nack("c")
    grid.apply(CancelJobs((job_id("d"),)))
    grid.ack("d", Status.CANCELLED)
    for view in (queue_view(grid.state, "q"), grid_counts(grid.state)):
        assert view is not None
        assert (view.done, view.failed, view.cancelled) == (2, 1, 1)
    grid.apply(ForgetJobs((job_id("a"), job_id("b"), job_id("d"))))
    assert (grid_counts(grid.state).done, grid_counts(grid.state).failed) == (0, 0)


def test_clients_and_workers_are_shown() -> None:
    grid = Grid()
    grid.apply(OpenClient("ann", 4))
    grid.start("a", "b")
    grid.ack("a")
    client = client_view(grid.state, "ann")
    assert client is not None
    assert (client.cap, client.in_flight, client.records, client.owed) == (4, 1, 2, 1)
    worker = worker_view(grid.state, worker_id("w1"))
    assert worker is not None
    assert (worker.name, worker.slots, worker.held) == ("w1", 4, (job_id("b"),))
    assert client_view(grid.state, "gone") is None
    assert worker_view(grid.state, worker_id("gone")) is None


def test_dead_jobs_come_in_pages() -> None:
    grid = Grid()
    names = ["a", "b", "c"]
    grid.submit(*names, max_attempts=1)
    for name in names:
        grid.kill(name)
    page = dead_page(grid.state, 0, 2)
    assert [job.job_id for job in page.jobs] == [job_id("a"), job_id("b")]
    page = dead_page(grid.state, page.after, 2)
    assert [job.job_id for job in page.jobs] == [job_id("c")]
    assert dead_page(grid.state, page.after, 2).jobs == []


def test_dead_jobs_of_one_account_come_past_many_of_others() -> None:
    grid = Grid()
    names = [f"other {n}" for n in range(5)]
    grid.submit(*names, max_attempts=1)
    grid.submit("own", client="zoe/1", max_attempts=1)
    for name in (*names, "own"):
        grid.kill(name)
    page = dead_page(grid.state, 0, 2, "zoe")
    assert [job.job_id for job in page.jobs] == [job_id("own")]
    assert dead_page(grid.state, page.after, 2, "zoe").jobs == []


def test_a_client_is_owed_every_end_until_it_confirms() -> None:
    grid = Grid()
    names = [f"j{number}" for number in range(5)]
    grid.start(*names)
    sent = [grid.ack(name).effects[0] for name in names]
    results, after = owed_to_client(grid.state, "ann", 0, 2)
    assert list(results) == sent[:2]
    grid.apply(ConfirmResults("ann", (job_id("j0"), job_id("j3"))))
    results, after = owed_to_client(grid.state, "ann", after, 9)
    assert list(results) == [sent[2], sent[4]]
    assert owed_to_client(grid.state, "ann", after, 9) == ([], after)
    results, _ = owed_to_client(grid.state, "ann", 0, 9)
    assert list(results) == [sent[1], sent[2], sent[4]]
    assert owed_to_client(grid.state, "gone", 0, 9) == ([], 0)
