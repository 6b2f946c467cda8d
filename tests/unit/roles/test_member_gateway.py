"""The gateway: what clients and workers may say to a leader, and what it answers."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from rollq.base.errors import ErrorCode
from rollq.base.hints import ExecHint
from rollq.base.jobs import AttemptRef, BulkItem, JobOptions, Status
from rollq.base.limits import (
    PATTERNS_PER_WORKER_MAX,
    PAYLOAD_BYTES_MAX,
)
from rollq.grid import commands
from rollq.grid.state import ASSIGNED, DELAYED, QUEUED
from rollq.history.schema import from_line
from rollq.raft.node import RaftNode
from rollq.raft.types import RaftHeartbeatResponse
from rollq.roles.member.leader import proposals
from rollq.wire import messages as wire
from tests.unit.roles.members import OURS, Group, job, submit, worker

CLIENT, WORKER, REQUEST = 1, 2, b"r" * 16


@pytest.fixture
def group() -> Group:
    """One member that leads, with a client."""
    made = Group()
    made.elect()
    made.client(CLIENT)
    return made


def error_of(told: list[Any]) -> wire.Error:
    (error,) = told
    assert isinstance(error, wire.Error)
    return error


# --- clients


def test_a_job_is_accepted_once_and_known_afterwards(group: Group) -> None:
    assert group.say(CLIENT, submit(1)) == [wire.Accepted(job(1))]
    assert group.say(CLIENT, submit(1)) == [wire.Accepted(job(1), known=True)]
    assert group.leader.state.jobs[job(1)].queue == "calc"


def test_a_job_belongs_to_the_client_of_its_session(group: Group) -> None:
    group.say(CLIENT, submit(1, client_id="eve"))
    assert group.leader.state.jobs[job(1)].client.client_id == "ann"


def test_a_bulk_is_accepted_as_one(group: Group) -> None:
    items = tuple(BulkItem(job(n), b"{}") for n in range(1, 4))
    told = group.say(CLIENT, wire.SubmitBulk(REQUEST, "ann", "calc", "calc", items))
    assert told == [wire.Accepted(REQUEST, 3)]
    assert len(group.leader.state.jobs) == 3


def test_an_array_is_accepted_as_one(group: Group) -> None:
    array_id = b"a" * 10 + bytes(6)
    told = group.say(CLIENT, wire.SubmitArray(array_id, "ann", "calc", "calc", b"{}", 1_000))
    assert told == [wire.Accepted(array_id)]
    assert not group.leader.state.jobs
    assert [one.task_count for one in group.leader.state.arrays.values()] == [1_000]


@pytest.mark.parametrize(
    ("message", "code"),
    [
        (submit(1, body=bytes(PAYLOAD_BYTES_MAX + 1)), ErrorCode.BAD_PAYLOAD),
        (submit(1, exec_name=""), ErrorCode.BAD_PAYLOAD),
        (submit(1, exec_name="x" * 257), ErrorCode.BAD_PAYLOAD),
        (submit(1, subject="a.>"), ErrorCode.BAD_SUBJECT),
        (submit(1, subject="q" * 257), ErrorCode.BAD_SUBJECT),
        (submit(1, options=JobOptions(priority=99)), ErrorCode.BAD_OPTIONS),
        (
            wire.SubmitBulk(
                job(1), "ann", "", "calc", (BulkItem(job(2), bytes(PAYLOAD_BYTES_MAX + 1)),)
            ),
            ErrorCode.BAD_PAYLOAD,
        ),
        (wire.SubmitArray(job(1), "ann", "", "calc", b"", 0), ErrorCode.BAD_OPTIONS),
        (wire.Admin(job(1), "dance"), ErrorCode.BAD_PAYLOAD),
    ],
)
def test_a_request_that_cannot_be_granted_is_refused_by_its_id(
    group: Group, message: Any, code: ErrorCode
) -> None:
    error = error_of(group.say(CLIENT, message))
    assert (error.request_id, error.code, error.retryable) == (job(1), code, False)
    assert not group.closed
    assert group.say(CLIENT, submit(9)) == [wire.Accepted(job(9))]


def test_a_job_is_cancelled_and_its_client_told(group: Group) -> None:
    group.say(CLIENT, submit(1))
    told = group.say(CLIENT, wire.Cancel(REQUEST, (job(1), job(2))))
    assert wire.Accepted(REQUEST, 1) in told
    (result,) = (message for message in told if isinstance(message, wire.Result))
    assert (result.job_id, result.outcome) == (job(1), "cancelled")


def test_more_than_fits_is_refused_for_now(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proposals, "PENDING_COMMANDS_MAX", 1)
    group.tell(CLIENT, submit(1), submit(2))
    group.settle()
    told = group.hear(CLIENT)
    error = next(message for message in told if isinstance(message, wire.Error))
    assert (error.request_id, error.code, error.retryable) == (job(2), ErrorCode.OVERLOADED, True)
    assert wire.Accepted(job(1)) in told
    assert group.say(CLIENT, submit(2)) == [wire.Accepted(job(2))]


# --- who may say what


@pytest.mark.parametrize(
    "message",
    [
        submit(1),
        wire.SubmitBulk(REQUEST, "ann", "", "calc", ()),
        wire.SubmitArray(job(1), "ann", "", "calc", b"", 1),
        wire.Cancel(REQUEST, ()),
        wire.Confirm(()),
        wire.Query(REQUEST, "counts"),
        wire.Admin(REQUEST, "pause"),
        wire.Credit(1),
        wire.AckJob(job(1)),
        wire.Nack(job(1), 1, 1),
        wire.Heartbeat(),
        wire.Goodbye(),
        wire.Ping(),
    ],
)
def test_whoever_said_no_hello_is_sent_away(group: Group, message: Any) -> None:
    error = error_of(group.say(7, message))
    assert error.code == ErrorCode.BAD_HANDSHAKE
    assert list(group.closed) == [7]
    assert group.say(CLIENT, submit(9)) == [wire.Accepted(job(9))]


def test_a_client_may_not_speak_as_a_worker_nor_the_reverse(group: Group) -> None:
    group.worker(WORKER)
    assert error_of(group.say(CLIENT, wire.Credit(1))).code == ErrorCode.BAD_HANDSHAKE
    assert error_of(group.say(WORKER, submit(1))).code == ErrorCode.BAD_HANDSHAKE
    assert sorted(group.closed) == [CLIENT, WORKER]


def test_a_second_hello_ends_the_session(group: Group) -> None:
    assert error_of(group.say(CLIENT, wire.HelloClient("ann"))).code == ErrorCode.BAD_HANDSHAKE
    group.worker(WORKER)
    again = wire.HelloWorker(worker(WORKER), ("",))
    assert error_of(group.say(WORKER, again)).code == ErrorCode.BAD_HANDSHAKE
    assert sorted(group.closed) == [CLIENT, WORKER]


def test_what_only_members_say_ends_the_session(group: Group) -> None:
    forged: Any = wire.Accepted(job(1))  # no link hands this out
    error = error_of(group.say(CLIENT, forged))
    assert error.code == ErrorCode.UNKNOWN_MESSAGE
    assert list(group.closed) == [CLIENT]


@pytest.mark.parametrize(
    "hello",
    [
        wire.HelloClient("c" * 257, features=("accepted",)),
        wire.HelloWorker(worker(3), ()),
        wire.HelloWorker(worker(3), ("a",) * (PATTERNS_PER_WORKER_MAX + 1)),
        wire.HelloWorker(worker(3), ("a b",)),
        wire.HelloWorker(worker(3), ("",), name="n" * 257),
        wire.HelloWorker(worker(3), ("",), slots=-1),
    ],
)
def test_a_hello_that_is_refused_ends_the_session(group: Group, hello: Any) -> None:
    error_of(group.say(3, hello))
    assert list(group.closed) == [3]
    assert group.leader.leader_state.sessions.numbers() == [CLIENT]


# --- workers


def test_an_attempt_that_cannot_be_run_waits_and_is_given_again(group: Group) -> None:
    group.say(CLIENT, submit(1))
    group.worker(WORKER, credit=1)
    told = group.say(WORKER, wire.Nack(job(1), 1, 1, "no such program"))
    assert told == [wire.AckTaken(job(1), 1)]
    record = group.leader.state.jobs[job(1)]
    assert record.state is DELAYED
    assert record.delay_ms > 0
    group.tell(WORKER, wire.Credit(1))
    group.run(400)
    assert [assign.attempt for assign in group.heard(WORKER, wire.AssignJob)] == [2]


def test_a_failed_attempt_is_retried_only_if_the_job_says_so(group: Group) -> None:
    group.say(CLIENT, submit(1, options=JobOptions(retry_exit_codes=(75,))), submit(2))
    group.worker(WORKER, credit=2)
    for number in (1, 2):
        fence = group.leader.state.jobs[job(number)].fence
        ack = wire.AckJob(
            job(number),
            1,
            fence,
            Status.FAILED,
            b"out",
            exit_code=75,
            fetched_bytes=8,
            held_bytes=9,
        )
        assert group.say(WORKER, ack) == [wire.AckTaken(job(number), 1)]
    assert group.leader.state.jobs[job(1)].state is DELAYED
    (result,) = group.heard(CLIENT, wire.Result)
    assert (result.job_id, result.status, result.exit_code) == (job(2), Status.FAILED, 75)
    rows = group.leader.replica.history.rows(1, group.leader.state.applied_index)
    assert rows is not None
    counted = [from_line(line) for line in rows.lines if b"fetched" in line]
    assert [(row.type, row.fetchedBytes, row.heldBytes) for row in counted] == [
        ("retry_requeue", 8, 9),
        ("ack", 8, 9),
    ]


def test_a_stale_ack_is_taken_and_changes_nothing(group: Group) -> None:
    group.say(CLIENT, submit(1))
    group.worker(WORKER, credit=1)
    told = group.say(WORKER, wire.AckJob(job(1), 1, 99, result=b"wrong fence"))
    assert told == [wire.AckTaken(job(1), 1, stale=True)]
    assert group.leader.state.jobs[job(1)].state is ASSIGNED
    assert group.hear(CLIENT) == []


def test_heartbeats_keep_a_lease_and_silence_loses_it(group: Group) -> None:
    group.say(CLIENT, submit(1, options=JobOptions(lease_ms=1_000)))
    group.worker(WORKER, credit=1)
    ref = AttemptRef(job(1), 1, 1)
    for _ in range(5):
        group.run(30)
        group.say(WORKER, wire.Heartbeat((ref, AttemptRef(job(2), 1, 1))))
    assert group.leader.state.jobs[job(1)].state is ASSIGNED
    group.run(60)
    assert group.leader.state.jobs[job(1)].state is not ASSIGNED


def test_a_worker_that_says_goodbye_gives_its_attempts_back_at_once(group: Group) -> None:
    group.say(CLIENT, submit(1))
    group.worker(WORKER, credit=1)
    group.say(WORKER, wire.Goodbye("drained"))
    assert group.closed == {WORKER: "goodbye: drained"}
    assert group.leader.state.jobs[job(1)].state is DELAYED
    assert not group.leader.state.workers


def test_a_worker_that_vanishes_keeps_its_attempts_for_a_grace(group: Group) -> None:
    group.say(CLIENT, submit(1))
    group.worker(WORKER, credit=1)
    group.hang_up(WORKER)
    assert group.leader.state.jobs[job(1)].state is ASSIGNED
    group.run(410)
    assert group.leader.state.jobs[job(1)].state is not ASSIGNED
    assert not group.leader.state.workers


def test_a_worker_that_comes_back_in_time_keeps_its_attempts(group: Group) -> None:
    group.say(CLIENT, submit(1))
    group.worker(WORKER, credit=1)
    group.hang_up(WORKER)
    group.run(100)
    ref = AttemptRef(job(1), 1, 1)
    (welcome,) = group.worker(3, worker_id=worker(WORKER), holding=(ref,))
    assert welcome.owed == 0
    for _ in range(5):
        group.run(100)
        group.say(3, wire.Heartbeat((ref,)))
    assert group.leader.state.jobs[job(1)].state is ASSIGNED
    assert group.say(3, wire.AckJob(job(1), 1, 1, 0, b"done")) == [wire.AckTaken(job(1), 1)]
    assert [result.result for result in group.heard(CLIENT, wire.Result)] == [b"done"]


def test_an_attempt_that_is_not_the_workers_any_more_is_stopped(group: Group) -> None:
    told = group.worker(WORKER, holding=(AttemptRef(job(5), 2, 7),))
    assert told[1:] == [wire.StopJob(job(5), 2, 7)]


def test_a_running_job_that_is_cancelled_is_stopped_at_its_worker(group: Group) -> None:
    group.say(CLIENT, submit(1))
    group.worker(WORKER, credit=1)
    group.say(CLIENT, wire.Cancel(REQUEST, (job(1),)))
    assert group.hear(WORKER) == [wire.StopJob(job(1), 1, 1)]
    group.say(WORKER, wire.AckJob(job(1), 1, 1, Status.CANCELLED))
    assert [result.outcome for result in group.heard(CLIENT, wire.Result)] == ["cancelled"]


# --- one worker by name


def test_the_last_token_of_a_subject_addresses_a_worker_that_is_known(group: Group) -> None:
    group.worker(WORKER, name="Blue", credit=5)
    group.worker(3, name="red", credit=5)
    for number in range(1, 5):
        group.say(CLIENT, submit(number, subject="job.assign.calc.BLUE"))
    assert [one.job_id for one in group.heard(WORKER, wire.AssignJob)] == [
        job(number) for number in range(1, 5)
    ]
    assert group.hear(3) == []
    record = group.leader.state.jobs[job(1)]
    assert (record.queue, record.options.worker_name) == ("calc", "blue")


def test_a_worker_may_be_named_in_the_options_too(group: Group) -> None:
    group.worker(WORKER, name="Blue", credit=1)
    group.say(CLIENT, submit(1, options=JobOptions(worker_name="bLUE")))
    assert [one.job_id for one in group.heard(WORKER, wire.AssignJob)] == [job(1)]


def test_a_last_token_that_names_nobody_is_part_of_the_queue(group: Group) -> None:
    group.worker(WORKER, name="blue")
    group.say(CLIENT, submit(1, subject="calc.green"), submit(2, subject="blue"))
    jobs = group.leader.state.jobs
    assert [jobs[job(number)].queue for number in (1, 2)] == ["calc.green", "blue"]


def test_a_job_for_one_worker_waits_while_that_worker_is_away(group: Group) -> None:
    group.worker(WORKER, name="blue")
    group.hang_up(WORKER)
    group.say(CLIENT, submit(1, subject="calc.blue"))
    group.worker(3, name="red", credit=1)
    assert group.leader.state.jobs[job(1)].state is QUEUED
    told = group.worker(4, worker_id=worker(WORKER), name="blue", credit=1)
    assert [one.job_id for one in told if isinstance(one, wire.AssignJob)] == [job(1)]


def test_a_name_is_free_when_its_worker_is_gone_for_good(group: Group) -> None:
    group.worker(WORKER, name="blue")
    group.say(WORKER, wire.Goodbye())
    group.say(CLIENT, submit(1, subject="calc.blue"))
    assert group.leader.state.jobs[job(1)].queue == "calc.blue"


# --- sessions that end as they begin


@pytest.mark.parametrize("features", [(), ("lease", "compact")])
def test_a_worker_that_leaves_before_it_was_opened_leaves_nothing_behind(
    group: Group, features: tuple[str, ...]
) -> None:
    group.tell(WORKER, wire.HelloWorker(worker(WORKER), ("",), features=features))
    group.hang_up(WORKER)
    group.run(500)
    assert not group.leader.state.workers


def test_a_known_worker_may_come_and_go_within_one_turn(group: Group) -> None:
    group.worker(WORKER, features=())
    group.tell(3, wire.HelloWorker(worker(WORKER), ("",)))
    group.hang_up(3)
    assert not group.leader.state.workers
    assert group.say(CLIENT, submit(1)) == [wire.Accepted(job(1))]


def test_a_worker_that_dials_twice_keeps_its_newer_session(group: Group) -> None:
    group.say(CLIENT, submit(1))
    group.worker(WORKER, credit=1)
    told = group.worker(3, worker_id=worker(WORKER))
    assert group.closed == {WORKER: "the worker opened another session"}
    assert told[0].owed == len([one for one in told if isinstance(one, wire.AssignJob)]) == 1
    group.hang_up(WORKER)
    group.run(500)
    assert list(group.leader.state.workers) == [worker(WORKER)]


def test_hints_are_set_and_told_to_workers(group: Group) -> None:
    hints = (ExecHint("calc", 10, 20, 30_000),)
    ask = wire.Admin(REQUEST, "set_hints", msgspec.msgpack.encode({"hints": hints}))
    assert group.say(CLIENT, ask) == [wire.Accepted(REQUEST, 1)]
    group.worker(WORKER)
    group.say(WORKER, wire.Credit(1))
    group.say(CLIENT, submit(1))
    (assigned,) = group.heard(WORKER, wire.AssignJob)
    assert (assigned.expect_ms, assigned.lease_ms) == (20, 90_000)


def test_a_worker_is_given_only_what_it_announced(group: Group) -> None:
    group.worker(WORKER, features=(*OURS, "programs"))
    group.say(WORKER, wire.Announce(("other",)))
    group.say(WORKER, wire.Credit(1))
    group.say(CLIENT, submit(1))
    assert not group.leader.state.jobs[job(1)].attempt
    group.say(WORKER, wire.Announce(("calc",), ("other",)))
    assert group.leader.state.jobs[job(1)].attempt == 1


# --- handlers that fail


def test_a_handler_that_fails_ends_its_session_and_nothing_else(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    group.client(3)
    monkeypatch.setattr(commands, "CancelJobs", fail)
    error = error_of(group.say(3, wire.Cancel(REQUEST, (job(1),))))
    assert (error.request_id, error.code, error.retryable) == (REQUEST, ErrorCode.BUG, False)
    assert "ZeroDivisionError" in group.closed[3]
    assert [type(mishap.error) for mishap in group.mishaps] == [ZeroDivisionError]
    assert group.say(CLIENT, submit(1)) == [wire.Accepted(job(1))]


def test_a_member_whose_message_cannot_be_handled_is_cut_off(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    group = Group("a", "b", "c")
    group.elect()

    def fail(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    leader, address = group.leader, group.follower()
    sender = group.members[address].raft.member_id
    with monkeypatch.context() as patched:
        patched.setattr(RaftNode, "step", fail)
        told = RaftHeartbeatResponse(leader.raft.member_id, sender, leader.raft.term)
        assert "ZeroDivisionError" in leader.peer_message(address, told, is_proven=True)
    group.settle()
    assert [type(mishap.error) for mishap in group.mishaps] == [ZeroDivisionError]
    assert group.leader is leader
