"""Arrays in dispatch: one entry in a lane that gives tasks until there are none."""

from __future__ import annotations

from rollq.base.ids import task_id
from rollq.grid.commands import (
    AckJob,
    AssignTasks,
    CancelJobs,
    ExpireJobs,
    LostAttempt,
    NackJob,
    OpenClient,
    PauseQueue,
    ReleaseJobs,
    ResumeQueue,
)
from tests.unit.grid.kit import job_id, worker_id
from tests.unit.policy.kit import Desk


def ack_task(desk: Desk, name: str, number: int) -> None:
    record = desk.state.jobs[task_id(job_id(name), number)]
    desk.apply(AckJob(record.job_id, record.attempt, record.fence, 0))


def nack_task(desk: Desk, name: str, number: int) -> None:
    record = desk.state.jobs[task_id(job_id(name), number)]
    desk.apply(NackJob(record.job_id, record.attempt, record.fence))


def test_an_array_gives_its_tasks_and_no_more() -> None:
    desk = Desk()
    desk.submit_array("arr", 3)
    desk.worker("w", 9)
    assert desk.decide(1) == [
        AssignTasks(job_id("arr"), worker_id("w"), 1, desk.state.settings.lease_ms, 1)
    ]
    assert desk.run() == ["arr@w", "arr@w"]
    desk.submit("later")
    assert desk.reason("later") == "behind"


def test_an_array_takes_turns_with_jobs_of_others() -> None:
    desk = Desk()
    desk.submit_array("arr", 3)
    desk.submit("b1", "b2", client="bob")
    desk.submit("a1", client="ann")
    desk.worker("w", 9)
    assert desk.run() == ["arr@w", "b1@w", "arr@w", "b2@w", "arr@w", "a1@w"]
    assert desk.waiting_count() == 0


def test_a_limit_of_its_own_is_named_before_busy_workers() -> None:
    desk = Desk()
    desk.submit_array("arr", 5, running_max=2)
    desk.submit("job")
    desk.worker("w", 2)
    assert desk.run() == ["arr@w", "arr@w"]  # the array was not looked at once more
    assert desk.reason("arr") == "array_limit"
    assert desk.reason("job") == "no_slot"


def test_no_more_than_running_max_run_at_once() -> None:
    desk = Desk()
    desk.submit_array("arr", 5, running_max=2)
    desk.submit("job")
    desk.worker("w", 9)
    assert desk.run() == ["arr@w", "arr@w", "job@w"]
    assert desk.run() == []
    assert desk.reason("arr") == "array_limit"
    ack_task(desk, "arr", 0)
    assert desk.run() == ["arr@w"]
    ack_task(desk, "arr", 1)
    ack_task(desk, "arr", 2)
    assert desk.run() == ["arr@w", "arr@w"]
    assert desk.run() == []


def test_a_retried_task_counts_against_running_max() -> None:
    desk = Desk()
    desk.submit_array("arr", 3, running_max=1)
    desk.worker("w", 9)
    assert desk.run() == ["arr@w"]
    nack_task(desk, "arr", 0)
    assert len(desk.run()) == 1
    assert desk.run() == []
    for _ in range(3):
        (held,) = desk.state.workers[worker_id("w")].held
        record = desk.state.jobs[held]
        desk.apply(AckJob(held, record.attempt, record.fence, 0))
        desk.run()
    array = desk.array("arr")
    assert array.is_ended


def test_tasks_at_rest_start_as_others_end() -> None:
    desk = Desk()
    desk.submit_array("arr", 2, running_max=2)
    desk.worker("w", 9)
    desk.run()
    desk.submit_array("more", 1, running_max=1)
    desk.run()
    for number in (0, 1):
        nack_task(desk, "arr", number)
    assert len(desk.run()) == 2
    assert desk.array("arr").running == 2


def test_a_cancelled_array_gives_no_more_tasks() -> None:
    desk = Desk()
    desk.submit_array("arr", 5, running_max=1)
    desk.submit_array("other", 5)
    desk.worker("w", 1)
    assert desk.run() == ["arr@w"]
    desk.apply(CancelJobs((job_id("arr"), job_id("other"))))
    desk.grant("w", 9)
    assert desk.run() == []


def test_a_task_at_rest_that_is_cancelled_makes_room_for_the_next() -> None:
    desk = Desk()
    desk.submit_array("arr", 3, running_max=1)
    desk.worker("w", 9)
    desk.run()
    decided = desk.decide()
    assert decided == []
    nack_task(desk, "arr", 0)
    desk.apply(CancelJobs((task_id(job_id("arr"), 0),)))
    # task 0 has the id of the array, so all of it is cancelled
    assert desk.run() == []
    assert desk.array("arr").is_ended


def test_an_array_at_rest_that_expired_does_not_take_the_turn_of_its_tasks() -> None:
    desk = Desk()
    desk.submit_array("arr", 4, running_max=1, expire_ms=500)
    desk.worker("w", 9)
    desk.run()
    ack_task(desk, "arr", 0)
    desk.run()
    task = desk.state.jobs[task_id(job_id("arr"), 1)]
    desk.apply(NackJob(task.job_id, task.attempt, task.fence, delay_ms=50))
    assert desk.run() == ["arr@w"]  # the third; the array rests
    desk.apply(ReleaseJobs((LostAttempt(task.job_id, 1),)))
    assert desk.run() == []  # the second rests behind the array
    desk.apply(ExpireJobs((job_id("arr"),)))
    assert desk.array("arr").tasks_waiting == 0
    ack_task(desk, "arr", 2)
    assert len(desk.run()) == 1
    assert task.attempt == 2


def test_a_delayed_array_waits_for_its_release() -> None:
    desk = Desk()
    desk.submit_array("arr", 1, delay_ms=50)
    desk.worker("w", 9)
    assert desk.run() == []
    assert desk.reason("arr") == "delayed"
    desk.apply(ReleaseJobs((LostAttempt(job_id("arr"), 0),)))
    assert desk.run() == ["arr@w"]


def test_refused_tasks_go_back_with_their_credit() -> None:
    desk = Desk()
    desk.submit_array("arr", 3, running_max=2)
    desk.worker("w", 5)
    decided = desk.decide()
    assert len(decided) == 2
    desk.apply(PauseQueue("q"))
    assert desk.settle(decided) == []
    assert desk.credit("w") == 5
    desk.apply(ResumeQueue("q"))
    assert desk.run() == ["arr@w", "arr@w"]


def test_the_last_task_of_an_array_can_be_refused_too() -> None:
    desk = Desk()
    desk.submit_array("arr", 1)
    desk.worker("w", 5)
    decided = desk.decide()
    desk.apply(PauseQueue("q"))
    desk.settle(decided)
    desk.apply(ResumeQueue("q"))
    assert desk.run() == ["arr@w"]
    assert desk.run() == []


def test_tasks_count_against_the_cap_of_their_client() -> None:
    desk = Desk()
    desk.apply(OpenClient("ann", 2))
    desk.submit_array("arr", 5)
    desk.worker("w", 9)
    decided = desk.decide()
    assert len(decided) == 2
    assert desk.decide() == []
    desk.settle(decided)
    ack_task(desk, "arr", 0)
    assert desk.run() == ["arr@w"]


def test_a_refusal_for_an_array_that_is_gone_changes_nothing() -> None:
    desk = Desk()
    desk.worker("w", 1)
    desk.dispatcher.refused(AssignTasks(job_id("gone"), worker_id("w"), 1, 100, 2), (0, 1))
    desk.submit_array("arr", 1)
    desk.dispatcher.refused(AssignTasks(job_id("arr"), worker_id("w"), 1, 100, 1), (0,))
    assert desk.credit("w") == 1
    assert desk.run() == ["arr@w"]
