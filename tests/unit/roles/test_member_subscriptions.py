"""Who listens to which subjects: receivers, queue groups in turns, inboxes and bounds."""

from __future__ import annotations

import pytest

from rollq.base.errors import ErrorCode, RemoteError, StateError
from rollq.roles.member.leader.subscriptions import Route, SessionSubscription, Subscriptions
from rollq.subjects.grammar import parse_subject
from rollq.subjects.trie import Trie


def route(held: Subscriptions, subject: str) -> Route:
    return held.route(subject, parse_subject(subject))


def takers(held: Subscriptions, subject: str, count: int) -> list[int]:
    """Who of the only group gets each of so many messages."""
    taken = []
    for _ in range(count):
        ((group, taking),) = route(held, subject).groups
        ((session,), _) = taking[held.take_turn(group, taking)]
        taken.append(session)
    return taken


def test_a_session_gets_a_message_once_and_all_its_subscriptions_count() -> None:
    held = Subscriptions()
    held.add(1, 1, "a.*")
    held.add(1, 2, "a.>")
    held.add(2, 1, "A..B")
    held.add(3, 1, "b")
    found = route(held, "a.b")
    assert (found.subject, found.receivers, found.count) == ("a.b", (1, 2), 3)
    assert route(held, "a.B").receivers is found.receivers  # one object for all routes
    assert route(held, "c").count == 0


def test_a_queue_group_takes_turns_across_patterns() -> None:
    held = Subscriptions()
    for session in (1, 2, 3):
        held.add(session, 1, "a.*", "desk")
    held.add(4, 1, "a.>")
    found = route(held, "a.b")
    assert (found.receivers, found.count) == ((4,), 2)
    assert sorted(takers(held, "a.b", 3)) == [1, 2, 3]
    # Where it stands is the group's own, and outlives changes of others.
    before = takers(held, "a.b", 1)
    held.add(5, 1, "c")
    assert takers(held, "a.b", 2) != before * 2
    held.remove_session(2)
    assert sorted(takers(held, "a.b", 2)) == [1, 3]
    held.remove_session(1)
    held.remove_session(3)
    assert route(held, "a.b").groups == []
    held.add(9, 1, "a.b", "desk")
    assert takers(held, "a.b", 2) == [9, 9]


def test_a_number_is_replaced_and_removed() -> None:
    held = Subscriptions()
    held.add(1, 7, "a")
    held.add(1, 7, "b")
    assert (len(held), route(held, "a").count, route(held, "b").receivers) == (1, 0, (1,))
    held.remove(1, 8)
    held.remove(2, 7)
    assert len(held) == 1
    held.remove(1, 7)
    held.remove(1, 7)
    assert (len(held), route(held, "b").count) == (0, 0)


def test_a_pattern_that_is_refused_changes_nothing() -> None:
    held = Subscriptions()
    held.add(1, 7, "a")
    with pytest.raises(RemoteError):
        held.add(1, 7, "a b")
    assert route(held, "a").receivers == (1,)


def test_routes_outlive_the_inboxes_of_others() -> None:
    held = Subscriptions()
    held.add(1, 1, "a.*")
    found = route(held, "a.b")
    held.add(2, 1, "_inbox.t1.>")
    held.remove(2, 1)
    held.add(3, 1, "_inbox.t2.>")
    held.remove_session(3)
    assert held.known_route("a.b") is found
    held.remove_session(1)
    assert held.known_route("a.b") is None


def test_an_inbox_belongs_to_the_session_that_drew_it() -> None:
    held = Subscriptions()
    held.add(1, 1, "_inbox.t1.>")
    held.add(1, 1, "_inbox.t1.>")  # said again by the same
    for pattern in ("_inbox.t1.>", "_INBOX.T1.>", "_inbox.*.>", "_inbox.>", "_inbox.t2.5"):
        with pytest.raises(StateError) as refused:
            held.add(2, 1, pattern)
        assert refused.value.code is ErrorCode.ACCESS_DENIED
    for number, pattern in enumerate((">", "*.*.*", "*.t1.>")):
        held.add(2, number, pattern)
    found = route(held, "_inbox.t1.5")
    assert (found.receivers, found.count) == ((1,), 1)
    assert route(held, "_inbox.t2.5").count == 0
    assert route(held, "_inbox").count == 0
    held.remove_session(1)
    assert route(held, "_inbox.t1.5").count == 0
    held.add(2, 9, "_inbox.t1.>")
    assert route(held, "_inbox.t1.5").receivers == (2,)


def test_an_inbox_is_there_until_the_last_subscription_to_it_ends() -> None:
    held = Subscriptions()
    held.add(1, 1, "_inbox.t1.>")
    held.add(1, 2, "_inbox.t1.>")
    held.remove(1, 1)
    assert route(held, "_inbox.t1.5").receivers == (1,)
    held.remove(1, 2)
    assert route(held, "_inbox.t1.5").count == 0
    held.add(2, 1, "_inbox.t1.>")
    assert route(held, "_inbox.t1.5").receivers == (2,)


def test_an_inbox_makes_no_route_outdated() -> None:
    held = Subscriptions()
    held.add(1, 1, "a")
    route(held, "a")
    held.add(2, 1, "_inbox.t.>")
    assert held.known_route("a") is not None
    route(held, "_inbox.t.1")
    assert held.known_route("_inbox.t.1") is None


def test_bounds() -> None:
    held = Subscriptions(of_session_max=2, count_max=3, routes_max=2)
    held.add(1, 1, "a")
    held.add(1, 2, "b")
    for session in (1, 2):
        if session == 2:
            held.add(2, 1, "c")
        with pytest.raises(StateError) as refused:
            held.add(session, 3, "d")
        assert refused.value.code is ErrorCode.OVERLOADED
        assert refused.value.retryable
    for subject in ("a", "b", "c"):
        route(held, subject)
    assert [held.known_route(one) is None for one in ("a", "b", "c")] == [True, True, False]


def test_one_that_ends_after_some_messages() -> None:
    held = Subscriptions()
    held.add(1, 1, "a")
    held.end_after(1, 1, 2)
    held.end_after(1, 9, 2)
    (counted,) = route(held, "a").counted
    held.count_down(counted)
    assert route(held, "a").count == 1
    held.count_down(counted)
    assert (route(held, "a").count, len(held)) == (0, 0)


def test_what_was_matched_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """The trie is asked once, and its answer remembered until a subscription comes or goes."""
    held = Subscriptions()
    for number in range(10_000):
        held.add(1, number, f"k{number}.*.x")
    held.add(2, 1, "k7.*.>")
    looked: list[str] = []
    match = held._trie.match

    def watched(_: object, subject: str) -> list[SessionSubscription]:
        looked.append(subject)
        return match(subject)

    monkeypatch.setattr(Trie, "match", watched)
    for _ in range(3):
        assert route(held, "k7.a.x").receivers == (2, 1)
    assert looked == ["k7.a.x"]
