"""Puts that carry their files: from a client to the workers that are meant, and answers back."""

from __future__ import annotations

import json

import pytest

from rollq.base.limits import CACHE_ACK_MS_MAX
from rollq.roles.member.leader import cache_relay
from rollq.wire import messages as wire
from tests.unit.roles.members import OURS, Group

ANN, BOB, REQUEST = 1, 2, b"r" * 16


@pytest.fixture
def group() -> Group:
    """A leader with two legacy clients."""
    made = Group()
    made.elect()
    made.client(ANN, "ann", features=())
    made.client(BOB, "bob", features=())
    return made


def put(target: str | None = "job.assign.*", cache_id: str = "d1") -> wire.CachePut:
    entries = [{"Name": "a", "Content": "AQI="}]
    request = {"CacheId": cache_id, "Entries": entries, "TargetPattern": target}
    return wire.CachePut(REQUEST, json.dumps(request).encode())


def ack(request_id: bytes, status: str = "OK") -> wire.CacheAck:
    result = {"CacheId": "d1", "Status": status, "Message": "added=1"}
    return wire.CacheAck(request_id, json.dumps(result).encode())


def failures(group: Group, session: int) -> list[str]:
    found = []
    for message in group.heard(session, wire.CacheAck):
        assert message.request_id == REQUEST
        result = json.loads(message.payload)
        assert result["Status"] == "FAILED"
        found.append(result["Message"])
    return found


def test_a_put_reaches_those_who_are_meant_and_its_acks_the_asker_alone(group: Group) -> None:
    for session, pattern in ((10, "job.assign.calc"), (11, "job.assign.>"), (12, "job.assign.x.y")):
        group.worker(session, features=(), patterns=(pattern,))
    asked = put()
    assert group.say(ANN, asked) == []
    for session in (10, 11):
        (told,) = group.heard(session, wire.CachePut)
        assert told.payload == asked.payload
        answer = ack(told.request_id)
        group.say(session, answer)
        assert group.hear(ANN) == [wire.CacheAck(REQUEST, answer.payload)]
        group.say(session, answer)  # said twice, heard once
    assert group.hear(12) == group.hear(ANN) == group.hear(BOB) == []


def test_the_same_request_id_of_two_clients_is_no_matter(group: Group) -> None:
    group.worker(10, features=())
    group.say(ANN, put())
    group.say(BOB, put())
    first, second = group.heard(10, wire.CachePut)
    assert first.request_id != second.request_id
    group.say(10, ack(second.request_id, "SKIPPED"))
    assert group.hear(ANN) == []
    assert group.hear(BOB) == [wire.CacheAck(REQUEST, ack(b"", "SKIPPED").payload)]


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        (put("job.assign.nobody"), "no connected worker"),
        (put("x" * 9_000), "bad_subject"),
        (wire.CachePut(REQUEST, b"{}"), "CacheId"),
        (wire.CachePut(REQUEST, b"\xff"), "CachePut"),
    ],
)
def test_what_cannot_be_passed_on_is_answered(group: Group, asked: wire.CachePut, why: str) -> None:
    group.worker(10, features=(), patterns=("job.assign.calc",))
    group.tell(ANN, asked)
    group.settle()
    (message,) = failures(group, ANN)
    assert why in message
    assert ANN not in group.closed


def test_a_worker_that_just_came_gets_it_after_its_welcome(group: Group) -> None:
    group.tell(10, wire.HelloWorker(b"w" * 16, ("",), features=OURS))
    group.tell(ANN, put())
    group.settle()
    assert [type(message) for message in group.hear(10)] == [wire.Welcome, wire.CachePut]


def test_no_target_means_every_worker(group: Group) -> None:
    group.worker(10, features=(), patterns=("job.assign.x.y",))
    group.say(ANN, put(None))
    assert group.heard(10, wire.CachePut)


def test_a_worker_that_leaves_has_failed(group: Group) -> None:
    group.worker(10, features=(), name="w1")
    group.worker(11, features=())
    group.say(ANN, put())
    group.hang_up(10)
    (message,) = failures(group, ANN)
    assert "w1" in message
    (told,) = group.heard(11, wire.CachePut)
    group.say(11, ack(told.request_id))
    assert len(group.heard(ANN, wire.CacheAck)) == 1
    group.hang_up(11)
    assert group.hear(ANN) == []


def test_a_worker_that_says_nothing_fails_at_last(group: Group) -> None:
    group.worker(10, features=())
    group.say(ANN, put())
    group.clock.ms += CACHE_ACK_MS_MAX
    group.run()
    assert len(failures(group, ANN)) == 1
    (told,) = group.heard(10, wire.CachePut)
    group.say(10, ack(told.request_id))  # too late, and no harm
    assert group.hear(ANN) == []
    assert 10 not in group.closed


def test_nothing_is_kept_for_a_client_that_left(group: Group) -> None:
    group.worker(10, features=())
    group.say(ANN, put())
    group.hang_up(ANN)
    (told,) = group.heard(10, wire.CachePut)
    group.say(10, ack(told.request_id))
    assert group.hear(ANN) == []


def test_puts_are_bounded(group: Group, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_relay, "CACHE_PUTS_MAX", 1)
    group.worker(10, features=())
    group.tell(ANN, put(), put())
    group.settle()
    assert len(failures(group, ANN)) == 1
    assert len(group.heard(10, wire.CachePut)) == 1


def test_a_worker_that_does_not_read_is_passed_over(group: Group) -> None:
    group.worker(10, features=())
    group.leader.leader_state.shell.has_room = lambda number: number != 10
    group.tell(ANN, put())
    group.settle()
    (message,) = failures(group, ANN)
    assert "read" in message
    assert group.heard(10, wire.CachePut) == []
