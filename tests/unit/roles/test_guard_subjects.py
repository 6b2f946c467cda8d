"""Who may publish to which subjects, and subscribe to which patterns."""

from __future__ import annotations

from typing import Any

import pytest

from rollq.base.access import LinkRole
from rollq.base.access_rules import Account
from rollq.base.errors import ErrorCode
from rollq.base.ids import NIL_ID
from rollq.roles.access import RefusedError
from rollq.subjects.reserved import job_event_subject
from rollq.wire.subject_messages import Consumed, Publish, Subscribe, Unsubscribe
from tests.unit.grid.kit import job_id
from tests.unit.roles.guard_kit import World, allow, client, deny, other

ASKED = bytes(range(16))


def world(*rules: Any) -> World:
    return World(Account("who", rules=rules))


def subscribe(pattern: str) -> Subscribe:
    return Subscribe(ASKED, 1, pattern)


def may(world: World, message: Any, who: str = "who") -> bool:
    try:
        return bool(world.judge(client(who), message) == message)
    except RefusedError as refused:
        return bool(refused.why)  # never: the link goes on


@pytest.mark.parametrize(
    ("pattern", "is_covered"),
    [
        ("prices.eur", True),
        ("Prices.EUR", True),
        ("prices..eur", True),
        ("prices.*", True),
        ("prices.*.bid", True),
        ("prices.eur.>", True),
        ("prices.>", False),  # that is `prices`, too
        ("prices", False),
        ("*.eur", False),
        ("*", False),
        (">", False),
        ("pricesx.eur", False),
    ],
)
def test_a_rule_must_cover_all_of_a_pattern(pattern: str, is_covered: bool) -> None:
    one = world(allow("subjects.subscribe", "subject:prices.*"))
    assert may(one, subscribe(pattern)) is is_covered
    both = world(
        allow("subjects.subscribe", "subject:prices.*"),
        allow("subjects.subscribe", "subject:prices"),
    )
    assert may(both, subscribe(pattern)) is (is_covered or pattern in ("prices", "prices.>"))


def test_a_deny_counts_on_any_part_of_a_pattern() -> None:
    one = world(
        allow("subjects.*", "*"), deny("subjects.subscribe", "subject:pay.*"), allow("jobs.*", "*")
    )
    assert may(one, subscribe("news.>"))
    for pattern in ("pay.>", "pay.bob", "*.bob", ">"):
        assert not may(one, subscribe(pattern)), pattern


def test_publishing_is_by_subject() -> None:
    one = world(allow("subjects.publish", "subject:prices.*"))
    assert may(one, Publish("Prices.EUR", b"", request_id=ASKED))
    assert not may(one, Publish("prices", b"", request_id=ASKED))
    error = one.error(client("who"), Publish("pay", b"", request_id=ASKED))
    assert (error.request_id, error.code) == (ASKED, ErrorCode.ACCESS_DENIED)
    error = one.error(client("who"), Publish("prices.*", b"", request_id=ASKED))
    assert error.code == ErrorCode.BAD_SUBJECT


@pytest.mark.parametrize("role", [LinkRole.CLIENT, LinkRole.WORKER])
def test_a_refused_publish_without_an_answer_ends_no_link(role: LinkRole) -> None:
    one = world()
    with pytest.raises(RefusedError) as refused:
        one.judge(other(role, "who"), Publish("pay", b"", request_id=NIL_ID))
    assert (refused.value.answers, refused.value.why) == ((), "")
    assert one.refused == [("who", "subjects.publish", "subject:pay")]


def test_an_inbox_needs_no_right_and_what_is_held_neither() -> None:
    one = world()
    for message in (subscribe("_inbox.abc.>"), Unsubscribe(1), Consumed(1, 5)):
        assert may(one, message)


def test_events_of_a_job_are_for_those_who_may_read_it() -> None:
    one = World()
    mine, his = job_event_subject(job_id("mine")), job_event_subject(job_id("his"))
    assert may(one, subscribe(mine), "ann")
    assert may(one, subscribe("prices.>"), "ann")
    error = one.error(client("ann"), subscribe(his))
    unknown = one.error(client("ann"), subscribe(job_event_subject(job_id("none"))))
    assert error.code == unknown.code == ErrorCode.UNKNOWN_JOB
    for pattern in ("job.event.>", "job.event.*", "job.>", "*.event.*", ">", "job.event.x"):
        assert not may(one, subscribe(pattern), "ann"), pattern
        assert may(one, subscribe(pattern), "eye"), pattern
        assert may(one, subscribe(pattern), "ops"), pattern
    assert may(one, subscribe("job"), "ann")


def test_built_in_roles() -> None:
    one = World()
    said = Publish("prices.eur", b"", request_id=ASKED)
    for name in ("ann", "ops", "root"):
        assert may(one, said, name)
    for name in ("eye", "none"):
        assert not may(one, said, name)
    worker = other(LinkRole.WORKER, "box")
    assert one.judge(worker, said) == said
    assert one.judge(worker, subscribe("prices.>")) == subscribe("prices.>")
