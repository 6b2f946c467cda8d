"""Bodies and results that are too large for the log, at a leader."""

from __future__ import annotations

import json
from typing import Any

import pytest

from rollq.base.errors import DiskError, ErrorCode, LocalError, RollqError, StateError
from rollq.base.ids import guid_to_text
from rollq.base.jobs import BulkItem, Status
from rollq.base.limits import INLINE_BYTES_MAX, KEEP_AGAIN_MS, KEEP_TRIES_MAX, PAYLOAD_BYTES_MAX
from rollq.wire import messages as wire
from tests.unit.roles.members import TICK_MS, Group, job, submit

CLIENT, WORKER, OTHER, REQUEST = 1, 2, 3, b"r" * 16
LARGE = b"x" * (INLINE_BYTES_MAX + 1)


@pytest.fixture
def group() -> Group:
    """One member that leads, with a client of ours and a legacy worker."""
    made = Group()
    made.elect()
    made.client(CLIENT)
    return made


def report(number: int, stdout: str = "", archive: str | None = None) -> bytes:
    """A JobResult as a legacy worker sends it."""
    told: dict[str, Any] = {
        "JobId": guid_to_text(job(number)),
        "ClientId": "ann",
        "ExecName": "calc",
        "Status": "OK",
        "Stdout": stdout,
        "Stderr": "",
        "OutputArchive": archive,
        "Extra": "of theirs",
    }
    return json.dumps(told).encode()


# --- bodies


def test_a_large_body_reaches_the_worker_as_it_came(group: Group) -> None:
    group.worker(WORKER, features=())
    assert group.say(CLIENT, submit(1, body=LARGE)) == [wire.Accepted(job(1))]
    record = group.leader.state.jobs[job(1)]
    assert record.past is not None
    assert [blob.size for blob in record.past.blobs] == [len(LARGE)]
    assert len(group.leader.state.blobs) == 1
    (message,) = group.say(WORKER, wire.Credit(1))
    assert (message.body, message.blobs) == (LARGE, ())


def test_nothing_is_proposed_before_a_majority_holds_the_body(group: Group) -> None:
    group.holds_asides = True
    assert group.say(CLIENT, submit(1, body=LARGE)) == []
    assert not group.leader.state.jobs
    group.do_asides()
    group.settle()
    assert group.hear(CLIENT) == [wire.Accepted(job(1))]


def test_a_client_that_hangs_up_has_submitted_all_the_same(group: Group) -> None:
    group.client(OTHER, "bob", features=())
    group.holds_asides = True
    group.tell(OTHER, submit(1, body=LARGE))
    group.settle()
    group.hang_up(OTHER)
    group.do_asides()
    group.settle()
    assert group.leader.state.jobs[job(1)].client.client_id == "bob"


def test_the_same_large_job_again_is_known_and_another_is_a_conflict(group: Group) -> None:
    group.say(CLIENT, submit(1, body=LARGE))
    assert group.say(CLIENT, submit(1, body=LARGE)) == [wire.Accepted(job(1), known=True)]
    (error,) = group.say(CLIENT, submit(1, body=LARGE + b"!"))
    assert error.code == ErrorCode.JOB_CONFLICT


def test_large_ones_of_a_bulk_and_the_body_of_an_array_take_the_same_road(group: Group) -> None:
    items = (BulkItem(job(1), b"{}"), BulkItem(job(2), LARGE), BulkItem(job(3), LARGE + b"3"))
    told = group.say(CLIENT, wire.SubmitBulk(REQUEST, "ann", "calc", "calc", items))
    assert told == [wire.Accepted(REQUEST, 3)]
    array_id = b"a" * 10 + bytes(6)
    told = group.say(CLIENT, wire.SubmitArray(array_id, "ann", "calc", "calc", LARGE + b"a", 2))
    assert told == [wire.Accepted(array_id)]
    told = group.worker(WORKER, credit=9)
    bodies = [message.body for message in told if isinstance(message, wire.AssignJob)]
    assert sorted(bodies) == sorted((b"{}", LARGE, LARGE + b"3", LARGE + b"a", LARGE + b"a"))


def test_a_body_that_no_frame_could_pass_on_is_refused_in_words(group: Group) -> None:
    huge = bytes(PAYLOAD_BYTES_MAX + 1)
    (error,) = group.say(CLIENT, submit(1, body=huge))
    assert (error.code, error.request_id) == (ErrorCode.BAD_PAYLOAD, job(1))
    group.client(OTHER, "bob", features=())
    (_, result) = group.say(OTHER, submit(2, body=huge))
    told = json.loads(result.result)
    assert (told["Status"], result.job_id) == ("FAILED", job(2))
    assert str(PAYLOAD_BYTES_MAX) in told["Stderr"]
    assert "refused" in group.warned[-1]


def test_whatever_is_refused_is_told_to_a_client_that_reads_no_errors(group: Group) -> None:
    group.client(OTHER, "bob", features=())
    group.say(OTHER, submit(1))
    (_, result) = group.say(OTHER, submit(1, body=b"another"))
    assert isinstance(result, wire.Result)
    assert (result.status, result.outcome) == (Status.FAILED, "done")
    assert json.loads(result.result)["Stderr"].startswith("rollq: ")


def test_a_body_that_cannot_be_kept_now_is_tried_again_and_then_refused(group: Group) -> None:
    group.keep_error = StateError(ErrorCode.NOT_READY, "no majority")
    assert group.say(CLIENT, submit(1, body=LARGE)) == []
    group.run(KEEP_AGAIN_MS // TICK_MS + 1)
    group.keep_error = None
    group.run(KEEP_AGAIN_MS // TICK_MS + 1)
    assert group.hear(CLIENT) == [wire.Accepted(job(1))]
    group.keep_error = StateError(ErrorCode.NOT_READY, "no majority")
    group.say(CLIENT, submit(2, body=LARGE))
    group.run(KEEP_TRIES_MAX * (KEEP_AGAIN_MS // TICK_MS + 1))
    (error,) = group.hear(CLIENT)
    assert (error.code, error.retryable) == (ErrorCode.NOT_READY, True)


# --- results


def run_one(group: Group, ack: bytes, features: tuple[str, ...] = ()) -> list[Any]:
    """A job that a legacy worker ends with this; what a legacy client is told."""
    group.client(OTHER, "bob", features=features)
    group.worker(WORKER, features=(), credit=1)
    group.say(OTHER, submit(1))
    group.say(WORKER, wire.AckJob(job(1), result=ack))
    group.settle()
    return group.heard(OTHER, wire.Result)


def test_a_large_result_reaches_a_legacy_client_as_it_came(group: Group) -> None:
    ack = report(1, archive="A" * 100_000)
    (result,) = run_one(group, ack)
    assert (result.result, result.blobs) == (ack, ())
    stand_in = json.loads(group.leader.state.jobs[job(1)].end.result)  # type: ignore[union-attr]
    assert (stand_in["Status"], stand_in["OutputArchive"]) == ("OK", None)
    assert "kept as a blob" in stand_in["Note"]


def test_a_large_result_reaches_a_client_of_ours_as_it_came(group: Group) -> None:
    ack = report(1, stdout="\x01" * 100_000)
    (result,) = run_one(group, ack, ("compact", "accepted"))
    assert (result.result, result.blobs) == (ack, ())


def test_a_large_result_that_is_no_report_reaches_the_client(group: Group) -> None:
    (result,) = run_one(group, LARGE)
    assert result.result == LARGE


def test_a_result_is_confirmed_only_when_it_was_sent(group: Group) -> None:
    ack = report(1, archive="A" * 100_000)
    group.client(OTHER, "bob", features=())
    group.worker(WORKER, features=(), credit=1)
    group.say(OTHER, submit(1))
    group.holds_asides = True
    group.say(WORKER, wire.AckJob(job(1), result=ack))
    group.do_asides()  # it is kept
    group.settle()  # and is about to be completed for the client
    group.hang_up(OTHER)
    group.holds_asides = False
    group.do_asides()
    (_, result) = group.say(4, wire.HelloClient("bob"))
    assert result.result == ack
    assert [type(one) for one in group.say(5, wire.HelloClient("bob"))] == [wire.Welcome]


def test_a_worker_that_hangs_up_after_its_ack_has_done_its_job(group: Group) -> None:
    group.client(OTHER, "bob", features=())
    group.worker(WORKER, features=(), credit=1)
    group.say(OTHER, submit(1))
    group.holds_asides = True
    ack = report(1, archive="A" * 100_000)
    group.say(WORKER, wire.AckJob(job(1), result=ack))
    group.hang_up(WORKER)
    group.holds_asides = False
    group.do_asides()
    group.settle()
    (result,) = group.heard(OTHER, wire.Result)
    assert (result.result, result.attempt) == (ack, 1)
    assert not group.leader.state.workers


@pytest.mark.parametrize(
    "error",
    [
        LocalError(ErrorCode.BUG, "it cannot be written"),
        DiskError(ErrorCode.DISK_CORRUPT, "the disk is broken"),
    ],
)
def test_a_result_that_cannot_be_kept_is_a_failure_that_says_so(
    group: Group, error: RollqError
) -> None:
    group.keep_error = error
    (result,) = run_one(group, report(1, archive="A" * 100_000))
    assert result.status == Status.FAILED
    assert error.message in json.loads(result.result)["Stderr"]


def test_a_result_that_no_frame_could_pass_on_is_a_failure_that_says_so(group: Group) -> None:
    (result,) = run_one(group, bytes(PAYLOAD_BYTES_MAX + 1))
    assert result.status == Status.FAILED
    assert str(PAYLOAD_BYTES_MAX) in json.loads(result.result)["Stderr"]
    assert group.warned


def test_a_slow_client_is_sent_one_large_result_at_a_time(group: Group) -> None:
    group.client(OTHER, "bob", features=())
    group.worker(WORKER, features=(), credit=3)
    for number in (1, 2, 3):
        group.say(OTHER, submit(number))
    group.leader.leader_state.shell.has_room = lambda number: number != OTHER
    for number in (1, 2, 3):
        ack = report(number, archive="A" * 100_000)
        group.say(WORKER, wire.AckJob(job(number), result=ack))
    group.run()
    assert not group.heard(OTHER, wire.Result)
    group.leader.leader_state.shell.has_room = lambda number: True
    group.run()
    assert [one.job_id for one in group.heard(OTHER, wire.Result)] == [job(1), job(2), job(3)]


# --- leaders come and go


def test_large_bodies_and_results_go_on_with_another_leader() -> None:
    group = Group("a", "b", "c")
    group.elect()
    group.client(OTHER, "bob", features=())
    group.say(OTHER, submit(1, body=LARGE))
    group.say(OTHER, submit(2, body=LARGE))
    group.run()
    (_, first) = group.worker(WORKER, features=(), credit=1)
    ack = report(1, archive="A" * 100_000)
    group.say(WORKER, wire.AckJob(first.job_id, result=ack))
    group.run()
    group.kill(group.address_of(group.leader))
    group.elect()
    group.client(4, "bob", features=())
    (_, second) = group.worker(5, features=(), credit=1)
    assert {first.job_id, second.job_id} == {job(1), job(2)}
    assert second.body == LARGE
    group.say(5, wire.AckJob(second.job_id, result=LARGE))
    group.run()
    assert {one.job_id: one.result for one in group.heard(4, wire.Result)} == {second.job_id: LARGE}


def test_what_was_being_kept_when_leadership_was_lost_is_not_told_to_the_next_term() -> None:
    group = Group("a", "b", "c")
    old = group.elect()
    group.client(CLIENT)
    group.holds_asides = True
    group.tell(CLIENT, submit(1, body=LARGE))
    group.settle()
    address = group.address_of(old)
    group.isolated[address] = None
    group.until(lambda: not old.leading)
    group.holds_asides = False
    group.do_asides()
    assert list(old.leader_state.proposals.batches()) == []
