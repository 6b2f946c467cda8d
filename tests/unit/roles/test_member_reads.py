"""Queries by read-index: never answered by a leader that may have been deposed."""

from __future__ import annotations

import msgspec
import pytest

from rollq.base.errors import ErrorCode
from rollq.raft.types import AppendEntries, RaftHeartbeat, RaftHeartbeatResponse
from rollq.roles.member.leader import reads
from rollq.wire import messages as wire
from tests.unit.roles.members import Group, job, submit, worker

CLIENT = 1


def query(number: int = 1, what: str = "counts", key: bytes = b"") -> wire.Query:
    return wire.Query(job(number), what, key)


@pytest.fixture
def group() -> Group:
    made = Group("a", "b", "c")
    made.elect()
    made.client(CLIENT)
    made.say(CLIENT, submit(1))
    return made


def test_a_query_sees_everything_that_was_accepted_before_it(group: Group) -> None:
    group.tell(CLIENT, submit(2), query())
    group.settle()
    (answer,) = group.heard(CLIENT, wire.Answer)
    again = group.say(CLIENT, query())[-1]
    assert msgspec.msgpack.decode(again.value)["queued"] == 2
    assert answer.index <= again.index == group.leader.state.applied_index


def test_a_leader_that_hears_nobody_answers_nothing(group: Group) -> None:
    old = group.address_of(group.leader)
    group.isolated[old] = None
    assert group.say(CLIENT, query()) == []
    group.until(lambda: group.address_of(group.leader) != old)
    assert group.heard(CLIENT, wire.Answer) == []
    group.isolated.clear()
    group.run(10)
    assert [type(one) for one in group.hear(CLIENT)] == [wire.NotLeader]
    group.run(10)
    assert group.hear(CLIENT) == []


def test_an_answer_waits_for_a_round_of_heartbeats(group: Group) -> None:
    group.lost = (RaftHeartbeatResponse,)
    assert group.say(CLIENT, query()) == []
    group.lost = ()
    group.run(10)
    assert [type(one) for one in group.hear(CLIENT)] == [wire.Answer]


def test_answers_go_to_whoever_asked(group: Group) -> None:
    group.client(2, "bob")
    group.tell(CLIENT, query(1))
    group.tell(2, query(2))
    group.settle()
    assert [one.request_id for one in group.heard(CLIENT, wire.Answer)] == [job(1)]
    assert [one.request_id for one in group.heard(2, wire.Answer)] == [job(2)]


def test_a_session_that_is_gone_harms_no_other(group: Group) -> None:
    group.client(2, "bob")
    group.tell(2, query(2))
    group.tell(CLIENT, query(1))
    group.hang_up(2)
    assert [one.request_id for one in group.heard(CLIENT, wire.Answer)] == [job(1)]


def test_too_many_at_once_are_asked_to_come_again(
    group: Group, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reads, "PENDING_READS_MAX", 2)
    group.lost = (RaftHeartbeat, AppendEntries)
    (error,) = group.say(CLIENT, query(1), query(2), query(3))
    assert (error.request_id, error.code, error.retryable) == (job(3), ErrorCode.OVERLOADED, True)
    group.lost = ()
    group.run(10)
    assert [type(one) for one in group.hear(CLIENT)] == [wire.Answer, wire.Answer]


@pytest.mark.parametrize(
    ("what", "key"),
    [
        ("job", job(1)),
        ("array", job(7)),
        ("queue", b"calc"),
        ("queues", b""),
        ("client", b"ann"),
        ("worker", job(9)),
        ("dead", b""),
        ("explain", job(1)),
        ("settings", b""),
    ],
)
def test_every_view_can_be_asked_for(group: Group, what: str, key: bytes) -> None:
    (answer,) = group.say(CLIENT, query(1, what, key))
    assert isinstance(answer, wire.Answer)
    msgspec.msgpack.decode(answer.value)


def test_a_worker_above_its_cpu_cap_is_shown_as_such(group: Group) -> None:
    def shown(what: str, key: bytes) -> list[bool]:
        value = msgspec.msgpack.decode(group.say(CLIENT, query(1, what, key))[-1].value)
        return [one["is_capped"] for one in (value if isinstance(value, list) else [value])]

    group.worker(7)
    group.worker(8)
    assert shown("workers", b"") == [False, False]
    group.say(8, wire.Heartbeat((), is_capped=True))
    assert shown("workers", b"") == [False, True]
    assert shown("worker", worker(8)) == [True]
    group.say(8, wire.Heartbeat(()))
    assert shown("workers", b"") == [False, False]


def test_a_worker_is_shown_with_the_layers_that_its_jobs_run_in(group: Group) -> None:
    group.worker(7)
    group.worker(8)
    group.say(8, wire.Announce(("calc",), layers=("rlimits", "landlock")))
    value = msgspec.msgpack.decode(group.say(CLIENT, query(1, "workers", b""))[-1].value)
    assert [one["layers"] for one in value] == [[], ["rlimits", "landlock"]]
    group.say(8, wire.Announce(("more",), layers=("rlimits",)))
    value = msgspec.msgpack.decode(group.say(CLIENT, query(2, "worker", worker(8)))[-1].value)
    assert value["layers"] == ["rlimits"]
