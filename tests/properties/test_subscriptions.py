"""Subscriptions against a list of them and the reference matcher."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from rollq.roles.member.leader.subscriptions import Subscriptions
from rollq.subjects.grammar import parse_subject
from rollq.subjects.matcher import matches

WORDS = ("a", "B", "b", "c", "")
subjects = st.lists(st.sampled_from(WORDS), max_size=4).map(".".join)
patterns = st.lists(st.sampled_from([*WORDS, "*", ">"]), max_size=4).map(".".join)
sessions = st.integers(1, 4)
numbers = st.integers(1, 3)
steps = st.one_of(
    st.tuples(st.just("add"), sessions, numbers, patterns, st.sampled_from(("", "", "g", "h"))),
    st.tuples(st.just("remove"), sessions, numbers),
    st.tuples(st.just("leave"), sessions),
    st.tuples(st.just("ask"), subjects),
)


@given(st.lists(steps, max_size=40))
def test_routes_are_as_a_list_says(taken: list[tuple[Any, ...]]) -> None:
    held = Subscriptions()
    naive: dict[tuple[int, int], tuple[str, str]] = {}
    for kind, *rest in taken:
        if kind == "add":
            session, number, pattern, group = rest
            held.add(session, number, pattern, group)
            naive[session, number] = pattern, group
        elif kind == "remove":
            held.remove(*rest)
            naive.pop((rest[0], rest[1]), None)
        elif kind == "leave":
            held.remove_session(*rest)
            naive = {key: said for key, said in naive.items() if key[0] != rest[0]}
        else:
            check(held, naive, str(rest[0]))
    assert len(held) == len(naive)
    for subject in ("", "a", "a.b", "a.b.c"):
        check(held, naive, subject)


def check(held: Subscriptions, naive: dict[tuple[int, int], tuple[str, str]], subject: str) -> None:
    route = held.route(subject, parse_subject(subject))
    found = [(key, group) for key, (pattern, group) in naive.items() if matches(pattern, subject)]
    plain = [session for (session, _), name in found if not name]
    groups: dict[str, list[int]] = {}
    for (session, _), name in found:
        if name:
            groups.setdefault(name, []).append(session)
    assert sorted(route.receivers) == sorted(set(plain))
    assert route.count == len(plain) + len(groups)
    assert {
        group.name: sorted(session for (session,), _ in taking) for group, taking in route.groups
    } == {name: sorted(members) for name, members in groups.items()}
    for group, taking in route.groups:
        once = [held.take_turn(group, taking) for _ in taking]
        assert sorted(once) == list(range(len(taking)))
