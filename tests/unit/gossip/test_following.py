from __future__ import annotations

from typing import Any

from rollq.base.federation_limits import FOLLOW_ABSENT_MS
from rollq.gossip.following import FollowedGroup, Following, GroupChanges
from rollq.gossip.map import FederationView, GroupView, NodeView

NOTHING = GroupChanges((), ())


def group(name: str, cluster: str = "c1", *addresses: str, **fields: Any) -> GroupView:
    members = tuple(
        NodeView("00", address, "alive", leads=False, term=1, heard_ms=0)
        for address in addresses or (f"{name}:1", f"{name}:2")
    )
    made: dict[str, Any] = {
        "state": "up",
        "is_conflict": False,
        "leader": members[0].address,
        "heard_ms": 0,
        **dict.fromkeys(("term", "members_up", "members_known"), 1),
        **dict.fromkeys(("queued", "running", "workers"), 0),
    }
    return GroupView(name=name, cluster_id=cluster, members=members, **(made | fields))


def view(*groups: GroupView) -> FederationView:
    return FederationView(is_on=True, groups=groups, address="a:1")


def test_groups_that_are_there_are_found_once() -> None:
    following = Following()
    steps = following.update(view(group("a"), group("b", state="down"), group("c", "")), 0)
    assert steps == GroupChanges((), (FollowedGroup("a", "c1", ("a:1", "a:2")),))
    assert following.update(view(group("a"), group("b"), group("c", "")), 1).found[0].name == "b"
    assert following.update(view(group("a"), group("b")), 2) == NOTHING


def test_a_group_that_is_down_stays_in_use() -> None:
    following = Following()
    following.update(view(group("a"), group("b")), 0)
    later = FOLLOW_ABSENT_MS * 10
    assert following.update(view(group("a"), group("b", state="down")), later) == NOTHING


def test_a_group_goes_when_the_map_lacks_it_for_long() -> None:
    following = Following()
    following.update(view(group("a"), group("b")), 0)
    assert following.update(view(group("a")), FOLLOW_ABSENT_MS) == NOTHING
    assert following.update(view(group("a")), FOLLOW_ABSENT_MS + 1) == GroupChanges(("b",), ())
    assert following.update(view(group("a"), group("b")), FOLLOW_ABSENT_MS + 2).found[0].name == "b"


def test_the_last_ones_that_were_known_stay() -> None:
    following = Following()
    following.update(view(group("a"), group("b")), 0)
    assert following.update(view(), 2 * FOLLOW_ABSENT_MS) == NOTHING
    assert list(following.used) == ["a", "b"]


def test_whoever_does_not_gossip_says_nothing() -> None:
    following = Following()
    following.update(view(group("a")), 0)
    assert following.update(FederationView(), 2 * FOLLOW_ABSENT_MS) == NOTHING


def test_of_two_clusters_of_a_name_neither_is_taken_but_the_one_in_use_stays() -> None:
    one = group("a", "c1", "x:1", is_conflict=True)
    other = group("a", "c2", "y:1", is_conflict=True)
    assert Following().update(view(one, other), 0) == NOTHING
    following = Following()
    following.update(view(group("a", "c1", "x:1")), 0)
    assert following.update(view(one, other), 1) == NOTHING
    assert following.used["a"].cluster_id == "c1"


def test_a_group_that_was_made_anew_or_has_moved_is_followed() -> None:
    following = Following()
    following.update(view(group("a", "c1", "x:1", "x:2"), group("b")), 0)
    grown = view(group("a", "c1", "x:2", "x:3"), group("b"))
    assert following.update(grown, 1) == NOTHING  # a member of it is where it was
    anew = view(group("a", "c1", "x:1", state="down"), group("a", "c2", "x:1"), group("b"))
    assert following.update(anew, 2) == GroupChanges(("a",), (FollowedGroup("a", "c2", ("x:1",)),))
    moved = view(group("a", "c2", "y:1"), group("b"))
    assert following.update(moved, 3) == GroupChanges(("a",), (FollowedGroup("a", "c2", ("y:1",)),))


def test_so_many_and_no_more() -> None:
    following = Following(groups_max=2)
    steps = following.update(view(group("a"), group("b"), group("c")), 0)
    assert [one.name for one in steps.found] == ["a", "b"]
