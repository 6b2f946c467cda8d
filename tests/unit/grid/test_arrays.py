import pytest

from rollq.base import limits
from rollq.base.errors import ErrorCode
from rollq.base.ids import task_id
from rollq.base.jobs import JobOptions, Status
from rollq.grid import arrays
from rollq.grid.bounds import Bounds
from rollq.grid.commands import (
    AckJob,
    AssignTask,
    CancelJobs,
    Cause,
    ConfirmResults,
    ExpireJobs,
    ForgetJobs,
    LostAttempt,
    OpenClient,
    PauseQueue,
    RedriveItem,
    RedriveJobs,
    ReleaseJobs,
    SubmitArray,
    SubmitJob,
)
from rollq.grid.effects import Done, Duplicate, SendAssign, SendCancel, SendResult
from rollq.grid.outbox import owed_to_client
from rollq.grid.snapshot import decode_snapshot, encode_snapshot
from rollq.grid.state import ASSIGNED, CANCELLED, DEAD, DONE, JobRecord, JobState
from rollq.grid.tasks import mark_task, task_end
from rollq.grid.views import array_view, job_view
from tests.unit.grid.kit import Grid, job_id, kinds, refusal, worker_id

ARRAY = job_id("many")


def task(grid: Grid, number: int) -> JobRecord:
    return grid.state.jobs[task_id(ARRAY, number)]


def finish(grid: Grid, number: int, status: Status = Status.OK, exit_code: int = 0) -> list[str]:
    record = task(grid, number)
    return kinds(
        grid.apply(
            AckJob(record.job_id, record.attempt, record.fence, status, b"r", exit_code=exit_code)
        )
    )


def ends(grid: Grid) -> tuple[int, int, int]:
    counts = grid.array("many").ended_counts
    return counts[DONE], counts[DEAD], counts[CANCELLED]


def test_an_array_is_one_record_and_one_fact() -> None:
    grid = Grid()
    applied = grid.submit_array("many", 1_000)
    assert applied.outcomes == [Done(1)]
    event = applied.events[0]
    assert (event.kind, event.count, event.array_id, event.job_id) == (
        "array_enqueue",
        1_000,
        ARRAY,
        b"",
    )
    assert not grid.state.jobs
    assert grid.state.queues["q"].tasks_waiting == 1_000


def test_a_million_tasks_are_small_until_they_are_assigned() -> None:
    grid = Grid()
    before = len(encode_snapshot(grid.state))
    command = SubmitArray(ARRAY, "ann", "q", "exe", b"body", 1_000_000)
    data = arrays.submit_array(grid.state, command, grid.apply())
    assert data == Done(1)
    assert len(encode_snapshot(grid.state)) - before < 200


def test_a_repeated_array_is_known_and_another_is_refused() -> None:
    grid = Grid()
    grid.submit_array("many", 2)
    assert grid.submit_array("many", 2).outcomes == [Duplicate(ended=False)]
    assert refusal(grid.submit_array("many", 3).outcomes[0]) is ErrorCode.JOB_CONFLICT
    overlapping = SubmitArray(task_id(ARRAY, 9), "ann", "q", "exe", b"body", 2)
    assert refusal(grid.ask(overlapping)) is ErrorCode.ID_CONFLICT
    for _ in range(2):
        grid.assign_task("many")
    finish(grid, 0)
    finish(grid, 1)
    assert grid.submit_array("many", 2).outcomes == [Duplicate(ended=True)]


@pytest.mark.parametrize(
    "command",
    [
        SubmitArray(b"short", "ann", "q", "exe", b"", 1),
        SubmitArray(ARRAY, "ann", "q", "exe", b"", 0),
        SubmitArray(ARRAY, "ann", "q", "exe", b"", limits.ARRAY_TASKS_MAX + 1),
        SubmitArray(ARRAY, "ann", "q", "exe", b"", 1, None, -1),
        SubmitArray(ARRAY, "ann", "q", "exe", b"", 1, first_task=2),
        SubmitArray(ARRAY, "ann", "q", "exe", bytes(limits.INLINE_BYTES_MAX + 1), 1),
        SubmitArray(ARRAY, "ann", "q", "exe", b"", 1, JobOptions(priority=99)),
    ],
)
def test_what_is_out_of_bounds_is_refused(command: SubmitArray) -> None:
    assert refusal(Grid().ask(command)) is ErrorCode.BAD_OPTIONS


def test_arrays_are_bounded() -> None:
    grid = Grid()
    grid.state.bounds = Bounds(arrays=1)
    grid.submit_array("many", 1)
    assert refusal(grid.submit_array("more", 1).outcomes[0]) is ErrorCode.GRID_FULL


def test_no_task_has_the_id_of_its_array() -> None:
    """Or else what is meant for one of them reaches the other."""
    grid = Grid()
    grid.apply(SubmitArray(ARRAY, "ann", "q", "exe", b"body", 3, first_task=1))
    grid.assign_task("many")
    first = task_id(ARRAY, 1)
    assert list(grid.state.jobs) == [first]
    assert job_view(grid.state, ARRAY) is None
    view = job_view(grid.state, first)
    assert view is not None
    assert (view.state, view.array_id) == ("assigned", ARRAY)
    grid.apply(CancelJobs((first,), "ann"))
    array = grid.array("many")
    assert grid.state.jobs[first].cancel_requested
    assert (array.tasks_waiting, array.cut_at) == (2, 3)
    assert refusal(grid.submit("many").outcomes[0]) is ErrorCode.ID_CONFLICT
    copy = decode_snapshot(encode_snapshot(grid.state)).array_of(ARRAY)
    assert copy is not None
    assert copy.id_of(0) == first


def test_an_array_that_is_sent_again_numbers_its_tasks_as_before() -> None:
    grid = Grid()
    grid.submit_array("many", 2)
    other = SubmitArray(ARRAY, "ann", "q", "exe", b"body", 2, first_task=1)
    assert refusal(grid.ask(other)) is ErrorCode.JOB_CONFLICT


def test_failed_tasks_are_counted_also_after_they_were_forgotten() -> None:
    grid = Grid()
    grid.submit_array("many", 3)
    for number, status in enumerate((Status.OK, Status.FAILED, Status.FAILED)):
        grid.assign_task("many")
        finish(grid, number, status, 1)
    grid.apply(ForgetJobs((task_id(ARRAY, 1),)))
    view = array_view(grid.state, ARRAY)
    assert view is not None
    assert (view.done, view.failed) == (3, 2)
    assert array_view(decode_snapshot(encode_snapshot(grid.state)), ARRAY) == view


def test_an_array_may_not_take_the_id_of_a_job() -> None:
    grid = Grid()
    grid.submit("many")
    assert refusal(grid.submit_array("many", 2).outcomes[0]) is ErrorCode.ID_CONFLICT


def test_tasks_start_in_order_and_share_the_body() -> None:
    grid = Grid()
    grid.submit_array("many", 3)
    applied = grid.apply(
        AssignTask(ARRAY, worker_id("w1"), 1, 5), AssignTask(ARRAY, worker_id("w1"), 1, 5)
    )
    orders = [effect for effect in applied.effects if isinstance(effect, SendAssign)]
    assert [order.task_number for order in orders] == [0, 1]
    assert [order.job_ids for order in orders] == [ARRAY, task_id(ARRAY, 1)]
    assert {event.array_id for event in applied.events} == {ARRAY}
    assert task(grid, 1).body is grid.array("many").body
    assert task(grid, 0).state is ASSIGNED


def test_a_task_starts_only_where_a_job_might() -> None:
    grid = Grid()
    grid.submit_array("many", 1)
    assert refusal(grid.assign_task("gone")) is ErrorCode.UNKNOWN_JOB
    assert refusal(grid.assign_task("many", "w9")) is ErrorCode.UNKNOWN_WORKER
    stale = AssignTask(ARRAY, worker_id("w1"), 7, 5)
    assert refusal(grid.ask(stale)) is ErrorCode.UNKNOWN_WORKER
    grid.apply(PauseQueue("q"))
    assert refusal(grid.assign_task("many")) is ErrorCode.QUEUE_PAUSED


def test_the_client_cap_holds_for_tasks() -> None:
    grid = Grid()
    grid.apply(OpenClient("ann", 1))
    grid.submit_array("many", 2)
    assert grid.assign_task("many") == Done(1)
    assert refusal(grid.assign_task("many")) is ErrorCode.CAP_REACHED


def test_running_max_holds_for_new_and_for_retried_tasks() -> None:
    grid = Grid()
    grid.submit_array("many", 3, running_max=1)
    grid.assign_task("many")
    assert refusal(grid.assign_task("many")) is ErrorCode.CAP_REACHED
    grid.nack("many")
    assert grid.assign_task("many") == Done(1)
    assert refusal(grid.ask(grid.assignment("many"))) is ErrorCode.CAP_REACHED
    finish(grid, 1)
    assert grid.ask(grid.assignment("many")) == Done(1)


def test_jobs_max_holds_for_tasks() -> None:
    grid = Grid()
    grid.state.bounds = Bounds(jobs=1)
    grid.submit_array("many", 2)
    grid.assign_task("many")
    assert refusal(grid.assign_task("many")) is ErrorCode.GRID_FULL


def test_an_array_ends_when_its_last_task_does() -> None:
    grid = Grid()
    grid.submit_array("many", 2, max_attempts=1)
    grid.assign_task("many")
    grid.assign_task("many")
    assert refusal(grid.assign_task("many")) is ErrorCode.WRONG_STATE
    assert finish(grid, 1) == ["ack"]
    assert kinds(grid.nack("many")) == ["dlq", "array_end"]
    assert ends(grid) == (1, 1, 0)
    assert [task_end(grid.array("many"), number) for number in (0, 1)] == [DEAD, DONE]


def test_an_array_may_wait_as_a_whole() -> None:
    grid = Grid()
    grid.submit_array("many", 2, delay_ms=9)
    assert refusal(grid.assign_task("many")) is ErrorCode.WRONG_STATE
    release = ReleaseJobs((LostAttempt(ARRAY, 0),))
    applied = grid.apply(release)
    assert [(event.kind, event.array_id, event.count) for event in applied.events] == [
        ("release", ARRAY, 2)
    ]
    assert grid.ask(release) == Done(0)
    assert grid.assign_task("many") == Done(1)


def test_cancel_of_an_array_cuts_the_rest_and_asks_what_runs() -> None:
    grid = Grid()
    grid.submit_array("many", 10)
    for _ in range(3):
        grid.assign_task("many")
    finish(grid, 0)
    grid.apply(CancelJobs((task_id(ARRAY, 1),)))
    applied = grid.apply(CancelJobs((ARRAY,), "olga"))
    assert applied.outcomes == [Done(8)]
    first = applied.events[0]
    assert (first.kind, first.count, first.job_id) == ("cancel", 7, b"")
    assert kinds(applied)[1:] == ["cancel_request"]
    assert [type(effect) for effect in applied.effects] == [SendResult, SendCancel]
    assert refusal(grid.assign_task("many")) is ErrorCode.WRONG_STATE
    assert finish(grid, 1, Status.CANCELLED) == ["cancel"]
    assert finish(grid, 2, Status.CANCELLED) == ["cancel", "array_end"]
    assert ends(grid) == (1, 0, 9)
    assert task_end(grid.array("many"), 9) is CANCELLED


def test_an_array_that_never_started_ends_at_once() -> None:
    grid = Grid()
    grid.submit_array("many", 10)
    assert kinds(grid.apply(CancelJobs((ARRAY,)))) == ["cancel", "array_end"]
    assert not grid.state.queues
    assert grid.ask(CancelJobs((ARRAY,))) == Done(0)


def test_an_array_that_waited_too_long_is_dead_where_it_waits() -> None:
    grid = Grid()
    grid.submit_array("many", 3)
    grid.assign_task("many")
    applied = grid.apply(ExpireJobs((ARRAY,)))
    assert [(event.kind, event.count, event.cause) for event in applied.events] == [
        ("expire", 2, Cause.EXPIRED)
    ]
    assert ends(grid) == (0, 2, 0)
    assert task(grid, 0).state is ASSIGNED


def test_a_client_is_owed_one_message_for_all_tasks_that_never_began() -> None:
    grid = Grid()
    grid.submit_array("many", 10)
    grid.assign_task("many")
    (told,) = grid.apply(ExpireJobs((ARRAY,))).effects
    assert isinstance(told, SendResult)
    assert (told.job_ids, told.count, told.outcome) == (task_id(ARRAY, 1), 9, "dead")
    assert (told.ends[0].status, told.ends[0].cause) == (Status.FAILED, Cause.EXPIRED)
    finish(grid, 0)
    results, _ = owed_to_client(grid.state, "ann", 0, 100)
    assert [(one.job_ids, one.count) for one in results] == [(told.job_ids, 9), (ARRAY, 1)]
    assert results[0] == told
    grid.state = decode_snapshot(encode_snapshot(grid.state))
    assert owed_to_client(grid.state, "ann", 0, 1)[0] == [told]
    for nobody in (
        ConfirmResults("bob", (told.job_ids,)),
        ConfirmResults("ann", (task_id(ARRAY, 2), b"short")),
    ):
        assert grid.ask(nobody) == Done(0)
    confirmed = grid.apply(ConfirmResults("ann", (told.job_ids,)))
    assert confirmed.outcomes == [Done(1)]
    assert [(one.kind, one.array_id, one.count) for one in confirmed.events] == [
        ("confirm", ARRAY, 9)
    ]
    assert grid.ask(ConfirmResults("ann", (told.job_ids,))) == Done(0)
    assert [one.job_ids for one in owed_to_client(grid.state, "ann", 0, 9)[0]] == [ARRAY]


def test_tasks_that_never_began_say_who_cancelled_them() -> None:
    grid = Grid()
    grid.submit_array("many", 3)
    (told,) = grid.apply(CancelJobs((ARRAY,), "olga")).effects
    assert isinstance(told, SendResult)
    assert (told.job_ids, told.count, told.outcome) == (ARRAY, 3, "cancelled")
    assert (told.ends[0].status, told.ends[0].cause, told.ends[0].detail) == (
        Status.CANCELLED,
        Cause.NONE,
        "olga",
    )
    view = job_view(grid.state, task_id(ARRAY, 2))
    assert view is not None
    assert view.end is not None
    assert (view.end.detail, view.end.confirmed) == ("olga", False)


def test_an_array_that_is_forgotten_owes_nothing() -> None:
    grid = Grid()
    grid.submit_array("many", 3)
    grid.apply(CancelJobs((ARRAY,)))
    grid.apply(ForgetJobs((ARRAY,)))
    assert owed_to_client(grid.state, "ann", 0, 9)[0] == []
    assert not grid.state.arrays


def test_a_dead_task_can_be_redriven_and_its_array_ends_again() -> None:
    grid = Grid()
    grid.submit_array("many", 5, max_attempts=1)
    for _ in range(5):
        grid.assign_task("many")
    for number in (1, 2, 3, 4):
        finish(grid, number)
    assert kinds(grid.nack("many"))[-1] == "array_end"
    grid.apply(RedriveJobs((RedriveItem(ARRAY),)))
    assert ends(grid) == (4, 0, 0)
    assert [task_end(grid.array("many"), number) for number in range(2)] == [None, DONE]
    grid.assign("many")
    assert finish(grid, 0) == ["ack", "array_end"]


def test_an_array_is_forgotten_after_its_tasks() -> None:
    grid = Grid()
    grid.submit_array("many", 2)
    assert grid.ask(ForgetJobs((ARRAY,))) == Done(0)
    grid.assign_task("many")
    grid.assign_task("many")
    finish(grid, 1)
    finish(grid, 0)
    applied = grid.apply(ForgetJobs((ARRAY,)))
    assert [event.job_id for event in applied.events] == [ARRAY]
    assert grid.array("many").forget_asked
    applied = grid.apply(ForgetJobs((task_id(ARRAY, 1),)))
    assert [(event.kind, event.job_id) for event in applied.events] == [
        ("forget", task_id(ARRAY, 1)),
        ("forget", b""),
    ]
    assert not grid.state.arrays
    assert list(grid.state.idle_clients) == ["ann"]


def test_a_task_that_was_forgotten_does_not_run_again() -> None:
    grid = Grid()
    grid.submit_array("many", 2)
    grid.assign_task("many")
    finish(grid, 0)
    grid.apply(ConfirmResults("ann", (ARRAY,)), ForgetJobs((ARRAY,)))
    assert ARRAY not in grid.state.jobs
    assert task_end(grid.array("many"), 0) is DONE
    grid.assign_task("many")
    assert task_id(ARRAY, 1) in grid.state.jobs


def test_tasks_whose_ids_are_taken_are_dead_from_the_start() -> None:
    grid = Grid()
    for number in (1, 2, 4):
        grid.apply(SubmitJob(task_id(ARRAY, number), "bob", "r", "exe", b""))
    grid.submit_array("many", 5)
    applied = grid.apply(AssignTask(ARRAY, worker_id("w1"), 1, 5))
    assert [(event.kind, event.cause, event.detail) for event in applied.events[1:]] == [
        ("dlq", Cause.ID_TAKEN, "task 1"),
        ("dlq", Cause.ID_TAKEN, "task 2"),
    ]
    assert finish(grid, 0) == ["ack"]
    applied = grid.apply(AssignTask(ARRAY, worker_id("w1"), 1, 5))
    assert kinds(applied) == ["assign", "dlq"]
    assert finish(grid, 3) == ["ack", "array_end"]
    assert ends(grid) == (2, 3, 0)


def test_marks_of_many_tasks_do_not_touch_each_other() -> None:
    grid = Grid()
    grid.submit_array("many", 40_000)
    array = grid.array("many")
    wanted: dict[int, JobState] = {}
    for number, end in ((0, DONE), (1, DEAD), (2, CANCELLED), (16_383, DEAD), (16_384, DONE)):
        mark_task(array, number, end)
        wanted[number] = end
    for number in (*range(8), *range(16_380, 16_390), 39_999):
        assert task_end(array, number) == wanted.get(number)
    assert sorted(array.chunks) == [0, 1]
