"""Queries by read-index: never answered by a leader that may have been deposed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from rollq.base.errors import ErrorCode, StateError
from rollq.base.needs import WorkerLoad
from rollq.grid.pages import IdFilter
from rollq.grid.views import RawWorkerView
from rollq.raft.types import AppendEntries, RaftHeartbeat, RaftHeartbeatResponse
from rollq.roles.member import queries
from rollq.roles.member.driver import Driver
from rollq.roles.member.leader import reads
from rollq.roles.member.queries import VIEWS
from rollq.roles.member.readers.handlers import FROM_FILES
from rollq.roles.member.status import UNKNOWN
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
        ("explanation", job(1)),
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


def test_a_worker_is_shown_with_its_load_and_what_it_has(group: Group) -> None:
    group.worker(7)
    offer = ("gpu",), (("cpu", 4_000),)
    hello = wire.HelloWorker(worker(8), ("q",), "w8", labels=offer[0], resources=offer[1])
    group.say(8, hello)
    load = WorkerLoad(125, 2**30, 2**34, 4_096, 2**40)
    group.say(8, wire.Heartbeat((), False, load))
    group.say(8, wire.Heartbeat(()))  # one that does not tell changes nothing
    answer = group.say(CLIENT, query(1, "workers"))[-1]
    older, newer = msgspec.msgpack.decode(answer.value, type=list[RawWorkerView])
    assert (older.labels, older.resources, older.load) == ((), (), None)
    assert (newer.labels, newer.resources, newer.load) == (*offer, load)


def test_a_worker_is_shown_with_the_layers_that_its_jobs_run_in(group: Group) -> None:
    group.worker(7)
    group.worker(8)
    group.say(8, wire.Announce(("calc",), layers=("rlimits", "landlock")))
    value = msgspec.msgpack.decode(group.say(CLIENT, query(1, "workers", b""))[-1].value)
    assert [one["layers"] for one in value] == [[], ["rlimits", "landlock"]]
    group.say(8, wire.Announce(("more",), layers=("rlimits",)))
    value = msgspec.msgpack.decode(group.say(CLIENT, query(2, "worker", worker(8)))[-1].value)
    assert value["layers"] == ["rlimits"]


# --- by readers: at once, from any member


def follower_of(group: Group) -> Driver:
    return group.members[group.follower()]


def read(driver: Driver, what: str, key: bytes = b"") -> Any:
    asked = query(1, what, key)
    answer = queries.answer(driver.leader_state.reads.sources(asked, leads=driver.leading), asked)
    assert isinstance(answer, wire.Answer)
    assert answer.index == driver.state.applied_index
    return msgspec.msgpack.decode(answer.value)


def test_a_follower_answers_from_what_it_has_applied(group: Group) -> None:
    follower = follower_of(group)
    group.run(10)
    assert read(follower, "counts")["queued"] == 1
    assert read(follower, "job", job(1))["state"] == "queued"
    group.isolated[group.address_of(follower)] = None
    group.say(CLIENT, submit(2))
    assert read(group.leader, "counts")["queued"] == 2
    assert read(follower, "counts")["queued"] == 1  # and its index says how old that is


@pytest.mark.parametrize("what", [name for name, view in VIEWS.items() if view.of_leader])
def test_what_the_leader_alone_knows_is_asked_of_it(group: Group, what: str) -> None:
    group.run(10)
    key = job(1) if what == "explain" else b"x"
    read(group.leader, what, key)
    with pytest.raises(StateError) as raised:
        read(follower_of(group), what, key)
    assert raised.value.code is ErrorCode.NOT_LEADER
    assert raised.value.hint == f"ask {group.address_of(group.leader)}"


OF_STATE = [name for name, view in VIEWS.items() if not (view.of_leader or view.of_files)]


@pytest.mark.parametrize("what", OF_STATE)
def test_every_other_view_is_answered_by_a_follower(group: Group, what: str) -> None:
    group.run(10)
    view = VIEWS[what]
    filters = {
        "jobs": b"",
        "ids": msgspec.msgpack.encode(IdFilter("00")),
        "batch": msgspec.msgpack.encode(("ann", "b")),
        "batches": b"",
    }
    key = filters.get(what, job(1) if view.key.__name__ == "some_id" else b"\1")
    assert read(follower_of(group), what, key) == read(group.leader, what, key) or what in (
        "cluster",
        "metrics",
        "workers",
    )


def test_a_follower_knows_the_group_and_itself(group: Group) -> None:
    group.run(10)
    follower, leader = follower_of(group), group.leader
    own, told = read(follower, "cluster"), read(leader, "cluster")
    assert own["leader"] == told["leader"] == group.address_of(leader)
    assert [one["role"] for one in own["members"]] == [one["role"] for one in told["members"]]
    known = {one["address"]: one["state"] for one in own["members"]}
    assert known.pop(group.address_of(follower)) == "replicate"
    assert set(known.values()) == {UNKNOWN}
    assert UNKNOWN not in {one["state"] for one in told["members"]}


def test_only_the_leader_knows_who_is_connected(group: Group) -> None:
    group.worker(7)
    group.worker(8)
    group.hang_up(8)
    group.run(10)
    assert [one["connected"] for one in read(group.leader, "workers")] == [True, False]
    assert [one["connected"] for one in read(follower_of(group), "workers")] == [None, None]


def test_without_a_leader_members_still_tell_what_they_know(group: Group) -> None:
    group.run(10)
    others = [one for one in group.members if one != group.address_of(group.leader)]
    group.kill(group.address_of(group.leader))
    group.isolated[others[0]] = None
    group.run(200)
    survivor = group.members[others[0]]
    assert read(survivor, "counts")["queued"] == 1
    assert read(survivor, "cluster")["leader"] == ""
    with pytest.raises(StateError) as raised:
        read(survivor, "explain", job(1))
    assert raised.value.hint == "ask again when a leader is elected"


def test_what_is_made_of_files_is_asked_of_readers_threads(group: Group) -> None:
    for what in FROM_FILES:
        assert VIEWS[what].of_files
        (error,) = group.say(CLIENT, query(1, what, job(1)))
        assert (error.code, error.hint) == (
            ErrorCode.BAD_PAYLOAD,
            "use a reader: HelloReader",
        )
    assert list(FROM_FILES) == [name for name, view in VIEWS.items() if view.of_files]
