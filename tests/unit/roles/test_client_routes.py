from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollq.base.errors import ErrorCode, LocalError
from rollq.base.router_limits import GROUPS_MAX, ROUTES_KEPT_MAX, ROUTES_MAX
from rollq.roles.client.several_groups.routes import (
    GroupRoute,
    GroupTable,
    RouteState,
    check_group_names,
    parse_route,
)


def test_a_route_is_a_pattern_and_weights() -> None:
    assert parse_route("Render.> = gpu:3, cpu") == GroupRoute("render.>", (("gpu", 3), ("cpu", 1)))


@pytest.mark.parametrize(
    "text",
    [
        "",
        "render",
        "=gpu",
        "render=",
        "a b=gpu",
        "a=gpu:0",
        "a=gpu:x",
        "a=gpu,gpu:2",
        "a=:3",
        "a=gpu:1001",
    ],
)
def test_what_is_no_route_is_refused_with_how_to_write_one(text: str) -> None:
    with pytest.raises(LocalError) as caught:
        parse_route(text)
    assert caught.value.code is ErrorCode.BAD_OPTIONS
    assert "write " in caught.value.hint


def group_of(table: GroupTable, subject: str) -> list[str]:
    return [table.names[number] for number in table.route_for(subject).weights]


def test_the_most_specific_pattern_counts_whatever_the_order() -> None:
    lines = [">=all", "a.>=tail", "a.*=one", "a.b=exact", "a=short", "*.b=any"]
    for routes in (lines, lines[::-1]):
        table = GroupTable(map(parse_route, routes))
        for name in ("all", "tail", "one", "exact", "short", "any"):
            table.add(name)
        subjects = ["x", "a.b.c", "a.c", "job.submit.A.B", "a", "c.b"]
        found = [group_of(table, subject) for subject in subjects]
        assert found == [["all"], ["tail"], ["one"], ["exact"], ["short"], ["any"]]


def test_without_a_route_every_group_may_have_it() -> None:
    table = GroupTable([GroupRoute("a", (("x", 1),))])
    table.add("x")
    table.add("y")
    assert group_of(table, "b") == group_of(table, "no subject at all") == ["x", "y"]
    assert group_of(table, "a") == ["x"]


def test_groups_come_and_go_in_the_routes_that_name_them() -> None:
    table = GroupTable([GroupRoute("a", (("x", 1), ("y", 2)))])
    number = table.add("y")
    assert group_of(table, "a") == ["y"]
    table.remove(number)
    assert group_of(table, "a") == []
    assert table.add("y") != number
    assert group_of(table, "a") == ["y"]


def test_tables_are_bounded() -> None:
    with pytest.raises(LocalError, match="routes"):
        GroupTable(GroupRoute(f"q{n}", (("x", 1),)) for n in range(ROUTES_MAX + 1))
    with pytest.raises(LocalError, match="2 routes for 'a'"):
        GroupTable(
            [
                GroupRoute("a", (("x", 1),)),
                GroupRoute("b", (("x", 1),)),
                GroupRoute("a", (("y", 1),)),
            ]
        )
    table = GroupTable([GroupRoute("a", (("x", 1),))])
    for n in range(GROUPS_MAX):
        table.add(f"g{n}")
    with pytest.raises(LocalError, match="more than"):
        table.add("one more")
    table.remove(0)
    with pytest.raises(LocalError, match="named"):
        table.add("g1")
    for n in range(ROUTES_KEPT_MAX + 10):
        table.route_for(f"q{n}")
    assert len(table._found) == ROUTES_KEPT_MAX


weights = st.lists(st.integers(1, 7), min_size=1, max_size=4)


def state(of: list[int]) -> RouteState:
    made = RouteState()
    for number, weight in enumerate(of):
        made.enter(number, weight)
    return made


@given(weights, st.lists(st.integers(0, 40), max_size=4))
def test_many_at_once_are_shared_as_if_they_came_one_by_one(
    of: list[int], counts: list[int]
) -> None:
    at_once, one_by_one = state(of), state(of)
    for count in counts:
        rooms = dict.fromkeys(range(len(of)), 1_000)
        given_at_once = at_once.shares(dict(rooms), count)
        singly: dict[int, int] = {}
        for _ in range(count):
            for number in one_by_one.shares(rooms, 1):
                singly[number] = singly.get(number, 0) + 1
        assert given_at_once == singly


@given(weights, st.integers(0, 60), st.data(), st.booleans())
def test_nobody_gets_more_than_there_is_room_for(
    of: list[int], count: int, data: st.DataObject, by_load: bool
) -> None:
    rooms = {number: data.draw(st.integers(1, 20)) for number in range(len(of))}
    shares = state(of).shares(dict(rooms), count, (lambda _: 0) if by_load else None)
    assert sum(shares.values()) == min(count, sum(rooms.values()))
    assert all(shares[number] <= rooms[number] for number in shares)


@given(weights, st.integers(1, 20))
def test_shares_are_exactly_by_weight(of: list[int], cycles: int) -> None:
    room = dict.fromkeys(range(len(of)), 10_000)
    assert state(of).shares(room, cycles * sum(of)) == {
        number: weight * cycles for number, weight in enumerate(of)
    }


@pytest.mark.parametrize(("weights", "route"), [(["c"], "x=a"), (["a"], "x=b:2,c")])
def test_weights_and_routes_name_groups_that_there_are(weights: list[str], route: str) -> None:
    check_group_names(["a", "b"], ["b"], [parse_route("x=a:2")])
    with pytest.raises(LocalError, match="no group is named 'c'") as caught:
        check_group_names(["a", "b"], weights, [parse_route(route)])
    assert caught.value.hint == "there are: a, b"
