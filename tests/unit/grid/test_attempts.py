import pytest

from rollq.base import limits
from rollq.base.errors import ErrorCode
from rollq.base.jobs import Status
from rollq.grid.commands import (
    AckJob,
    AssignJob,
    CancelJobs,
    Cause,
    CloseWorker,
    Command,
    ExpireLeases,
    LostAttempt,
    NackJob,
    OpenClient,
    PauseQueue,
    RedriveItem,
    RedriveJobs,
)
from rollq.grid.effects import Done, Duplicate, SendAssign, SendResult
from rollq.grid.state import ASSIGNED, CANCELLED, DEAD, DELAYED, DONE, QUEUED
from tests.unit.grid.kit import Grid, job_id, kinds, refusal, worker_id


def test_assign_starts_an_attempt_under_a_new_fence() -> None:
    grid = Grid()
    grid.submit("a", "b")
    applied = grid.assign("a", "b")
    assert kinds(applied) == ["assign", "assign"]
    assert [event.fence for event in applied.events] == [1, 2]
    order = applied.effects[0]
    assert isinstance(order, SendAssign)
    assert (*order.bodies, order.attempt, order.fence, order.lease_ms) == (b"a", 1, 1, 5_000)
    assert order.task_number == -1
    assert grid.job("a").state is ASSIGNED
    assert list(grid.state.workers[worker_id("w1")].held) == [job_id("a"), job_id("b")]


def test_assign_needs_a_queued_job_the_next_attempt_and_the_session() -> None:
    grid = Grid()
    grid.submit("a")
    grid.submit("later", delay_ms=5)

    def code(name: str, worker: str = "w1", incarnation: int = 1, attempt: int = 1) -> ErrorCode:
        return refusal(
            grid.ask(AssignJob(job_id(name), worker_id(worker), incarnation, attempt, 5))
        )

    assert code("nothing") is ErrorCode.UNKNOWN_JOB
    assert code("later") is ErrorCode.WRONG_STATE
    assert code("a", attempt=2) is ErrorCode.STALE_ATTEMPT
    assert code("a", worker="w2") is ErrorCode.UNKNOWN_WORKER
    assert code("a", incarnation=2) is ErrorCode.UNKNOWN_WORKER
    grid.assign("a")
    assert code("a", attempt=2) is ErrorCode.WRONG_STATE


def test_a_paused_queue_gives_nothing() -> None:
    grid = Grid()
    grid.submit("a")
    grid.apply(PauseQueue("q"))
    assert refusal(grid.ask(grid.assignment("a"))) is ErrorCode.QUEUE_PAUSED


def test_a_client_never_has_more_in_flight_than_its_cap() -> None:
    grid = Grid()
    grid.apply(OpenClient("ann", 1))
    grid.submit("a", "b")
    grid.submit("c", client="bob")
    grid.assign("a")
    assert refusal(grid.ask(grid.assignment("b"))) is ErrorCode.CAP_REACHED
    assert grid.ask(grid.assignment("c")) == Done(1)
    grid.ack("a")
    assert grid.ask(grid.assignment("b")) == Done(1)


@pytest.mark.parametrize("how", ["ack", "nack", "lease", "close", "restart"])
def test_every_way_out_gives_the_place_under_the_cap_back(how: str) -> None:
    grid = Grid()
    grid.apply(OpenClient("ann", 1))
    grid.start("a")
    if how == "ack":
        grid.ack("a")
    elif how == "nack":
        grid.nack("a")
    elif how == "lease":
        grid.apply(ExpireLeases((LostAttempt(job_id("a"), 1),)))
    elif how == "close":
        grid.apply(CloseWorker(worker_id("w1"), 1))
    else:
        grid.open_worker("w1", 2)
    assert grid.state.clients["ann"].in_flight == 0


def test_a_job_for_one_worker_goes_to_no_other() -> None:
    grid = Grid(workers=("w1", "w2"))
    grid.submit("a", worker_name="w2")
    assert refusal(grid.ask(grid.assignment("a"))) is ErrorCode.WRONG_STATE
    assert grid.ask(grid.assignment("a", "w2")) == Done(1)


@pytest.mark.parametrize("status", [Status.OK, Status.FAILED])
def test_ack_ends_the_job_with_its_result(status: Status) -> None:
    grid = Grid()
    grid.start("a")
    applied = grid.ack("a", status, exit_code=3, signal=9, run_ms=70, peak_bytes=5)
    event = applied.events[0]
    assert (event.kind, event.status, event.exit_code, event.signal) == ("ack", status, 3, 9)
    assert (event.run_ms, event.peak_bytes) == (70, 5)
    result = applied.effects[0]
    assert isinstance(result, SendResult)
    assert (result.outcome, result.ends[0].status, result.ends[0].result) == (
        "done",
        status,
        b"result",
    )
    assert grid.job("a").state is DONE
    assert list(grid.state.clients["ann"].owed) == [job_id("a")]


def test_a_repeated_ack_is_known_and_an_older_one_is_stale() -> None:
    grid = Grid()
    grid.start("a")
    old = grid.acknowledgement("a")
    grid.nack("a")
    grid.assign("a")
    new = grid.acknowledgement("a")
    assert refusal(grid.ask(old)) is ErrorCode.STALE_ATTEMPT
    assert grid.ask(new) == Done(1)
    assert grid.ask(new) == Duplicate(ended=True)
    assert refusal(grid.ask(old)) is ErrorCode.STALE_ATTEMPT


def test_a_lost_attempt_cannot_ack_any_more() -> None:
    grid = Grid()
    grid.start("a", max_attempts=1)
    late = grid.acknowledgement("a")
    grid.apply(ExpireLeases((LostAttempt(job_id("a"), 1),)))
    assert grid.job("a").state is DEAD
    assert refusal(grid.ask(late)) is ErrorCode.STALE_ATTEMPT
    assert refusal(grid.ask(AckJob(job_id("a"), 1, 0, 0))) is ErrorCode.STALE_ATTEMPT


def test_an_ack_under_another_fence_is_stale_though_its_attempt_has_the_same_number() -> None:
    grid = Grid()
    grid.submit("a")
    grid.assign("a")
    record = grid.job("a")
    other = AckJob(record.job_id, record.attempt, record.fence + 1, 0)
    assert refusal(grid.ask(other)) is ErrorCode.STALE_ATTEMPT
    assert record.state is ASSIGNED


def test_an_ack_of_nothing_is_stale() -> None:
    grid = Grid()
    grid.submit("a")
    nothing = AckJob(job_id("a"), 0, 0, 0)
    assert refusal(grid.ask(nothing)) is ErrorCode.STALE_ATTEMPT
    grid.apply(CancelJobs((job_id("a"),)))
    assert refusal(grid.ask(nothing)) is ErrorCode.STALE_ATTEMPT


def test_an_ack_out_of_bounds_is_refused() -> None:
    grid = Grid()
    grid.start("a")
    large = grid.acknowledgement("a", result=bytes(limits.INLINE_BYTES_MAX + 1))
    assert refusal(grid.ask(large)) is ErrorCode.BAD_OPTIONS
    record = grid.job("a")
    for status in (-1, 3):
        odd = AckJob(record.job_id, record.attempt, record.fence, status)
        assert refusal(grid.ask(odd)) is ErrorCode.BAD_OPTIONS


def test_the_retry_rule_names_exit_codes() -> None:
    grid = Grid()
    grid.start("a", retry_exit_codes=(75,), max_attempts=2)
    applied = grid.ack("a", Status.FAILED, exit_code=75, retry_delay_ms=20, detail="busy")
    event = applied.events[0]
    assert (event.kind, event.delay_ms, event.exit_code) == ("retry_requeue", 20, 75)
    assert grid.job("a").state is DELAYED
    assert not applied.effects
    past = grid.job("a").past
    assert past is not None
    assert [(one.attempt, one.cause, one.detail) for one in past.attempts] == [
        (1, Cause.EXIT_CODE, "busy")
    ]


def test_the_retry_rule_ends_when_attempts_do_and_the_last_output_is_kept() -> None:
    grid = Grid()
    grid.start("a", retry_exit_codes=(75,), max_attempts=1)
    applied = grid.ack("a", Status.FAILED, exit_code=75, run_ms=4)
    assert kinds(applied) == ["dlq"]
    result = applied.effects[0]
    assert isinstance(result, SendResult)
    assert (result.outcome, result.ends[0].cause, result.ends[0].exit_code) == (
        "dead",
        Cause.EXIT_CODE,
        75,
    )
    assert (result.ends[0].result, result.ends[0].run_ms) == (b"result", 4)
    assert grid.job("a").body == b"a"


@pytest.mark.parametrize("kind", ["retry_requeue", "dlq", "cancel"])
def test_history_says_what_an_attempt_without_a_result_took(kind: str) -> None:
    grid = Grid()
    grid.start("a", retry_exit_codes=(75,), max_attempts=1 if kind == "dlq" else 9)
    if kind == "cancel":
        grid.apply(CancelJobs((job_id("a"),)))
    status = Status.CANCELLED if kind == "cancel" else Status.FAILED
    used = {"run_ms": 70, "peak_bytes": 5, "fetched_bytes": 3, "held_bytes": 2}
    applied = grid.ack("a", status, exit_code=75, signal=9, **used)
    (event,) = applied.events
    assert (event.kind, event.exit_code, event.signal) == (kind, 75, 9)
    assert {name: getattr(event, name) for name in used} == used


def test_a_failure_that_the_rule_does_not_name_is_a_result() -> None:
    grid = Grid()
    grid.start("a", retry_exit_codes=(75,))
    grid.ack("a", Status.FAILED, exit_code=1)
    assert grid.job("a").state is DONE


def test_a_worker_that_stops_a_job_by_itself_gives_no_result() -> None:
    grid = Grid()
    grid.start("a")
    applied = grid.ack("a", Status.CANCELLED)
    assert kinds(applied) == ["nack_requeue"]
    assert grid.job("a").state is QUEUED


def test_a_worker_confirms_a_cancel() -> None:
    grid = Grid()
    grid.start("a")
    grid.apply(CancelJobs((job_id("a"),)))
    command = grid.acknowledgement("a", Status.CANCELLED)
    applied = grid.apply(command)
    assert kinds(applied) == ["cancel"]
    assert grid.job("a").state is CANCELLED
    assert grid.ask(command) == Duplicate(ended=True)


def test_a_job_that_ended_before_the_cancel_reached_it_keeps_its_result() -> None:
    grid = Grid()
    grid.start("a")
    grid.apply(CancelJobs((job_id("a"),)))
    grid.ack("a")
    assert grid.job("a").state is DONE


def test_a_cancelled_job_is_not_retried() -> None:
    grid = Grid()
    grid.start("a", retry_exit_codes=(75,))
    grid.apply(CancelJobs((job_id("a"),)))
    applied = grid.ack("a", Status.FAILED, exit_code=75)
    assert kinds(applied) == ["cancel"]
    assert grid.job("a").state is CANCELLED


@pytest.mark.parametrize("delay_ms", [0, 40])
def test_nack_sends_the_job_back(delay_ms: int) -> None:
    grid = Grid()
    grid.start("a")
    seq = grid.job("a").seq
    applied = grid.nack("a", delay_ms)
    event = applied.events[0]
    assert (event.kind, event.delay_ms, event.cause) == ("nack_requeue", delay_ms, Cause.NACKED)
    assert event.worker_id == worker_id("w1")
    assert grid.job("a").state is (DELAYED if delay_ms else QUEUED)
    assert grid.job("a").seq == seq


def test_nack_of_another_attempt_is_stale() -> None:
    grid = Grid()
    grid.start("a")
    assert refusal(grid.ask(NackJob(job_id("a"), 1, 99))) is ErrorCode.STALE_ATTEMPT
    assert refusal(grid.ask(NackJob(job_id("a"), 2, 1))) is ErrorCode.STALE_ATTEMPT
    assert refusal(grid.ask(NackJob(job_id("x"), 1, 1))) is ErrorCode.UNKNOWN_JOB


def test_starts_are_counted_and_every_outcome_is_kept() -> None:
    grid = Grid()
    grid.submit("a", max_attempts=3)
    grid.kill("a")
    record = grid.job("a")
    assert record.state is DEAD
    assert record.attempt == 3
    assert record.past is not None
    assert [one.attempt for one in record.past.attempts] == [1, 2, 3]
    assert {one.detail for one in record.past.attempts} == {"no such exec"}
    assert list(grid.state.dead) == [job_id("a")]


def test_details_are_bounded() -> None:
    grid = Grid()
    grid.start("a")
    grid.nack("a", detail="x" * 10_000)
    past = grid.job("a").past
    assert past is not None
    assert len(past.attempts[0].detail) == limits.DETAIL_BYTES_MAX


def test_late_timers_are_harmless() -> None:
    grid = Grid()
    grid.start("a")
    lost = (LostAttempt(job_id("a"), 1, 30), LostAttempt(job_id("gone"), 1))
    first: Command = ExpireLeases(lost)
    applied = grid.apply(first)
    assert applied.outcomes == [Done(1)]
    assert kinds(applied) == ["timeout_requeue"]
    applied = grid.apply(first)
    assert applied.outcomes == [Done(0)]
    assert not applied.events


def test_a_job_that_is_given_back_unstarted_keeps_its_only_attempt() -> None:
    grid = Grid()
    grid.start("a", max_attempts=1)
    for attempt in (1, 2, 3):
        assert grid.job("a").attempt == attempt
        applied = grid.nack("a", detail="draining", not_started=True)
        assert [event.kind for event in applied.events] == ["nack_requeue"]
        assert grid.job("a").state is QUEUED
        grid.assign("a")
    grid.nack("a", detail="cannot start it")
    assert grid.job("a").state is DEAD


def test_attempts_count_anew_after_a_redrive_whatever_was_given_back_before() -> None:
    grid = Grid()
    grid.start("a", max_attempts=2)
    grid.nack("a", not_started=True)
    grid.kill("a")
    grid.apply(RedriveJobs((RedriveItem(job_id("a")),)))
    grid.assign("a")
    grid.nack("a")
    assert grid.job("a").state is QUEUED
    grid.assign("a")
    grid.nack("a")
    assert grid.job("a").state is DEAD
    assert grid.job("a").attempt == 5


def test_a_lost_attempt_that_was_never_sent_does_not_count() -> None:
    grid = Grid()
    grid.start("a", "b", "c", max_attempts=1)
    grid.apply(ExpireLeases((LostAttempt(job_id("c"), 1, 0, True),)))
    unsent = LostAttempt(job_id("a"), 1, 0, True)
    grid.apply(CloseWorker(worker_id("w1"), 1, (unsent, LostAttempt(job_id("b"), 1))))
    assert [grid.job(name).state for name in "abc"] == [QUEUED, DEAD, QUEUED]
