"""What one node knows of the others: a bounded table, and how news change it. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

from rollq.base.federation_limits import (
    GOSSIP_DEAD_MS_MAX,
    GOSSIP_LEFT_MS_MAX,
    GOSSIP_NODES_MAX,
)
from rollq.gossip.records import GONE, News, NodeId, NodeRecord, Standing

MS_PER_S: Final = 1_000


class Node:
    """Another process.

    Attributes:
        record: What it said last.
        standing: What is known of it.
        since_ms: Since when it stands so.
        heard_ms: When there was a sign of life last: it spoke, or something new of it came.
        answered_ms: When it was last told all that is known.
    """

    __slots__ = ("answered_ms", "heard_ms", "record", "since_ms", "standing")

    def __init__(
        self, record: NodeRecord, standing: Standing, since_ms: int, heard_ms: int
    ) -> None:
        self.record = record
        self.standing = standing
        self.since_ms = since_ms
        self.heard_ms = heard_ms
        self.answered_ms: int | None = None

    @property
    def is_gone(self) -> bool:
        """Whether it is dead, or has left."""
        return self.standing in GONE

    def news(self, now_ms: int) -> News:
        """The same for others."""
        age_s = max(0, now_ms - self.since_ms) // MS_PER_S if self.is_gone else 0
        return News(self.standing, age_s, self.record)


class Change(NamedTuple):
    """What became known of a node; `before` is None if it is new."""

    record: NodeRecord
    standing: Standing
    before: Standing | None


class NodeTable:
    """The others.

    Attributes:
        version: Grows with every change.
        untaken_count: Nodes for which there was no room, each time that they were heard of.
    """

    def __init__(self, nodes_max: int = GOSSIP_NODES_MAX) -> None:
        self._nodes: dict[NodeId, Node] = {}
        self._gone: dict[NodeId, Node] = {}  # of these
        self._nodes_max = nodes_max
        self._changes: list[Change] = []
        self.version = 0
        self.untaken_count = 0

    def __len__(self) -> int:
        return len(self._nodes)

    def __iter__(self) -> Iterator[Node]:
        return iter(self._nodes.values())

    def get(self, node_id: NodeId) -> Node | None:
        """One of them."""
        return self._nodes.get(node_id)

    def at(self, address: str) -> Node | None:
        """The one that is reached there, a live one first."""
        found = [node for node in self if node.record.address == address]
        return min(found, key=lambda node: node.standing, default=None)

    def present(self) -> list[Node]:
        """Those that are not gone."""
        return [node for node in self if not node.is_gone]

    def take_changes(self) -> list[Change]:
        """What has changed since this was called last."""
        changes, self._changes = self._changes, []
        return changes

    def merge(self, news: News, now_ms: int, *, is_page: bool) -> bool:
        """Take news of another node in; true if they were news.

        Args:
            news: Of a node that is not this one.
            now_ms: On the same clock as ever.
            is_page: They come in a full exchange, perhaps from somebody who was cut off: then who
                is dead for them and alive for us is a suspect, and can refute it.
        """
        record, standing, age_s = news.record, news.standing, news.age_s
        known = self._nodes.get(record.node_id)
        if known is None:
            return self._take_in(news, now_ms)
        if is_page and standing is Standing.DEAD and not known.is_gone:
            # Suspected from now on, however long the other has thought it dead.
            standing, age_s = Standing.SUSPECT, 0
        if (record.incarnation, standing) <= (known.record.incarnation, known.standing):
            return False
        if record.incarnation > known.record.incarnation and standing is Standing.ALIVE:
            known.heard_ms = now_ms
        known.record = record
        self._stand(known, standing, now_ms - age_s * MS_PER_S)
        return True

    def stand(self, node: Node, standing: Standing, now_ms: int) -> None:
        """We have found out ourselves how a node stands."""
        self._stand(node, standing, now_ms)

    def forget_gone(self, now_ms: int) -> None:
        """Those who are gone for long are not shown any more."""
        for node in [*self._gone.values()]:
            if now_ms - node.since_ms > _kept_ms(node.standing):
                self._drop(node)

    def _take_in(self, news: News, now_ms: int) -> bool:
        is_gone = news.standing in GONE
        if is_gone and news.age_s * MS_PER_S > _kept_ms(news.standing):
            return False
        if is_gone and self._is_taken(news.record.address):
            return False
        if len(self._nodes) >= self._nodes_max:
            if is_gone or not self._gone:
                self.untaken_count += 1
                return False
            self._drop(min(self._gone.values(), key=lambda node: node.since_ms))
        since_ms = now_ms - news.age_s * MS_PER_S
        node = Node(news.record, news.standing, since_ms, min(now_ms, since_ms))
        self._nodes[news.record.node_id] = node
        self._changed(node, None)
        return True

    def _stand(self, node: Node, standing: Standing, since_ms: int) -> None:
        before = node.standing
        if standing is not before:
            node.standing, node.since_ms = standing, since_ms
        self._changed(node, before)

    def _changed(self, node: Node, before: Standing | None) -> None:
        self.version += 1
        self._changes.append(Change(node.record, node.standing, before))
        if node.is_gone:
            self._gone[node.record.node_id] = node
            return
        self._gone.pop(node.record.node_id, None)
        # Whoever had this address before is not coming back to it.
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
