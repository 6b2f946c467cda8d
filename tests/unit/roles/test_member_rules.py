"""What operators set about queues, limits and shares, from the request to the views."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest

from rollq.base.errors import ErrorCode, LocalError
from rollq.base.jobs import JobOptions
from rollq.documents.rules import limit_document
from rollq.grid.rule_views import LimitView, PolicyView, WeightView
from rollq.grid.state import QueuePolicy
from rollq.roles.client.calls.rules import RuleCalls
from rollq.wire import messages as wire
from tests.unit.roles.members import Group, submit

CLIENT, WORKER, REQUEST = 1, 2, b"r" * 16


def admin(action: str, **arguments: Any) -> wire.Admin:
    return wire.Admin(REQUEST, action, msgspec.msgpack.encode(arguments))


@pytest.fixture
def group() -> Group:
    made = Group()
    made.elect()
    made.client(CLIENT)
    return made


def rows(group: Group, what: str, kind: type, after: str = "", limit: int = 10) -> list[Any]:
    answer = group.say(CLIENT, wire.Query(REQUEST, what, after.encode(), limit))[-1]
    found: list[Any] = msgspec.msgpack.decode(answer.value, type=list[kind])  # type: ignore[valid-type]
    return found


def test_a_policy_is_of_queues_as_they_are_named(group: Group) -> None:
    weights = [["running", 2]]
    put = admin("put_policy", pattern="job.assign.Render.*", placement="score", weights=weights)
    assert group.say(CLIENT, put) == [wire.Accepted(REQUEST)]
    assert group.leader.state.policies == {
        "render.*": QueuePolicy("render.*", "score", (("running", 2),))
    }
    group.say(CLIENT, admin("put_policy", pattern="", placement="sticky"))
    assert rows(group, "policies", PolicyView) == [
        PolicyView(">", "sticky", ()),
        PolicyView("render.*", "score", (("running", 2),)),
    ]
    assert [one.pattern for one in rows(group, "policies", PolicyView, ">", 1)] == ["render.*"]
    (answer,) = group.say(CLIENT, admin("remove_policy", pattern="RENDER.*"))
    assert answer == wire.Accepted(REQUEST)
    assert group.say(CLIENT, admin("remove_policy", pattern="q"))[0].count == 0


def test_a_limit_is_shown_with_what_is_taken_of_it(group: Group) -> None:
    group.say(
        CLIENT, admin("put_limit", scope="key", name="db", running_max=3, rate=43_200, burst=1)
    )
    group.say(CLIENT, admin("put_limit", scope="queue", name="Q.A", running_max=1))
    group.worker(WORKER, credit=4)
    group.say(CLIENT, submit(1, options=JobOptions(limits=(("db", 2),))))
    one, other = rows(group, "limits", LimitView)
    assert (one.name, one.running, one.running_max) == ("key:db", 2, 3)
    assert one.due_ms > group.leader.state.time_ms
    assert other == LimitView("queue:q.a", 1, 0, burst=0, running=0, due_ms=0)
    assert limit_document(one) | {"due_ms": 0} == {
        **{"name": "key:db", "running": 2, "running_max": 3},
        **{"rate": "30/min", "burst": 1, "due_ms": 0},
    }
    group.say(CLIENT, admin("remove_limit", scope="queue", name="q.A"))
    assert [one.name for one in rows(group, "limits", LimitView)] == ["key:db"]


def test_a_share_is_shown_unless_it_is_one(group: Group) -> None:
    group.say(CLIENT, admin("put_weight", client_id="ann", weight=3))
    assert rows(group, "weights", WeightView) == [WeightView("ann", 3)]
    assert rows(group, "weights", WeightView, "ann") == []
    group.say(CLIENT, admin("put_weight", client_id="ann", weight=1))
    assert rows(group, "weights", WeightView) == []


@pytest.mark.parametrize(
    ("verb", "arguments", "code"),
    [
        ("put_policy", {"pattern": "a b", "placement": "sticky"}, ErrorCode.BAD_SUBJECT),
        ("put_policy", {"pattern": "q", "placement": "best"}, ErrorCode.BAD_OPTIONS),
        ("put_limit", {"scope": "exec", "name": "x"}, ErrorCode.BAD_OPTIONS),
        ("put_limit", {"scope": "queue", "name": "a b", "running_max": 1}, ErrorCode.BAD_SUBJECT),
        ("put_weight", {"client_id": "ann", "weight": 101}, ErrorCode.BAD_PAYLOAD),
    ],
)
def test_what_cannot_be_is_refused(
    group: Group, verb: str, arguments: dict[str, Any], code: ErrorCode
) -> None:
    (answer,) = group.say(CLIENT, admin(verb, **arguments))
    assert answer.code == code


class Calls(RuleCalls):
    """Calls that are written down."""

    def __init__(self) -> None:
        self.said: list[tuple[str, dict[str, Any]]] = []

    async def _change(self, action: str, **arguments: Any) -> int:
        self.said.append((action, arguments))
        return 1


@pytest.mark.parametrize(
    ("asked", "rate", "burst"),
    [
        ({"rate": "3/s"}, 259_200, 3),
        ({"rate": 2.5}, 216_000, 2),
        ({"rate": "30/min"}, 43_200, 1),
        ({"rate": "3/s", "burst": 7}, 259_200, 7),
        ({"running": 4}, 0, 0),
    ],
)
def test_a_burst_that_is_left_out_is_that_of_a_second(
    asked: dict[str, Any], rate: int, burst: int
) -> None:
    calls = Calls()
    asyncio.run(calls.set_limit("exec:render", **asked))
    ((verb, said),) = calls.said
    assert (verb, said["scope"], said["name"]) == ("put_limit", "exec", "render")
    assert (said["rate"], said["burst"]) == (rate, burst)


@pytest.mark.parametrize("name", ["render", "exec:", ":x", "worker:x"])
def test_what_names_no_limit_is_refused(name: str) -> None:
    with pytest.raises(LocalError, match="not the name of a limit"):
        asyncio.run(Calls().set_limit(name, running=1))
