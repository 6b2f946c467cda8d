"""A node's table of the other nodes: bounded, changed by updates. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from rollq.base.federation_limits import (
    GOSSIP_DEAD_MS_MAX,
    GOSSIP_LEFT_MS_MAX,
    GOSSIP_NODES_MAX,
)
from rollq.gossip.records import GONE, NodeId, NodeRecord, NodeUpdate, Standing

MS_PER_S: Final = 1_000


class Node:
    """Another process.

    Attributes:
        record: Its latest record.
        standing: Alive, suspect, dead or left.
        since_ms: When the standing last changed.
        heard_ms: The last sign of life: a datagram from it, or a newer incarnation through others.
        synced_ms: When the full table was last sent to it on its request; None: never.
    """

    __slots__ = ("heard_ms", "record", "since_ms", "standing", "synced_ms")

    def __init__(
        self, record: NodeRecord, standing: Standing, since_ms: int, heard_ms: int
    ) -> None:
        self.record = record
        self.standing = standing
        self.since_ms = since_ms
        self.heard_ms = heard_ms
        self.synced_ms: int | None = None

    @property
    def is_gone(self) -> bool:
        """Whether it is dead or has left."""
        return self.standing in GONE

    def as_update(self, now_ms: int) -> NodeUpdate:
        """As an update for other nodes."""
        age_s = max(0, now_ms - self.since_ms) // MS_PER_S if self.is_gone else 0
        return NodeUpdate(self.standing, age_s, self.record)


class Change(NamedTuple):
    """A change of one node; `before` is None if the node is new."""

    record: NodeRecord
    standing: Standing
    before: Standing | None


class NodeTable:
    """All other nodes.

    Attributes:
        version: Incremented by every change.
        dropped_count: Updates that were dropped because the table is full.
    """

    def __init__(self, nodes_max: int = GOSSIP_NODES_MAX) -> None:
        self._nodes: dict[NodeId, Node] = {}
        self._gone: dict[NodeId, Node] = {}  # the subset that is dead or has left
        self._nodes_max = nodes_max
        self._changes: list[Change] = []
        self.version = 0
        self.dropped_count = 0

    def __len__(self) -> int:
        return len(self._nodes)

    def __iter__(self) -> Iterator[Node]:
        return iter(self._nodes.values())

    def get(self, node_id: NodeId) -> Node | None:
        return self._nodes.get(node_id)

    def at(self, address: str) -> Node | None:
        """The node at this address, the best standing first: several may have had it."""
        found = [node for node in self if node.record.address == address]
        return min(found, key=lambda node: node.standing, default=None)

    def present(self) -> list[Node]:
        """All nodes that are alive or suspect."""
        return [node for node in self if not node.is_gone]

    def take_changes(self) -> list[Change]:
        """Changes since the last call."""
        changes, self._changes = self._changes, []
        return changes

    def merge(self, update: NodeUpdate, now_ms: int, *, is_page: bool) -> bool:
        """Merge an update about another node; true if it changed the table.

        Args:
            update: Must not be about this node.
            now_ms: Monotonic.
            is_page: Whether it is from a full exchange, perhaps with a partitioned node: a node
                that is dead for the sender and alive for us becomes a suspect and can refute.
        """
        record, standing, age_s = update.record, update.standing, update.age_s
        known = self._nodes.get(record.node_id)
        if known is None:
            return self._insert(update, now_ms)
        if is_page and standing is Standing.DEAD and not known.is_gone:
            # The suspicion starts now, whatever the age of the sender's verdict.
            standing, age_s = Standing.SUSPECT, 0
        if (record.incarnation, standing) <= (known.record.incarnation, known.standing):
            return False
        if record.incarnation > known.record.incarnation:
            if standing is Standing.ALIVE:
                known.heard_ms = now_ms
            elif standing is known.standing is Standing.SUSPECT:
                known.since_ms = now_ms  # it refuted the earlier suspicion: this is another one
        known.record = record
        self._apply(known, standing, now_ms - age_s * MS_PER_S)
        return True

    def set_standing(self, node: Node, standing: Standing, now_ms: int) -> None:
        """Set a standing that this node has determined itself."""
        self._apply(node, standing, now_ms)

    def forget_gone(self, now_ms: int) -> None:
        """Remove nodes that have been dead or left for long enough."""
        for node in [*self._gone.values()]:
            if now_ms - node.since_ms > _kept_ms(node.standing):
                self._drop(node)

    def _insert(self, update: NodeUpdate, now_ms: int) -> bool:
        is_gone = update.standing in GONE
        if is_gone and update.age_s * MS_PER_S > _kept_ms(update.standing):
            return False
        if is_gone and self._is_taken(update.record.address):
            return False
        if len(self._nodes) >= self._nodes_max:
            if is_gone or not self._gone:
                self.dropped_count += 1
                return False
            self._drop(min(self._gone.values(), key=lambda node: node.since_ms))
        since_ms = now_ms - update.age_s * MS_PER_S
        node = Node(update.record, update.standing, since_ms, min(now_ms, since_ms))
        self._nodes[update.record.node_id] = node
        self._record_change(node, None)
        return True

    def _apply(self, node: Node, standing: Standing, since_ms: int) -> None:
        before = node.standing
        if standing is not before:
            node.standing, node.since_ms = standing, since_ms
        self._record_change(node, before)

    def _record_change(self, node: Node, before: Standing | None) -> None:
        self.version += 1
        self._changes.append(Change(node.record, node.standing, before))
        if node.is_gone:
            self._gone[node.record.node_id] = node
            return
        self._gone.pop(node.record.node_id, None)
        # A new process has the address of the gone one: that one will not come back.
        address = node.record.address
        for other in [one for one in self._gone.values() if one.record.address == address]:
            self._drop(other)

    def _is_taken(self, address: str) -> bool:
        return any(not node.is_gone and node.record.address == address for node in self)

    def _drop(self, node: Node) -> None:
        del self._nodes[node.record.node_id], self._gone[node.record.node_id]
        self.version += 1


def _kept_ms(standing: Standing) -> int:
    return GOSSIP_LEFT_MS_MAX if standing is Standing.LEFT else GOSSIP_DEAD_MS_MAX
