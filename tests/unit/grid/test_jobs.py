import pytest

from rollq.base import limits
from rollq.base.errors import ErrorCode
from rollq.grid.commands import (
    CancelJobs,
    Cause,
    ExpireJobs,
    ExpireLeases,
    ForgetJobs,
    LostAttempt,
    PurgeJobs,
    RedriveItem,
    RedriveJobs,
    ReleaseJobs,
)
from rollq.grid.effects import Done, Duplicate, Refused, SendCancel, SendResult
from rollq.grid.moves import drop_job
from rollq.grid.state import ASSIGNED, CANCELLED, DEAD, DELAYED, QUEUED
from rollq.grid.views import job_view
from tests.unit.grid.kit import Grid, job_id, kinds, refusal, submit, worker_id


def redrive(*names: str, body: bytes | None = None) -> RedriveJobs:
    return RedriveJobs(tuple(RedriveItem(job_id(name), body) for name in names), "olga")


def dead_grid(*names: str) -> Grid:
    grid = Grid()
    grid.submit(*names, max_attempts=1)
    for name in names:
        grid.kill(name)
    return grid


def test_release_names_the_delay_it_means() -> None:
    grid = Grid()
    grid.submit("a", delay_ms=5)
    assert grid.ask(ReleaseJobs((LostAttempt(job_id("a"), 1),))) == Done(0)
    applied = grid.apply(ReleaseJobs((LostAttempt(job_id("a"), 0),)))
    assert applied.outcomes == [Done(1)]
    assert kinds(applied) == ["release"]
    assert grid.job("a").state is QUEUED
    grid.assign("a")
    grid.nack("a", 7)
    assert grid.ask(ReleaseJobs((LostAttempt(job_id("a"), 0),))) == Done(0)
    assert grid.job("a").state is DELAYED
    assert grid.ask(ReleaseJobs((LostAttempt(job_id("a"), 1),))) == Done(1)
    assert grid.ask(ReleaseJobs((LostAttempt(job_id("gone"), 0),))) == Done(0)
    assert grid.ask(ReleaseJobs((LostAttempt(job_id("gone"), 1),))) == Done(0)


def test_what_waited_too_long_is_dead() -> None:
    grid = Grid()
    grid.submit("a")
    grid.submit("b", delay_ms=5)
    grid.start("c")
    ids = tuple(job_id(name) for name in ("a", "b", "c", "gone"))
    applied = grid.apply(ExpireJobs(ids))
    assert applied.outcomes == [Done(2)]
    assert kinds(applied) == ["expire", "expire"]
    assert grid.job("a").state is DEAD
    assert grid.job("b").state is DEAD
    assert grid.job("c").state is ASSIGNED
    result = applied.effects[0]
    assert isinstance(result, SendResult)
    assert (result.outcome, result.ends[0].cause) == ("dead", Cause.EXPIRED)


def test_cancel_ends_what_waits_and_asks_what_runs() -> None:
    grid = Grid()
    grid.submit("a")
    grid.submit("b", delay_ms=5)
    grid.start("c", "d")
    grid.ack("d")
    ids = tuple(job_id(name) for name in ("a", "b", "c", "d", "gone"))
    applied = grid.apply(CancelJobs(ids, "olga"))
    assert applied.outcomes == [Done(3)]
    assert kinds(applied) == ["cancel", "cancel", "cancel_request"]
    assert {event.detail for event in applied.events} == {"olga"}
    assert [type(effect) for effect in applied.effects] == [SendResult, SendResult, SendCancel]
    assert applied.effects[2] == SendCancel(worker_id("w1"), job_id("c"), 1, 1)
    assert grid.job("a").state is CANCELLED
    assert grid.job("c").state is ASSIGNED
    again = grid.apply(CancelJobs(ids))
    assert again.outcomes == [Done(0)]
    assert not again.events


def test_a_lost_attempt_of_a_cancelled_job_ends_it() -> None:
    grid = Grid()
    grid.start("a")
    grid.apply(CancelJobs((job_id("a"),)))
    applied = grid.nack("a", 50)
    assert kinds(applied) == ["cancel"]
    record = grid.job("a")
    assert record.state is CANCELLED
    assert not record.cancel_requested


def test_redrive_puts_dead_jobs_at_the_end_with_attempts_counted_anew() -> None:
    grid = dead_grid("a", "b")
    grid.submit("c")
    assert len(grid.state.clients["ann"].owed) == 2
    applied = grid.apply(redrive("a", "b", "a"))
    assert applied.outcomes == [Done(2)]
    assert kinds(applied) == ["redrive", "redrive"]
    assert grid.job("a").seq > grid.job("c").seq
    assert not len(grid.state.clients["ann"].owed)
    assert not len(grid.state.dead)
    grid.kill("a")
    record = grid.job("a")
    assert record.attempt == 2
    assert record.past is not None
    assert [one.attempt for one in record.past.attempts] == [1, 2]


def test_redrive_with_another_body_tells_it() -> None:
    grid = dead_grid("a")
    view = job_view(grid.state, job_id("a"))
    assert view is not None
    assert not view.is_changed
    (event,) = grid.apply(redrive("a", body=b"other")).events
    assert (event.request, event.body_bytes) == (b"other", 5)
    view = job_view(grid.state, job_id("a"))
    assert view is not None
    assert view.is_changed
    grid.kill("a")
    (event,) = grid.apply(redrive("a")).events
    assert event.request == b""


def test_redrive_into_another_queue() -> None:
    grid = dead_grid("a", "b")
    (event,) = grid.apply(RedriveJobs((RedriveItem(job_id("a"), None, "r"),))).events
    assert (event.kind, event.queue, grid.job("a").queue) == ("redrive", "r", "r")
    assert grid.state.queues["r"].counts[QUEUED] == 1
    grid.apply(RedriveJobs((RedriveItem(job_id("b"), None, "r"),)))
    assert list(grid.state.queues) == ["r"]
    name = "x" * (limits.QUEUE_NAME_BYTES_MAX + 1)
    grid.kill("a")
    command = RedriveJobs((RedriveItem(job_id("a"), None, name),))
    assert refusal(grid.ask(command)) is ErrorCode.BAD_OPTIONS


def test_a_task_stays_in_the_queue_of_its_array() -> None:
    grid = Grid()
    grid.submit_array("many", 1, max_attempts=1)
    grid.assign_task("many")
    task = next(iter(grid.state.jobs))
    lost = LostAttempt(task, 1)
    grid.apply(ExpireLeases((lost,)))
    command = RedriveJobs((RedriveItem(task, b"other", "r"),))
    assert refusal(grid.ask(command)) is ErrorCode.BAD_OPTIONS
    assert grid.ask(RedriveJobs((RedriveItem(task, b"other", "q"),))) == Done(1)


def test_redrive_is_all_or_none() -> None:
    grid = dead_grid("a")
    grid.submit("b")
    outcome = grid.ask(redrive("a", "b"))
    assert isinstance(outcome, Refused)
    assert (outcome.code, outcome.job_id) == (ErrorCode.WRONG_STATE, job_id("b"))
    assert refusal(grid.ask(redrive("a", "gone"))) is ErrorCode.UNKNOWN_JOB
    large = bytes(limits.INLINE_BYTES_MAX + 1)
    assert refusal(grid.ask(redrive("a", body=large))) is ErrorCode.BAD_OPTIONS
    assert grid.job("a").state is DEAD


def test_redrive_of_a_job_that_never_ran() -> None:
    grid = Grid()
    grid.submit("a")
    grid.apply(ExpireJobs((job_id("a"),)))
    grid.apply(redrive("a"))
    assert grid.job("a").state is QUEUED


@pytest.mark.parametrize("times", [1, 2])
def test_redrive_with_another_body_leaves_the_id_to_the_first(times: int) -> None:
    grid = dead_grid("a")
    for _ in range(times):
        grid.apply(redrive("a", body=b"edited"))
        grid.kill("a")
    grid.apply(redrive("a", body=b"edited"))
    assert grid.job("a").body == b"edited"
    assert grid.ask(submit("a", max_attempts=1)) == Duplicate(ended=False)
    outcome = grid.ask(submit("a", body=b"edited", max_attempts=1))
    assert refusal(outcome) is ErrorCode.JOB_CONFLICT
    grid.assign("a")
    grid.ack("a")
    assert grid.ask(submit("a", max_attempts=1)) == Duplicate(ended=True)


def test_purge_takes_dead_jobs_only() -> None:
    grid = dead_grid("a", "b")
    grid.submit("c")
    outcome = grid.ask(PurgeJobs((job_id("a"), job_id("c"))))
    assert refusal(outcome) is ErrorCode.WRONG_STATE
    applied = grid.apply(PurgeJobs((job_id("a"), job_id("gone"), job_id("a")), "olga"))
    assert applied.outcomes == [Done(1)]
    assert [(event.kind, event.detail) for event in applied.events] == [("purge", "olga")]
    assert job_id("a") not in grid.state.jobs
    assert list(grid.state.dead) == [job_id("b")]


def test_forget_takes_ended_jobs_only_and_the_dedup_with_them() -> None:
    grid = Grid()
    grid.start("a")
    grid.submit("b")
    ids = (job_id("a"), job_id("b"))
    assert grid.ask(ForgetJobs(ids)) == Done(0)
    grid.ack("a")
    applied = grid.apply(ForgetJobs(ids))
    assert applied.outcomes == [Done(1)]
    assert kinds(applied) == ["forget"]
    assert not len(grid.state.clients["ann"].owed)
    assert grid.ask(submit("a")) == Done(1)


def test_nothing_is_left_of_a_forgotten_world() -> None:
    grid = dead_grid("a")
    grid.start("b")
    grid.ack("b")
    grid.apply(ForgetJobs((job_id("a"), job_id("b"))))
    assert not grid.state.jobs
    assert not grid.state.queues
    assert list(grid.state.idle_clients) == ["ann"]


def test_a_running_job_cannot_be_dropped() -> None:
    grid = Grid()
    grid.start("a")
    applied = grid.apply()
    with pytest.raises(Exception, match="cannot be forgotten"):
        drop_job(grid.state, grid.job("a"), "forget", applied)
