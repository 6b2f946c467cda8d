"""News that ride on datagrams: the newest first, each a bounded number of times. Pure."""

from __future__ import annotations

from rollq.base.federation_limits import GOSSIP_NEWS_MAX
from rollq.gossip.records import NodeId


class Spread:
    """Of which nodes there are news, and how often each is still to be told. What the news are is
    looked up when they are told: nobody is told what is outdated."""

    def __init__(self, news_max: int = GOSSIP_NEWS_MAX) -> None:
        self._left: dict[NodeId, int] = {}  # the newest last
        self._news_max = news_max

    def __len__(self) -> int:
        return len(self._left)

    def add(self, node_id: NodeId, times: int) -> None:
        """There is news of a node."""
        self._left.pop(node_id, None)
        self._left[node_id] = times
        if len(self._left) > self._news_max:
            del self._left[next(iter(self._left))]

    def newest_first(self) -> list[NodeId]:
        """Of whom there are news."""
        return list(reversed(self._left))

    def told(self, node_id: NodeId) -> None:
        """Once more."""
        left = self._left.get(node_id, 0) - 1
        if left > 0:
            self._left[node_id] = left
        else:
            self._left.pop(node_id, None)

    def drop(self, node_id: NodeId) -> None:
        """Nobody knows it any more."""
        self._left.pop(node_id, None)
