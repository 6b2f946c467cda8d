"""Runs at a leader: each job of a run for itself, one answer for all, and mixed versions."""

from __future__ import annotations

from typing import Any

import pytest

from rollq.base.errors import ErrorCode, RemoteError
from rollq.base.jobs import AttemptRef, BlobRef, JobOptions, ParentEnd, ParentResult, Status
from rollq.base.limits import INLINE_BYTES_MAX, RUN_BYTES_MAX, RUN_JOBS_MAX
from rollq.grid import commands
from rollq.roles.member.leader.runs import in_runs
from rollq.wire import messages as wire
from rollq.wire.run_messages import (
    AckRun,
    AcksTaken,
    AssignRun,
    RefusedJob,
    ResultRun,
    RunAccepted,
    SubmitRun,
)
from tests.unit.roles.members import OURS, Group, job, submit

CLIENT, WORKER, OLD_CLIENT, OLD_WORKER, REQUEST = 1, 2, 3, 4, b"r" * 16
WITH_RUNS = (*OURS, "runs")
BLOB = BlobRef(b"\xab" * 32, 5)


@pytest.fixture
def group() -> Group:
    """One member that leads, with a client that speaks of runs."""
    made = Group()
    made.elect()
    made.client(CLIENT, features=WITH_RUNS)
    return made


def run_of(*numbers: int, **fields: Any) -> SubmitRun:
    bodies = tuple(b"%d" % number for number in numbers)
    ids = b"".join(map(job, numbers))
    return SubmitRun(REQUEST, "ann", "calc", "calc", ids, bodies, **fields)


# --- submits


def test_the_jobs_of_a_run_are_accepted_by_one_answer(group: Group) -> None:
    told = group.say(CLIENT, run_of(1, 2, 3, keys="a\0\0c", options=JobOptions(priority=3)))
    assert told == [RunAccepted(REQUEST, 3)]
    jobs = group.leader.state.jobs
    assert [(jobs[job(n)].body, jobs[job(n)].options.priority) for n in (1, 2, 3)] == [
        (b"1", 3),
        (b"2", 3),
        (b"3", 3),
    ]
    assert jobs[job(1)].client.client_id == "ann"


def test_jobs_of_a_run_that_were_accepted_before_are_known(group: Group) -> None:
    group.say(CLIENT, submit(2, body=b"2"))
    assert group.say(CLIENT, run_of(1, 2, 3)) == [RunAccepted(REQUEST, 3, (1,))]
    assert group.say(CLIENT, run_of(1, 2, 3)) == [RunAccepted(REQUEST, 3, (0, 1, 2))]
    assert len(group.leader.state.jobs) == 3


def test_a_job_that_a_run_names_twice_is_known_the_second_time(group: Group) -> None:
    ids, bodies = job(1) * 2, (b"1", b"1")
    told = group.say(CLIENT, SubmitRun(REQUEST, "ann", "calc", "calc", ids, bodies))
    assert told == [RunAccepted(REQUEST, 2, (1,))]


def test_a_job_of_a_run_that_has_ended_is_named(group: Group) -> None:
    group.say(CLIENT, run_of(1, 2))
    (assigned,) = group.worker(WORKER, credit=1, features=OURS)[1:]
    group.say(WORKER, wire.AckJob(job(1), assigned.attempt, assigned.fence))
    group.hear(CLIENT)
    accepted = group.say(CLIENT, run_of(1, 2, 3))[0]
    assert accepted == RunAccepted(REQUEST, 3, (0, 1), (0,))


def test_a_job_of_a_run_is_refused_for_itself(group: Group) -> None:
    group.say(CLIENT, submit(2, body=b"another job"))
    (accepted,) = group.say(CLIENT, run_of(1, 2, 3))
    assert (accepted.count, accepted.known) == (2, ())
    (refused,) = accepted.refused
    assert (refused.position, refused.code) == (1, ErrorCode.JOB_CONFLICT)
    assert {job(1), job(3)} < group.leader.state.jobs.keys()


def test_a_job_of_a_run_whose_blob_is_missing_is_refused_for_itself(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    class NothingHeld:
        def lacking(self, refs: Any) -> list[bytes]:
            return [ref.digest for ref in refs]

    monkeypatch.setattr(group.leader.leader_state.shell, "blobs", NothingHeld())
    (accepted,) = group.say(CLIENT, run_of(1, 2, blobs=((BLOB,), ())))
    assert accepted.count == 1
    (refused,) = accepted.refused
    assert isinstance(refused, RefusedJob)
    assert (refused.position, refused.code) == (0, ErrorCode.BLOB_MISSING)
    assert "upload" in refused.hint


@pytest.mark.parametrize("fields", [{"subject": "a.>"}, {"exec_name": ""}, {"subject": "q" * 257}])
def test_what_a_run_shares_is_refused_for_all(group: Group, fields: dict[str, str]) -> None:
    values: dict[str, Any] = {"subject": "calc", "exec_name": "calc"} | fields
    run = SubmitRun(REQUEST, "ann", job_ids=job(1), bodies=(b"",), **values)
    (error,) = group.say(CLIENT, run)
    assert isinstance(error, wire.Error)
    assert error.request_id == REQUEST
    assert not group.leader.state.jobs


def test_a_run_is_answered_when_its_last_job_is_applied(group: Group) -> None:
    count = 600  # more than a turn takes
    (accepted,) = group.say(CLIENT, run_of(*range(1, count + 1)))
    assert accepted == RunAccepted(REQUEST, count)


def test_results_of_a_run_go_to_the_session_that_asked(group: Group) -> None:
    group.client(5, features=(*WITH_RUNS, "own"))
    group.client(6, features=(*WITH_RUNS, "own"))
    group.say(5, run_of(1, 2))
    (run,) = [one for one in group.worker(WORKER, 2, WITH_RUNS) if type(one) is AssignRun]
    group.say(WORKER, AckRun(tuple(acks_of(run))))
    assert [one.job_ids for one in group.heard(5, ResultRun)] == [job(1) + job(2)]
    assert group.heard(6, ResultRun) == []


# --- assignments and acks


def acks_of(run: AssignRun, **fields: Any) -> list[wire.AckJob]:
    ids = [run.job_ids[at : at + 16] for at in range(0, len(run.job_ids), 16)]
    return [
        wire.AckJob(job_id, run.attempt, run.fence + place, **fields)
        for place, job_id in enumerate(ids)
    ]


def test_alike_jobs_come_to_a_worker_as_one_run_and_go_back_as_one(group: Group) -> None:
    group.say(CLIENT, run_of(1, 2, 3))
    (run,) = [one for one in group.worker(WORKER, 3, WITH_RUNS) if type(one) is AssignRun]
    assert run.job_ids == job(1) + job(2) + job(3)
    assert run.bodies == (b"1", b"2", b"3")
    assert (run.attempt, run.task_number, run.client_id, run.exec_name) == (1, -1, "ann", "calc")
    acks = acks_of(run, result=b"r", run_ms=7)
    assert group.say(WORKER, AckRun(tuple(acks))) == [AcksTaken(run.job_ids, (1, 1, 1))]
    (result,) = group.hear(CLIENT)
    assert isinstance(result, ResultRun)
    assert (result.job_ids, result.results, result.run_ms) == (run.job_ids, (b"r",) * 3, (7,) * 3)
    assert (result.outcome, result.attempt, result.client_id) == ("done", 1, "ann")


def test_an_ack_of_a_run_is_stale_for_itself(group: Group) -> None:
    group.say(CLIENT, run_of(1, 2))
    (run,) = [one for one in group.worker(WORKER, 2, WITH_RUNS) if type(one) is AssignRun]
    first, second = acks_of(run)
    stale = wire.AckJob(second.job_id, second.attempt, run.fence)  # the fence of the first
    told = group.say(WORKER, AckRun((first, stale)))
    assert told == [AcksTaken(run.job_ids, (1, 1), (1,))]
    assert group.leader.state.jobs[job(2)].worker_id


def test_results_that_differ_come_in_runs_of_their_own(group: Group) -> None:
    group.say(CLIENT, run_of(1, 2, 3, options=JobOptions(max_attempts=1)))
    (run,) = [one for one in group.worker(WORKER, 3, WITH_RUNS) if type(one) is AssignRun]
    good, bad, last = acks_of(run)
    bad = wire.AckJob(bad.job_id, bad.attempt, bad.fence, Status.FAILED, exit_code=3)
    group.say(WORKER, AckRun((good, bad, last)))
    told = group.heard(CLIENT, ResultRun)
    assert [(one.job_ids, one.outcome, one.exit_code) for one in told] == [
        (job(2), told[0].outcome, 3),
        (job(1) + job(3), "done", 0),
    ]


def test_a_large_result_in_a_run_of_acks_is_kept_and_comes_alone(group: Group) -> None:
    group.say(CLIENT, run_of(1, 2))
    (run,) = [one for one in group.worker(WORKER, 2, WITH_RUNS) if type(one) is AssignRun]
    large = bytes(INLINE_BYTES_MAX + 1)
    first, second = acks_of(run, result=b"small")
    second = wire.AckJob(second.job_id, second.attempt, second.fence, result=large)
    taken = group.say(WORKER, AckRun((first, second)))
    assert [(one.job_ids, one.stale) for one in taken] == [(job(1), ()), (job(2), ())]
    small, whole = group.hear(CLIENT)
    assert (type(small), small.results) == (ResultRun, (b"small",))
    assert (type(whole), whole.result) == (wire.Result, large)


def test_an_ack_that_is_refused_leaves_the_rest_of_its_run(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    group.say(CLIENT, run_of(1, 2))
    (run,) = [one for one in group.worker(WORKER, 2, WITH_RUNS) if type(one) is AssignRun]
    first, second = acks_of(run)
    first = wire.AckJob(first.job_id, first.attempt, first.fence, Status.FAILED)
    add = group.leader.leader_state.proposals.add

    def refuse_first(command: Any, *origin: Any) -> None:
        if isinstance(command, commands.AckRun) and command.job_ids == job(1):
            raise RemoteError(ErrorCode.BAD_PAYLOAD, "too large")
        add(command, *origin)

    monkeypatch.setattr(group.leader.leader_state.proposals, "add", refuse_first)
    error, taken = group.say(WORKER, AckRun((first, second)))
    assert (error.request_id, error.code) == (job(1), ErrorCode.BAD_PAYLOAD)
    assert taken == AcksTaken(job(2), (1,))


# --- peers that do not speak of runs


def test_an_older_client_and_an_older_worker_are_spoken_to_as_before(group: Group) -> None:
    group.client(OLD_CLIENT, "ben")
    group.say(OLD_CLIENT, *[submit(n, client_id="ben") for n in (1, 2)])
    told = group.worker(OLD_WORKER, credit=2)
    jobs = [one for one in told if isinstance(one, wire.AssignJob)]
    assert [one.job_id for one in jobs] == [job(1), job(2)]
    acks = [wire.AckJob(one.job_id, one.attempt, one.fence) for one in jobs]
    assert group.say(OLD_WORKER, *acks) == [wire.AckTaken(job(1), 1), wire.AckTaken(job(2), 1)]
    assert [one.job_id for one in group.heard(OLD_CLIENT, wire.Result)] == [job(1), job(2)]


def test_jobs_of_a_run_reach_an_older_worker_one_by_one(group: Group) -> None:
    group.say(CLIENT, run_of(1, 2))
    told = group.worker(OLD_WORKER, credit=2)
    assert [one.body for one in told if isinstance(one, wire.AssignJob)] == [b"1", b"2"]


def test_a_peer_that_offers_runs_alone_is_spoken_to_as_before(group: Group) -> None:
    group.client(OLD_CLIENT, "ben", ("accepted", "runs"))
    assert group.say(OLD_CLIENT, submit(1, client_id="ben")) == [wire.Accepted(job(1))]
    group.worker(WORKER, 1, WITH_RUNS)
    group.say(WORKER, AckRun((wire.AckJob(job(1), 1, 1),)))
    assert [type(one) for one in group.hear(OLD_CLIENT)] == [wire.Result]


# --- putting messages together


def assigned(number: int, fence: int, **fields: Any) -> wire.AssignJob:
    values: dict[str, Any] = {"body": b"", "attempt": 1, "lease_ms": 9, "subject": "s"} | fields
    return wire.AssignJob(job(number), fence=fence, exec_name="e", **values)


@pytest.mark.parametrize(
    ("messages", "lengths"),
    [
        ([assigned(1, 5), assigned(2, 6), assigned(3, 7)], [3]),
        ([assigned(1, 5), assigned(2, 7)], [1, 1]),
        ([assigned(1, 5), assigned(2, 6, attempt=2)], [1, 1]),
        ([assigned(1, 5), assigned(2, 6, lease_ms=8)], [1, 1]),
        ([assigned(1, 5), assigned(2, 6, subject="t")], [1, 1]),
        ([assigned(1, 5), assigned(2, 6, client_id="ben")], [1, 1]),
        ([assigned(1, 5), assigned(2, 6, expect_ms=1)], [1, 1]),
        ([assigned(1, 5), assigned(2, 6, options=JobOptions(1))], [1, 1]),
        ([assigned(1, 5, task_number=3), assigned(2, 6, task_number=4)], [2]),
        ([assigned(1, 5, task_number=3), assigned(2, 6, task_number=5)], [1, 1]),
        ([assigned(1, 5, task_number=0), assigned(2, 6)], [1, 1]),
        ([assigned(n, n, body=bytes(INLINE_BYTES_MAX)) for n in range(1, 10)], [4, 4, 1]),
        ([assigned(n, n) for n in range(1, RUN_JOBS_MAX + 2)], [RUN_JOBS_MAX, 1]),
    ],
)
def test_assignments_that_are_alike_are_one_run(
    messages: list[wire.AssignJob], lengths: list[int]
) -> None:
    assert RUN_BYTES_MAX == 4 * INLINE_BYTES_MAX
    runs = in_runs(messages)
    assert [len(run.bodies) for run in runs if isinstance(run, AssignRun)] == lengths
    assert len(runs) == len(lengths)


def test_what_is_too_large_for_a_run_stays_alone() -> None:
    large = assigned(2, 6, body=bytes(INLINE_BYTES_MAX + 1))
    told = in_runs([assigned(1, 5), large, assigned(3, 7)])
    assert told[1] is large
    assert [type(one) for one in told] == [AssignRun, wire.AssignJob, AssignRun]
    child = assigned(2, 6, parents=(ParentResult(job(9), b"{}"),))
    assert in_runs([assigned(1, 5), child])[1] is child, "a run has no results of parents"
    child = assigned(2, 6, ends=(ParentEnd(job(9), "ok"),))
    assert in_runs([assigned(1, 5), child])[1] is child, "nor how they ended"
    whole = wire.Result(job(1), "done", result=bytes(INLINE_BYTES_MAX + 1))
    many = wire.Result(job(2), "dead", count=5)
    assert in_runs([whole, many]) == [whole, many]


def test_messages_keep_their_order_and_columns_what_differs() -> None:
    one = wire.Result(job(1), "done", run_ms=1, job_key="a", blobs=(BLOB,))
    two = wire.Result(job(2), "done", run_ms=2)
    pong, stop = wire.Pong(), wire.StopJob(job(9), 1, 1)
    taken = [wire.AckTaken(job(3), 1), wire.AckTaken(job(4), 2, True)]
    assert in_runs([one, two, pong, *taken, stop, two]) == [
        ResultRun(
            *(job(1) + job(2), (b"", b""), "done"),
            run_ms=(1, 2),
            keys="a\0",
            blobs=((BLOB,), ()),
        ),
        pong,
        AcksTaken(job(3) + job(4), (1, 2), (1,)),
        stop,
        ResultRun(job(2), (b"",), "done", run_ms=(2,)),
    ]
    assert in_runs([]) == []


# --- who is told


def ended_run(group: Group, *numbers: int) -> None:
    """A worker that takes runs gives all results at once."""
    told = group.worker(WORKER, len(numbers), WITH_RUNS)
    acks = [ack for run in told if isinstance(run, AssignRun) for ack in acks_of(run)]
    assert len(acks) == len(numbers)
    group.say(WORKER, AckRun(tuple(acks)))


def test_of_two_sessions_each_hears_in_its_own_way(group: Group) -> None:
    group.client(OLD_CLIENT)  # the same client, by an older library
    group.say(CLIENT, run_of(1, 2))
    ended_run(group, 1, 2)
    (run,) = group.hear(CLIENT)
    assert (type(run), run.job_ids) == (ResultRun, job(1) + job(2))
    assert [one.job_id for one in group.heard(OLD_CLIENT, wire.Result)] == [job(1), job(2)]


def test_of_a_run_every_session_gets_what_it_asked_for(group: Group) -> None:
    own = (*WITH_RUNS, "own")
    group.client(5, features=own)
    group.client(6, features=own)
    group.say(5, run_of(1, 2))
    group.say(6, run_of(3, 4))
    ended_run(group, 1, 2, 3, 4)
    both = job(1) + job(2) + job(3) + job(4)
    assert [one.job_ids for one in group.heard(CLIENT, ResultRun)] == [both]  # it hears of all
    assert [one.job_ids for one in group.heard(5, ResultRun)] == [job(1) + job(2)]
    assert [one.job_ids for one in group.heard(6, ResultRun)] == [job(3) + job(4)]


def test_results_of_a_client_that_is_away_are_owed(group: Group) -> None:
    group.say(CLIENT, run_of(1, 2))
    group.hang_up(CLIENT)
    ended_run(group, 1, 2)
    told = group.say(5, wire.HelloClient("ann", 0, WITH_RUNS))
    assert [one.job_ids for one in told if isinstance(one, ResultRun)] == [job(1) + job(2)]


def test_a_client_that_does_not_confirm_is_told_once_and_owed_nothing(group: Group) -> None:
    group.client(OLD_CLIENT, "ben", ("compact", "runs"))
    group.say(OLD_CLIENT, SubmitRun(REQUEST, "ben", "calc", "calc", job(1) + job(2), (b"", b"")))
    ended_run(group, 1, 2)
    assert [one.job_ids for one in group.heard(OLD_CLIENT, ResultRun)] == [job(1) + job(2)]
    group.hang_up(OLD_CLIENT)
    told = group.say(5, wire.HelloClient("ben", 0, WITH_RUNS))
    assert [type(one) for one in told] == [wire.Welcome]


def test_jobs_with_blobs_come_as_a_run_with_a_column_of_them(group: Group) -> None:
    group.say(CLIENT, run_of(1, 2, blobs=((BLOB,), ())))
    (run,) = [one for one in group.worker(WORKER, 2, WITH_RUNS) if type(one) is AssignRun]
    assert run.blobs == ((BLOB,), ())


def test_a_run_for_a_worker_without_a_session_is_sent_when_it_is_back(group: Group) -> None:
    group.worker(WORKER, 2, WITH_RUNS)
    group.hear(WORKER)
    group.tell(CLIENT, run_of(1, 2))
    group.settle()
    (run,) = group.heard(WORKER, AssignRun)
    group.hang_up(WORKER)
    held = tuple(AttemptRef(one.job_id, one.attempt, one.fence) for one in acks_of(run)[:1])
    told = group.worker(WORKER, 0, WITH_RUNS, incarnation=0, holding=held)
    again = [one for one in told if isinstance(one, AssignRun)]
    assert [one.job_ids for one in again] == [job(2)]
