import pytest

from rollq.base import limits
from rollq.base.errors import ErrorCode
from rollq.base.jobs import AttemptRef, Status
from rollq.grid.bounds import Bounds
from rollq.grid.commands import CancelJobs, Cause, CloseWorker, LostAttempt, OpenWorker
from rollq.grid.effects import Done, SendAssign, SendCancel, SendDrain, SendKept, TellTopic
from rollq.grid.state import ASSIGNED, CANCELLED, DELAYED, DONE, QUEUED
from tests.unit.grid.kit import Grid, job_id, kinds, refusal, worker_id

W1 = worker_id("w1")


def test_a_worker_is_up() -> None:
    grid = Grid(workers=())
    applied = grid.open_worker("w1")
    event = applied.events[0]
    assert (event.kind, event.worker_id, event.count, event.detail) == (
        "worker_up",
        W1,
        4,
        "w1 >",
    )


@pytest.mark.parametrize(
    "command",
    [
        OpenWorker(b"short", 1, "w", (), 1),
        OpenWorker(W1, 1, "w" * 300, (), 1),
        OpenWorker(W1, 1, "w", (">",) * (limits.PATTERNS_PER_WORKER_MAX + 1), 1),
        OpenWorker(W1, 1, "w", ("x" * (limits.PATTERN_BYTES_MAX + 1),), 1),
        OpenWorker(W1, 1, "w", (), -1),
        OpenWorker(W1, 1, "w", (), limits.CREDIT_MAX + 1),
    ],
)
def test_what_is_out_of_bounds_is_refused(command: OpenWorker) -> None:
    assert refusal(Grid(workers=()).ask(command)) is ErrorCode.BAD_OPTIONS


def test_workers_are_bounded() -> None:
    grid = Grid()
    grid.state.bounds = Bounds(workers=1)
    command = OpenWorker(worker_id("w2"), 1, "w2", (), 1)
    assert refusal(grid.ask(command)) is ErrorCode.GRID_FULL
    grid.open_worker("w1", 2)


def test_announced_attempts_are_adopted() -> None:
    grid = Grid()
    grid.start("a", "b")
    applied = grid.open_worker("w1", running=("a", "b"))
    assert kinds(applied) == ["worker_up", "adopt", "adopt"]
    assert not applied.effects
    grid.ack("a")
    assert grid.job("a").state is DONE


def test_adoption_survives_a_restart_of_the_worker() -> None:
    grid = Grid()
    grid.start("a", "b")
    applied = grid.open_worker("w1", 2, running=("a",), delay_ms=30)
    assert kinds(applied) == ["worker_up", "adopt", "worker_down_requeue"]
    assert grid.job("a").state is ASSIGNED
    assert grid.job("b").state is DELAYED
    past = grid.job("b").past
    assert past is not None
    assert past.attempts[0].cause == Cause.WORKER_RESTARTED


def test_attempts_that_the_same_session_does_not_know_are_sent_again() -> None:
    grid = Grid()
    grid.start("a", "b", "c")
    grid.apply(CancelJobs((job_id("b"),)))
    applied = grid.open_worker("w1", running=("c",))
    assert kinds(applied) == ["worker_up", "adopt"]
    told = [
        (type(effect), effect.job_id if isinstance(effect, SendCancel) else effect.job_ids)
        for effect in applied.effects
        if not isinstance(effect, SendDrain | SendKept | TellTopic)
    ]
    assert told == [
        (SendAssign, job_id("a")),
        (SendAssign, job_id("b")),
        (SendCancel, job_id("b")),
    ]


def test_an_adopted_attempt_is_asked_again_to_stop() -> None:
    grid = Grid()
    grid.start("a")
    grid.apply(CancelJobs((job_id("a"),)))
    applied = grid.open_worker("w1", running=("a",))
    assert applied.effects == [SendCancel(W1, job_id("a"), 1, 1)]


def test_attempts_that_are_not_its_own_any_more_are_cancelled() -> None:
    grid = Grid(workers=("w1", "w2"))
    grid.start("a", "b", "c")
    grid.nack("a")
    grid.assign("a", worker="w2")
    grid.ack("b")
    refs = (
        AttemptRef(job_id("a"), 1, 1),  # runs elsewhere now
        AttemptRef(job_id("b"), 1, 2),  # has ended
        AttemptRef(job_id("c"), 1, 99),  # another fence
        AttemptRef(job_id("gone"), 1, 7),
    )
    applied = grid.apply(OpenWorker(W1, 1, "w1", (">",), 4, refs))
    cancels = [effect for effect in applied.effects if isinstance(effect, SendCancel)]
    assert [(one.job_id, one.fence) for one in cancels] == [
        (job_id("a"), 1),
        (job_id("b"), 2),
        (job_id("c"), 99),
        (job_id("gone"), 7),
    ]
    assert grid.job("a").worker_id == worker_id("w2")
    assert grid.job("c").state is ASSIGNED


def test_an_attempt_announced_twice_is_adopted_once() -> None:
    grid = Grid()
    grid.start("a")
    applied = grid.open_worker("w1", 2, running=("a", "a"))
    assert kinds(applied) == ["worker_up", "adopt", "adopt"]
    assert grid.job("a").state is ASSIGNED


def test_a_closed_worker_loses_everything_with_the_delays_of_the_leader() -> None:
    grid = Grid()
    grid.start("a", "b")
    command = CloseWorker(W1, 1, (LostAttempt(job_id("a"), 1, 25),))
    applied = grid.apply(command)
    assert applied.outcomes == [Done(2)]
    assert kinds(applied) == ["worker_down", "worker_down_requeue", "worker_down_requeue"]
    assert grid.job("a").state is DELAYED
    assert grid.job("b").state is QUEUED
    assert not grid.state.workers
    assert refusal(grid.ask(command)) is ErrorCode.UNKNOWN_WORKER


def test_a_late_close_does_not_touch_the_next_incarnation() -> None:
    grid = Grid()
    grid.open_worker("w1", 2)
    grid.submit("a")
    grid.assign("a")
    assert refusal(grid.ask(CloseWorker(W1, 1))) is ErrorCode.UNKNOWN_WORKER
    assert grid.job("a").state is ASSIGNED


def test_a_cancelled_job_ends_with_its_worker() -> None:
    grid = Grid()
    grid.start("a")
    grid.apply(CancelJobs((job_id("a"),)))
    grid.apply(CloseWorker(W1, 1))
    record = grid.job("a")
    assert record.state is CANCELLED
    assert record.end is not None
    assert record.end.status == Status.CANCELLED


def test_a_worker_that_comes_back_after_its_grace_has_nothing() -> None:
    grid = Grid()
    grid.start("a")
    ref = AttemptRef(job_id("a"), 1, 1)
    grid.apply(CloseWorker(W1, 1))
    applied = grid.apply(OpenWorker(W1, 1, "w1", (">",), 4, (ref,)))
    assert applied.effects == [SendCancel(W1, job_id("a"), 1, 1)]
    assert grid.job("a").state is QUEUED
