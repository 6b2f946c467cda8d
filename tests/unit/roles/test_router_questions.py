"""What a router answers to questions, orders and cancellations."""

from __future__ import annotations

import msgspec
import pytest

from rollq.base.access import ResourceKind
from rollq.base.counters import Family, Sample
from rollq.base.errors import ErrorCode
from rollq.roles.client.several_groups.routes import GroupRoute
from rollq.roles.member.queries import VIEWS
from rollq.roles.router.merging import GROUP_SHIFT_BITS, MERGED, ONE_JOB, decode, encode
from rollq.wire import messages as wire
from rollq.wire.output_messages import JOB_ENDED, OutputChunk, WatchOutput
from rollq.wire.staging_messages import CommitBatch, StageJobs
from tests.unit.roles.router_kit import J, K, Kit, L, R, submit


def test_a_question_about_a_job_goes_to_its_group_and_one_about_others_to_all() -> None:
    kit = Kit()
    kit.says(submit(J))
    kit.group(0, wire.Accepted(J))
    kit.sent(0)
    query = wire.Query(R, "job", J)
    kit.says(query)
    assert kit.sent(0) == [query]
    assert kit.sent(1) == []
    answer = wire.Answer(R, 7, encode({"job_id": J}))
    assert kit.group(0, answer) == [answer]
    kit.says(wire.Query(R, "job", K))
    assert kit.group(0, wire.Answer(R, 7, encode(None))) == []
    assert kit.group(1, answer) == [answer]


def test_views_of_all_groups_are_put_together() -> None:
    kit = Kit()
    kit.says(wire.Query(R, "queues", b"", 2))
    kit.group(1, wire.Answer(R, 5, encode([{"name": "b", "queued": 1, "paused": True}])))
    rows = [
        {"name": "a", "queued": 1, "paused": False},
        {"name": "b", "queued": 2, "paused": False},
    ]
    (answer,) = kit.group(0, wire.Answer(R, 4, encode(rows)))
    assert decode(answer.value) == [
        {"name": "a", "queued": 1, "paused": False},
        {"name": "b", "queued": 3, "paused": True},
    ]


def test_pages_of_jobs_are_read_group_by_group() -> None:
    kit = Kit()
    kit.says(wire.Query(R, "jobs", b""))
    assert len(kit.sent(0)) == 1
    (page,) = kit.group(0, wire.Answer(R, 4, encode({"jobs": [1], "after": 9})))
    assert decode(page.value) == {"jobs": [1], "after": 9}
    kit.says(wire.Query(R, "jobs", encode(["", "", "", "", 9])))
    (page,) = kit.group(0, wire.Answer(R, 4, encode({"jobs": [2], "after": 0})))
    assert decode(page.value) == {"jobs": [2], "after": 1 << GROUP_SHIFT_BITS}
    kit.sent(0)
    kit.says(wire.Query(R, "jobs", encode(["", "", "", "", 1 << GROUP_SHIFT_BITS])))
    assert kit.sent(0) == []
    assert decode(kit.sent(1)[0].key)[4] == 0
    (page,) = kit.group(1, wire.Answer(R, 4, encode({"jobs": [3], "after": 0})))
    assert decode(page.value) == {"jobs": [3], "after": 0}
    (refusal,) = kit.says(wire.Query(R, "jobs", b"\xc1"))
    assert refusal.code == ErrorCode.BAD_PAYLOAD


def test_dead_jobs_are_read_until_no_group_has_more() -> None:
    kit = Kit()
    kit.says(wire.Query(R, "dead", bytes(8)))
    (page,) = kit.group(0, wire.Answer(R, 4, encode({"jobs": [1], "after": 7})))
    assert decode(page.value) == {"jobs": [1], "after": 7}
    kit.sent(0)
    kit.says(wire.Query(R, "dead", (7).to_bytes(8, "big")))
    assert kit.group(0, wire.Answer(R, 4, encode({"jobs": [], "after": 7}))) == []
    assert kit.sent(1) == [wire.Query(R, "dead", bytes(8))]
    (page,) = kit.group(1, wire.Answer(R, 4, encode({"jobs": [2], "after": 3})))
    assert decode(page.value) == {"jobs": [2], "after": (1 << GROUP_SHIFT_BITS) + 3}
    kit.says(wire.Query(R, "dead", ((1 << GROUP_SHIFT_BITS) + 3).to_bytes(8, "big")))
    (page,) = kit.group(1, wire.Answer(R, 4, encode({"jobs": [], "after": 3})))
    assert decode(page.value)["jobs"] == []


def test_figures_of_all_groups_are_added_up() -> None:
    kit = Kit()
    kit.says(wire.Query(R, "metrics"))
    one = [Family("jobs", "counter", ("queue",), [Sample(("a",), 1), Sample(("b",), 2)])]
    times = Family("times", "histogram", (), [Sample((), 5, (1, 2))], (0.1,))
    kit.group(0, wire.Answer(R, 1, encode([*one, times])))
    other = [Family("jobs", "counter", ("queue",), [Sample(("b",), 3)])]
    (answer,) = kit.group(1, wire.Answer(R, 1, encode([*other, times])))
    assert msgspec.msgpack.decode(answer.value, type=list[Family]) == [
        Family("jobs", "counter", ("queue",), [Sample(("a",), 1), Sample(("b",), 5)]),
        Family("times", "histogram", (), [Sample((), 10, (2, 4))], (0.1,)),
    ]


def test_what_is_of_one_group_is_refused_with_what_to_do() -> None:
    kit = Kit()
    for message in (wire.Query(R, "settings"), wire.Admin(R, "pause", encode({"queue": "a"}))):
        (refusal,) = kit.says(message)
        assert "one group" in refusal.message
        assert refusal.hint.endswith("a, b")
    alone = Kit(1)
    alone.says(wire.Query(R, "settings"))
    assert alone.sent(0) == [wire.Query(R, "settings")]


def test_orders_about_jobs_go_to_their_groups() -> None:
    kit = Kit()
    kit.owners.add((J,), 0)
    kit.owners.add((K,), 1)
    kit.says(wire.Admin(R, "purge", encode({"job_ids": [J, K, L]})))
    assert decode(kit.sent(0)[0].arguments) == {"job_ids": [J, L]}
    assert decode(kit.sent(1)[0].arguments) == {"job_ids": [K, L]}
    assert kit.group(0, wire.Accepted(R, 1)) == []
    assert kit.group(1, wire.Accepted(R, 2)) == [wire.Accepted(R, 3)]
    kit.says(wire.Admin(R, "purge", encode({"job_ids": [J]})))
    kit.machine.group_down(0, 0)
    (unknown,) = kit.told()
    assert (unknown.code, unknown.retryable) == (int(ErrorCode.OUTCOME_UNKNOWN), False)
    (refusal,) = kit.says(wire.Admin(R, "purge", b"\xc1"))
    assert refusal.code == ErrorCode.BAD_PAYLOAD


def test_an_order_that_may_have_been_lost_in_one_group_is_not_called_done() -> None:
    kit = Kit()
    kit.owners.add((J,), 0)
    kit.owners.add((K,), 1)
    kit.says(wire.Admin(R, "purge", encode({"job_ids": [J, K]})))
    kit.group(0, wire.Accepted(R, 1))
    kit.machine.group_down(1, 0)
    (unknown,) = kit.told()
    assert (unknown.code, unknown.retryable) == (int(ErrorCode.OUTCOME_UNKNOWN), False)


@pytest.mark.parametrize("refusing", [0, 1])
def test_a_cache_that_one_group_refuses_is_not_called_done(refusing: int) -> None:
    kit = Kit()
    kit.says(wire.Admin(R, "put_cache", encode({"cache_id": "c"})))
    kit.group(1 - refusing, wire.Accepted(R, 1))
    (refusal,) = kit.group(refusing, wire.Error(R, int(ErrorCode.GRID_FULL), "no room", "wait"))
    told = (refusal.code, refusal.message, refusal.hint)
    assert told == (int(ErrorCode.GRID_FULL), f"group {'ab'[refusing]}: no room", "wait")


@pytest.mark.parametrize("verb", ["put_cache", "remove_cache"])
def test_a_cache_is_not_changed_while_a_group_is_away(verb: str) -> None:
    kit = Kit()
    kit.machine.group_down(1, 0)
    (refusal,) = kit.says(wire.Admin(R, verb, encode({"cache_id": "c"})))
    assert (refusal.code, refusal.message, refusal.retryable) == (
        int(ErrorCode.NOT_READY),
        "group b cannot be reached",
        True,
    )
    assert kit.sent(0) == []


def test_a_cache_that_one_group_never_had_is_removed() -> None:
    kit = Kit()
    kit.says(wire.Admin(R, "remove_cache", encode({"cache_id": "c"})))
    kit.group(0, wire.Error(R, int(ErrorCode.UNKNOWN_CACHE), "no cache 'c'"))
    assert kit.group(1, wire.Accepted(R, 1)) == [wire.Accepted(R, 1)]


def test_a_cancellation_is_added_up_and_what_nobody_can_be_asked_about_is_over() -> None:
    kit = Kit()
    kit.says(submit(J), submit(K), submit(L))
    kit.group(0, wire.Accepted(J), wire.Accepted(L))
    kit.group(1, wire.Accepted(K))
    kit.sent(0), kit.sent(1)
    kit.machine.group_down(1, 0)
    told = kit.says(wire.Cancel(R, (J, K)))
    assert told == [wire.Result(K, "cancelled")]
    assert kit.sent(0) == [wire.Cancel(R, (J,))]
    assert kit.group(0, wire.Accepted(R, 1)) == [wire.Accepted(R, 2)]
    kit.machine.group_up(1)
    (cancel,) = kit.sent(1)
    assert cancel.job_ids == (K,)


def test_a_job_of_a_group_that_was_removed_is_cancelled_wherever_it_may_be() -> None:
    kit = Kit()
    kit.says(submit(J))
    kit.group(0, wire.Accepted(J), wire.Result(J, "done"))
    kit.table.remove(0)
    kit.machine.group_removed(0)
    kit.sent(1)
    cancel = wire.Cancel(R, (J,))
    kit.says(cancel)
    assert kit.sent(1) == [cancel]
    assert kit.group(1, wire.Accepted(R, 0)) == [wire.Accepted(R, 0)]


@pytest.mark.parametrize("is_placed", [True, False])
def test_an_array_of_a_group_that_is_away_is_not_called_over(is_placed: bool) -> None:
    """Only its group can cancel it, and would run on with it."""
    kit = Kit(2, GroupRoute("calc", (("b", 1),)), up=False)
    kit.machine.group_up(0)
    if is_placed:
        kit.machine.group_up(1)
    kit.says(wire.SubmitArray(J, "ann", "calc", "calc", b"{}", 3))
    if is_placed:
        kit.group(1, wire.Accepted(J, 3))
        kit.machine.group_down(1, 0)
    (error,) = kit.says(wire.Cancel(R, (J,)))
    assert (error.message, error.retryable) == ("group b cannot be reached", True)
    assert kit.sent(0) == []


def test_a_job_of_an_earlier_session_is_not_called_over_while_its_group_is_away() -> None:
    kit = Kit()
    kit.owners.add((J,), 1)
    kit.machine.group_down(1, 0)
    (error,) = kit.says(wire.Cancel(R, (J,)))
    assert (error.code, error.retryable) == (ErrorCode.NOT_READY, True)
    kit.machine.group_up(1)
    kit.says(wire.Cancel(R, (J,)))
    assert kit.sent(1) == [wire.Cancel(R, (J,))]


def test_a_job_that_a_group_may_have_that_is_away_is_not_called_over() -> None:
    kit = Kit()
    kit.machine.group_down(1, 0)
    kit.says(wire.Cancel(R, (J,)))
    (error,) = kit.group(0, wire.Accepted(R, 0))
    assert error.message == "group b cannot be reached"
    kit.says(wire.Cancel(R, (J,)))
    assert kit.group(0, wire.Accepted(R, 1)) == [wire.Accepted(R, 1)]


def test_a_list_ends_with_the_last_group_that_can_be_reached() -> None:
    kit = Kit()
    kit.machine.group_down(1, 0)
    kit.says(wire.Query(R, "jobs", b""))
    (page,) = kit.group(0, wire.Answer(R, 4, encode({"jobs": [1], "after": 0})))
    assert decode(page.value) == {"jobs": [1], "after": 0}


def test_arguments_that_are_too_deep_are_refused() -> None:
    (error,) = Kit().says(wire.Admin(R, "purge", b"\x91" * 100_000 + b"\xc0"))
    assert error.code == ErrorCode.BAD_PAYLOAD


def test_a_question_is_answered_by_those_that_are_left() -> None:
    kit = Kit()
    kit.says(wire.Query(R, "counts"))
    kit.group(0, wire.Answer(R, 1, encode({"queued": 2})))
    kit.machine.group_down(1, 0)
    (answer,) = kit.told()
    assert decode(answer.value) == {"queued": 2}
    kit.machine.group_down(0, 0)
    (refusal,) = kit.says(wire.Query(R, "counts"))
    assert refusal.retryable
    assert refusal.message == "no group can be reached"


def test_a_batch_belongs_to_one_group_whoever_asks() -> None:
    found = set()
    for _ in range(2):
        kit = Kit(4)
        stage, commit = StageJobs(R, "batch", "p", 0, ()), CommitBatch(L, "batch", ())
        kit.says(stage, commit)
        (number,) = kit.machine.to_groups
        assert kit.sent(number) == [stage, commit]
        assert kit.group(number, wire.Accepted(R)) == [wire.Accepted(R)]
        found.add(number)
    assert len(found) == 1


def test_output_is_shown_from_the_group_that_has_the_job() -> None:
    kit = Kit()
    watch = WatchOutput(R, J)
    kit.says(watch)
    assert kit.sent(0) == kit.sent(1) == [watch]
    assert kit.group(0, wire.Error(R, int(ErrorCode.UNKNOWN_JOB), "no such job")) == []
    chunk = OutputChunk(R, 1, data=b"x")
    assert kit.group(1, chunk) == [chunk]
    kit.machine.group_down(1, 0)
    kit.machine.group_up(1)
    assert kit.sent(1) == [watch]
    end = OutputChunk(R, 1, end=JOB_ENDED)
    assert kit.group(1, end, chunk) == [end]
    assert not kit.machine.is_busy


def test_a_watch_ends_with_the_last_group_that_may_have_the_job() -> None:
    kit = Kit()
    kit.says(WatchOutput(R, J))
    for number, ends in ((0, False), (1, True)):
        kit.table.remove(number)
        kit.machine.group_removed(number)
        assert [one.code for one in kit.told()] == [ErrorCode.NOT_READY] * ends
    assert not kit.machine.is_busy


def test_every_view_of_one_job_is_asked_of_the_group_that_has_it() -> None:
    resources = {name: view.resource for name, view in VIEWS.items()}
    of_one_job = {
        name for name, one in resources.items() if one.kind is ResourceKind.JOB and one.field
    }
    assert of_one_job == ONE_JOB
    assert MERGED.keys() >= ONE_JOB


def test_a_group_that_is_away_is_an_alarm_and_not_left_out_in_silence() -> None:
    kit = Kit()
    kit.machine.group_down(1, 0)
    kit.says(wire.Query(R, "cluster"))
    member = {"address": "127.0.0.1:5000"}
    view = {"leader": "127.0.0.1:5000", "term": 1, "commit": 7, "applied": 7, "last_index": 7}
    (answer,) = kit.group(0, wire.Answer(R, 7, encode({**view, "members": [member]})))
    told = decode(answer.value)
    assert [one["address"] for one in told["members"]] == ["a/127.0.0.1:5000"]
    (alarm,) = told["alarms"]
    assert alarm["code"] == ErrorCode.UNREACHABLE
    assert alarm["text"].startswith("group b cannot be reached")


def test_a_job_that_a_group_may_have_that_is_away_is_not_called_unknown() -> None:
    kit = Kit()
    kit.machine.group_down(1, 0)
    for what, nothing in (("job", None), ("explanation", None), ("explain", "no such job")):
        kit.says(wire.Query(R, what, J))
        (error,) = kit.group(0, wire.Answer(R, 7, encode(nothing)))
        assert isinstance(error, wire.Error)
        assert error.retryable
        assert error.message == "group b cannot be reached"
    kit.says(wire.Query(R, "job", J))
    found = wire.Answer(R, 7, encode({"job_id": J}))
    assert kit.group(0, found) == [found]
    kit.machine.group_up(1)
    kit.says(wire.Query(R, "job", K))
    unknown = wire.Answer(R, 7, encode(None))
    kit.group(0, unknown)
    assert kit.group(1, unknown) == [unknown]
