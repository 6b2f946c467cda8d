from __future__ import annotations

from typing import Any

import msgspec

from rollq.gossip.map import FederationView, GroupView, federation_view, groups_of
from rollq.gossip.nodes import Node
from rollq.gossip.records import Figures, NodeKind, NodeUpdate, Standing, Sync
from tests.unit.gossip.kit import datagram, machine, record

C1, C2 = b"cluster1", b"cluster2"


def node(
    number: int, group: str, cluster: bytes, how: Standing = Standing.ALIVE, **fields: Any
) -> Node:
    return Node(record(number, group=group, cluster_id=cluster, **fields), how, 0, number * 100)


def one(*nodes: Node) -> GroupView:
    (group,) = groups_of(nodes, 1_000)
    return group


def test_a_group_with_a_leader_and_all_members_is_up() -> None:
    figures = Figures(members=3, members_up=3, queued=7, running=2, workers=4)
    led = node(2, "g", C1, leads=True, term=5, figures=figures)
    group = one(node(1, "g", C1), led, node(3, "g", C1))
    assert (group.state, group.leader, group.term) == ("up", "10.0.0.2:5000", 5)
    assert (group.members_up, group.members_known) == (3, 3)
    assert (group.queued, group.running, group.workers) == (7, 2, 4)
    assert group.heard_ms == 700  # the one that was heard last
    assert group.cluster_id == C1.hex()
    assert group.addresses == ("10.0.0.2:5000", "10.0.0.1:5000", "10.0.0.3:5000")


def test_it_is_degraded_if_its_leader_misses_some() -> None:
    led = node(1, "g", C1, leads=True, figures=Figures(members=3, members_up=2))
    assert one(led, node(2, "g", C1), node(3, "g", C1, Standing.DEAD)).state == "degraded"


def test_members_without_a_leader_are_leaderless() -> None:
    led = node(1, "g", C1, Standing.DEAD, leads=True, figures=Figures(3, 3, queued=9))
    group = one(led, node(2, "g", C1), node(3, "g", C1, Standing.SUSPECT))
    assert (group.state, group.leader) == ("leaderless", "")
    assert (group.members_up, group.members_known, group.queued) == (2, 3, 9)


def test_all_gone_is_down() -> None:
    gone = node(1, "g", C1, Standing.DEAD, leads=True), node(2, "g", C1, Standing.LEFT)
    group = one(*gone)
    assert (group.state, group.leader, group.members_up) == ("down", "", 0)
    assert [member.standing for member in group.members] == ["dead", "left"]


def test_of_two_leaders_the_one_of_the_higher_term_counts() -> None:
    old = node(1, "g", C1, leads=True, term=5, figures=Figures(2, 2))
    new = node(2, "g", C1, leads=True, term=6, figures=Figures(2, 2))
    assert one(old, new).leader == "10.0.0.2:5000"


def test_two_clusters_of_one_name_are_two_groups_in_conflict() -> None:
    groups = groups_of([node(1, "g", C1, leads=True), node(2, "g", C2), node(3, "h", C2)], 0)
    assert [(one.name, one.cluster_id, one.is_conflict) for one in groups] == [
        ("g", C1.hex(), True),
        ("g", C2.hex(), True),
        ("h", C2.hex(), False),
    ]
    assert [len(one.members) for one in groups] == [1, 1, 1]


def test_a_cluster_that_is_gone_is_in_nobodys_way() -> None:
    groups = groups_of([node(1, "g", C1, leads=True), node(2, "g", C2, Standing.DEAD)], 0)
    assert [(one.state, one.is_conflict) for one in groups] == [("up", False), ("down", False)]


def test_members_that_have_not_come_together_are_forming_and_no_conflict() -> None:
    groups = groups_of([node(1, "g", C1, leads=True), node(2, "g", b"")], 0)
    assert [(one.state, one.is_conflict) for one in groups] == [("forming", False), ("up", False)]


def test_the_map_has_this_node_and_routers_beside_groups() -> None:
    me = machine()
    router = record(9, kind=NodeKind.ROUTER, group="", cluster_id=b"")
    me.receive(datagram(2, Sync(asks=False), NodeUpdate(Standing.ALIVE, 0, router)), 500)
    view = federation_view(me, 2_500)
    assert view.is_on
    assert view.address == "10.0.0.1:5000"
    assert [group.name for group in view.groups] == ["g1"]
    assert [(one.address, one.heard_ms) for one in view.routers] == [("10.0.0.9:5000", 2_000)]
    told = msgspec.msgpack.decode(msgspec.msgpack.encode(view), type=FederationView)
    assert told == view


def test_without_gossip_there_is_no_map() -> None:
    assert FederationView() == FederationView(is_on=False, groups=(), routers=(), address="")
