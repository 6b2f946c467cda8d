"""The map of a federation: groups, derived from node records. Pure.

It is a hint for finding a group. Which member leads is decided by Raft in the group alone.
"""

from __future__ import annotations

import enum
from collections.abc import Iterable
from typing import Final

import msgspec

from rollq.gossip.machine import GossipMachine
from rollq.gossip.nodes import Node
from rollq.gossip.records import NodeKind, NodeRecord, Standing


class GroupState(enum.StrEnum):
    """The health of a group."""

    UP = "up"  # it has a leader, and all its members are present
    DEGRADED = "degraded"  # it has a leader, and some members are missing
    LEADERLESS = "leaderless"  # members are present, and none of them leads
    FORMING = "forming"  # it has no cluster id yet
    DOWN = "down"  # no member is present


class NodeView(msgspec.Struct, frozen=True):
    """One process.

    Attributes:
        node_id: In hex. Of a member, its member id.
        address: The address it advertises.
        standing: alive, suspect, dead or left.
        leads: Whether its own record claims leadership.
        term: The Raft term of that record.
        heard_ms: Milliseconds since the last sign of life.
    """

    node_id: str
    address: str
    standing: str
    leads: bool
    term: int
    heard_ms: int


class GroupView(msgspec.Struct, frozen=True):
    """One group of a federation. Queued, running and workers are the last figures of its leader.

    Attributes:
        name: Of the group.
        cluster_id: In hex; empty while the group is forming. Clusters with the same name and
            different ids are separate groups.
        state: up, degraded, leaderless, forming or down.
        is_conflict: Another live group has the same name.
        leader: Its address; empty if none is known.
        term: The highest that is known.
        members_up: Members that are present.
        members_known: Members in total.
        queued: Waiting jobs.
        running: Running attempts.
        workers: Connected workers.
        heard_ms: Milliseconds since the last sign of life of any member.
        members: Those that gossip.
    """

    name: str
    cluster_id: str
    state: str
    is_conflict: bool
    leader: str
    term: int
    members_up: int
    members_known: int
    queued: int
    running: int
    workers: int
    heard_ms: int
    members: tuple[NodeView, ...]

    @property
    def addresses(self) -> tuple[str, ...]:
        """Addresses of the members, the most likely to answer first."""
        ranked = sorted(
            self.members, key=lambda one: (STANDINGS.index(one.standing), not one.leads)
        )
        return tuple(one.address for one in ranked)


class FederationView(msgspec.Struct, frozen=True):
    """One node's view of the whole federation.

    Attributes:
        is_on: Whether gossip is enabled; all else is empty if not.
        groups: By name.
        routers: Present, or recently gone.
        address: Of the node whose view this is.
    """

    is_on: bool = False
    groups: tuple[GroupView, ...] = ()
    routers: tuple[NodeView, ...] = ()
    address: str = ""


STANDINGS: Final = tuple(standing.name.lower() for standing in Standing)


def federation_view(machine: GossipMachine, now_ms: int) -> FederationView:
    """The map as known to this node."""
    mine = Node(machine.me, Standing.ALIVE, now_ms, now_ms)
    nodes = (mine, *machine.nodes)
    routers = [node for node in nodes if node.record.kind is NodeKind.ROUTER]
    return FederationView(
        is_on=True,
        groups=groups_of(nodes, now_ms),
        routers=tuple(_node_view(node, now_ms) for node in sorted(routers, key=_address)),
        address=machine.me.address,
    )


def groups_of(nodes: Iterable[Node], now_ms: int) -> tuple[GroupView, ...]:
    """Group member nodes by group name and cluster id."""
    clusters: dict[tuple[str, bytes], list[Node]] = {}
    for node in nodes:
        record = node.record
        if record.kind is NodeKind.MEMBER:
            clusters.setdefault((record.group, record.cluster_id), []).append(node)
    present: dict[str, int] = {}
    for (name, cluster_id), members in clusters.items():
        if cluster_id and any(not node.is_gone for node in members):
            present[name] = present.get(name, 0) + 1
    return tuple(
        _group_view(clusters[key], now_ms, is_conflict=present.get(key[0], 0) > 1)
        for key in sorted(clusters)
    )


def _group_view(nodes: list[Node], now_ms: int, *, is_conflict: bool) -> GroupView:
    nodes = sorted(nodes, key=_address)
    there = [node for node in nodes if not node.is_gone]
    told = _newest_leader(nodes)
    leading = _newest_leader(there)
    any_record = nodes[0].record
    figures = nodes[0].record.figures if told is None else told.figures
    known = max(figures.members, len(there), 1)
    up = figures.members_up if leading is not None and figures.members else len(there)
    return GroupView(
        name=any_record.group,
        cluster_id=any_record.cluster_id.hex(),
        state=_state(there, leading, is_whole=up >= known, is_formed=bool(any_record.cluster_id)),
        is_conflict=is_conflict and bool(there) and bool(any_record.cluster_id),
        leader="" if leading is None else leading.address,
        term=max(node.record.term for node in nodes),
        members_up=up,
        members_known=known,
        queued=figures.queued,
        running=figures.running,
        workers=figures.workers,
        heard_ms=min(max(0, now_ms - node.heard_ms) for node in nodes),
        members=tuple(_node_view(node, now_ms) for node in nodes),
    )


def _newest_leader(nodes: Iterable[Node]) -> NodeRecord | None:
    """The record that claims leadership in the highest term; a deposed leader may still do so."""
    leaders = [node.record for node in nodes if node.record.leads]
    return max(leaders, key=lambda record: (record.term, record.incarnation), default=None)


def _state(
    there: list[Node], leading: NodeRecord | None, *, is_whole: bool, is_formed: bool
) -> GroupState:
    if not there:
        return GroupState.DOWN
    if not is_formed:
        return GroupState.FORMING
    if leading is None:
        return GroupState.LEADERLESS
    return GroupState.UP if is_whole else GroupState.DEGRADED


def _node_view(node: Node, now_ms: int) -> NodeView:
    record = node.record
    return NodeView(
        node_id=record.node_id.hex(),
        address=record.address,
        standing=STANDINGS[node.standing],
        leads=record.leads,
        term=record.term,
        heard_ms=max(0, now_ms - node.heard_ms),
    )


def _address(node: Node) -> str:
    return node.record.address
