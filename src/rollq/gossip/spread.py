"""The queue of updates to piggyback: newest first, each sent a bounded number of times. Pure."""

from __future__ import annotations

from rollq.base.federation_limits import GOSSIP_NEWS_MAX
from rollq.gossip.records import NodeId


class Spread:
    """Ids of the nodes with pending updates, and how often each is still to be sent. The content is
    looked up when it is sent, so that it is never outdated."""

    def __init__(self, news_max: int = GOSSIP_NEWS_MAX) -> None:
        self._left: dict[NodeId, int] = {}  # sends left, the newest update last
        self._news_max = news_max

    def __len__(self) -> int:
        return len(self._left)

    def add(self, node_id: NodeId, times: int) -> None:
        """Queue an update about a node, in place of an earlier one."""
        self._left.pop(node_id, None)
        self._left[node_id] = times
        if len(self._left) > self._news_max:
            del self._left[next(iter(self._left))]

    def newest_first(self) -> list[NodeId]:
        """The nodes with pending updates."""
        return list(reversed(self._left))

    def count_send(self, node_id: NodeId) -> None:
        """Count one send."""
        left = self._left.get(node_id, 0) - 1
        if left > 0:
            self._left[node_id] = left
        else:
            self._left.pop(node_id, None)

    def drop(self, node_id: NodeId) -> None:
        """Remove a node that is no longer in the table."""
        self._left.pop(node_id, None)
