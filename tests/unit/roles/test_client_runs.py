"""Runs of a client: what goes together, what the answers mean, what comes back."""

from __future__ import annotations

import pytest

from rollq.base.errors import ErrorCode
from rollq.base.jobs import BlobRef, JobOptions
from rollq.base.limits import INLINE_BYTES_MAX, RUN_BYTES_MAX
from rollq.roles.client.session.machine import RETRY_MS, ClientMachine
from rollq.roles.client.session.runs import SUBMIT_RUN_JOBS, SentRuns, alike, results_of
from rollq.roles.client.session.signals import (
    Abandoned,
    ClientSetup,
    ClientTick,
    Connected,
    DeliverResponses,
    DeliverResults,
    Disconnected,
    Instruction,
    Received,
    Requested,
    ResultsTaken,
    SendToLeader,
    Started,
)
from rollq.wire import messages as wire
from rollq.wire.run_messages import RefusedJob, ResultRun, RunAccepted, SubmitRun

WELCOME = Received(wire.Welcome("g", 1, ("compact", "runs")))


class NoJitter:
    def draw(self, low: int, high: int) -> int:
        return low

    def draw_id(self) -> bytes:
        return b"r" * 16


def job(number: int) -> bytes:
    return number.to_bytes(16, "big")


def submit(number: int, body: bytes = b"b", queue: str = "q", **fields: object) -> wire.SubmitJob:
    return wire.SubmitJob(job(number), "c", queue, "exec", body, **fields)  # type: ignore[arg-type]


def numbers(ids: bytes) -> list[int]:
    return [int.from_bytes(ids[at : at + 16], "big") for at in range(0, len(ids), 16)]


def welcomed() -> ClientMachine:
    client = ClientMachine(ClientSetup("c", ("m1",), 0, ("compact", "runs")), NoJitter())
    for event in (Started(), Connected(), WELCOME):
        client.handle(event)
    return client


def sent(out: list[Instruction]) -> list[SubmitRun]:
    said = [one.message for one in out if isinstance(one, SendToLeader)]
    runs = [one for one in said if isinstance(one, SubmitRun)]
    assert len(runs) == len(said)
    return runs


def again(client: ClientMachine) -> list[SubmitRun]:
    client.handle(Disconnected())
    client.handle(Connected())
    return sent(client.handle(WELCOME))


def test_jobs_of_a_turn_that_are_alike_leave_as_one_run_and_others_as_another() -> None:
    urgent = JobOptions(priority=9)
    turn = [submit(1), submit(2, queue="r"), submit(3), submit(4, options=urgent), submit(5)]
    turn.append(submit(6, options=JobOptions(priority=9)))
    runs = sent(welcomed().handle(Requested(turn)))
    assert sorted(numbers(run.job_ids) for run in runs) == [[1, 3, 5], [2], [4, 6]]
    assert len({run.request_id for run in runs}) == 3


def test_a_run_has_its_columns() -> None:
    blobs = (BlobRef(b"d" * 32, 9),)
    jobs = [submit(1, b"1", job_key="one"), submit(2, b"2", blobs=blobs)]
    (run,) = SentRuns(b"r" * 16).messages(jobs)
    assert isinstance(run, SubmitRun)
    assert (run.client_id, run.subject, run.exec_name) == ("c", "q", "exec")
    assert (run.bodies, run.keys, run.blobs) == ((b"1", b"2"), "one\0", ((), blobs))


def test_a_run_is_split_where_a_message_is_full_and_what_is_large_goes_alone() -> None:
    many = (submit(n) for n in range(1, SUBMIT_RUN_JOBS + 2))
    assert list(map(len, alike(many))) == [SUBMIT_RUN_JOBS, 1]
    half = bytes(INLINE_BYTES_MAX)
    per_run = RUN_BYTES_MAX // INLINE_BYTES_MAX
    assert list(map(len, alike(submit(n, half) for n in range(per_run + 1)))) == [per_run, 1]
    large = submit(9, bytes(INLINE_BYTES_MAX + 1))
    said = list(SentRuns(b"r" * 16).messages([submit(1), large, submit(2)]))
    assert [type(one) for one in said].count(SubmitRun) == 1
    assert large in said


def test_each_job_of_a_run_is_told_its_own_answer() -> None:
    client = welcomed()
    (run,) = sent(client.handle(Requested([submit(number) for number in range(1, 5)])))
    refused = (RefusedJob(3, int(ErrorCode.JOB_CONFLICT), "other", "hint"),)
    answer = RunAccepted(run.request_id, 3, (1, 2), (2,), refused)
    assert client.handle(Received(answer)) == [
        DeliverResponses(
            [
                wire.Accepted(job(1)),
                wire.Accepted(job(2), known=True),
                wire.Accepted(job(3), known=True, ended=True),
                wire.Error(job(4), int(ErrorCode.JOB_CONFLICT), "other", "hint"),
            ]
        )
    ]
    assert client.pending_count == 0
    assert client.handle(Received(answer)) == []  # once more


def test_what_is_refused_for_now_is_asked_again_and_the_rest_is_not() -> None:
    client = welcomed()
    (run,) = sent(client.handle(Requested([submit(1), submit(2), submit(3)])))
    busy = (RefusedJob(1, int(ErrorCode.OVERLOADED), "busy", retryable=True),)
    client.handle(Received(RunAccepted(run.request_id, 2, refused=busy)))
    assert client.pending_count == 1
    (later,) = sent(client.handle(ClientTick(RETRY_MS + 1)))
    assert numbers(later.job_ids) == [2]
    assert later.request_id != run.request_id


@pytest.mark.parametrize("retryable", [True, False])
def test_the_refusal_of_a_run_is_that_of_its_jobs(retryable: bool) -> None:
    client = welcomed()
    (run,) = sent(client.handle(Requested([submit(1), submit(2)])))
    code = int(ErrorCode.OVERLOADED)
    out = client.handle(Received(wire.Error(run.request_id, code, "no", retryable=retryable)))
    if retryable:
        assert out == []
        (later,) = sent(client.handle(ClientTick(RETRY_MS + 1)))
        assert numbers(later.job_ids) == [1, 2]
    else:
        assert out == [
            DeliverResponses([wire.Error(job(1), code, "no"), wire.Error(job(2), code, "no")])
        ]


def test_an_unanswered_run_goes_to_the_next_leader_under_the_same_ids() -> None:
    client = welcomed()
    (first,) = sent(client.handle(Requested([submit(1), submit(2), submit(3)])))
    client.handle(Abandoned(job(2)))
    (second,) = again(client)
    assert numbers(second.job_ids) == [1, 3]
    # The earlier leader's answer would speak of other positions.
    assert client.handle(Received(RunAccepted(first.request_id, 3))) == []
    (told,) = client.handle(Received(RunAccepted(second.request_id, 2)))
    assert told == DeliverResponses([wire.Accepted(job(1)), wire.Accepted(job(3))])


def test_a_result_settles_its_job_of_a_run_in_doubt_and_no_other() -> None:
    client = welcomed()
    client.handle(Requested([submit(1), submit(2)]))
    again(client)
    end = wire.Result(job(1), "done", attempt=1)
    assert client.handle(Received(end)) == [
        DeliverResponses([wire.Accepted(job(1), known=True)]),
        DeliverResults([end]),
    ]
    (left,) = again(client)
    assert numbers(left.job_ids) == [2]


def test_what_is_given_up_before_its_answer_is_not_told() -> None:
    client = welcomed()
    (run,) = sent(client.handle(Requested([submit(1), submit(2)])))
    client.handle(Abandoned(job(1)))
    out = client.handle(Received(RunAccepted(run.request_id, 2)))
    assert out == [DeliverResponses([wire.Accepted(job(2))])]


def test_a_cancellation_keeps_its_place_behind_the_jobs_of_its_turn() -> None:
    cancel = wire.Cancel(job(9), (job(1),))
    out = welcomed().handle(Requested([submit(1), cancel, submit(2)]))
    kinds = [type(one.message) for one in out if isinstance(one, SendToLeader)]
    assert kinds == [SubmitRun, wire.Cancel, SubmitRun]


def test_results_of_a_run_are_delivered_once_and_confirmed_together() -> None:
    client = welcomed()
    ids = job(1) + job(2)
    blobs = ((), (BlobRef(b"d" * 32, 9),))
    run = ResultRun(
        ids, (b"r", b"s"), "done", 0, "exec", attempt=1, worker="w", run_ms=(3, 4), blobs=blobs
    )
    one, two = results_of(run)
    assert one == wire.Result(
        job(1), "done", 0, b"r", "exec", run_ms=3, attempt=1, job_key="", worker="w"
    )
    assert (two.result, two.run_ms, two.blobs) == (b"s", 4, blobs[1])
    assert client.handle(Received(run)) == [DeliverResults([one, two])]
    confirm = SendToLeader(wire.Confirm((job(1), job(2))))
    assert client.handle(ResultsTaken([job(1), job(2)])) == [confirm]
    assert client.handle(Received(run)) == [confirm]


def test_the_keys_of_a_run_of_results_are_those_of_its_jobs() -> None:
    run = ResultRun(job(1) + job(2), (b"", b""), "dead", keys="one\0two")
    assert [(one.job_key, one.run_ms, one.blobs) for one in results_of(run)] == [
        ("one", 0, ()),
        ("two", 0, ()),
    ]
