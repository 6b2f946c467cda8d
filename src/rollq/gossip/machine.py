"""SWIM failure detection and dissemination. Pure: datagrams and ticks in, datagrams out.

Each period one node is probed, in a random order that is drawn again after each round. A node that
does not answer is probed indirectly, by three others; if that fails too it is a suspect, and it is
declared dead after a time that is long enough for a refutation to reach every node. Updates are
piggybacked on all messages. From time to time the full table is exchanged with one live node and
with one dead one: this is how the two sides of a healed partition find each other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple, TypeVar

import msgspec

from rollq.base.federation_limits import (
    GOSSIP_ACK_MS,
    GOSSIP_AGE_MS_MAX,
    GOSSIP_HELPERS,
    GOSSIP_LEAVE_TOLD,
    GOSSIP_NEWS_SENDS,
    GOSSIP_PAGES_MAX,
    GOSSIP_PAGES_PER_TICK,
    GOSSIP_PERIOD_MS,
    GOSSIP_PROBES_MAX,
    GOSSIP_SUSPECT_PERIODS,
    GOSSIP_SYNC_ANSWER_MS,
    GOSSIP_SYNC_MS,
)
from rollq.base.stamp import Jitter
from rollq.gossip.codec import in_pages, packed
from rollq.gossip.nodes import Node, NodeTable
from rollq.gossip.records import (
    Ack,
    Datagram,
    Figures,
    Message,
    NodeId,
    NodeRecord,
    NodeUpdate,
    Probe,
    ProbeFor,
    Standing,
    Sync,
)
from rollq.gossip.spread import Spread

T = TypeVar("T")

# After a gap this long between ticks this process itself was paused.
PAUSE_MS: Final = 2 * GOSSIP_PERIOD_MS


class Send(NamedTuple):
    """A message to send."""

    address: str
    message: Message
    updates: tuple[NodeUpdate, ...]


class OwnState(NamedTuple):
    """The fields of a node's own record that change."""

    cluster_id: bytes = b""
    leads: bool = False
    term: int = 0
    figures: Figures = Figures()


class _DirectProbe(NamedTuple):
    """The direct probe of this period."""

    number: int
    target: NodeId
    sent_ms: int
    is_indirect: bool


class _RelayedProbe(NamedTuple):
    """A probe sent on behalf of another node."""

    address: str
    number: int  # of the requester's probe
    target: NodeId


class _Page(NamedTuple):
    """A page of a full table exchange that waits to be sent."""

    address: str
    asks: bool
    node_ids: tuple[NodeId, ...]


class GossipMachine:
    """The SWIM state of this node.

    Args:
        me: The first own record. Its incarnation is the start time, so it exceeds those of earlier
            lives.
        seeds: Addresses of other nodes; one that answers is enough.
        jitter: Randomness.
        now_ms: Monotonic, as for all calls.

    Attributes:
        me: The own record, with the current incarnation.
        nodes: All other nodes.
    """

    def __init__(self, me: NodeRecord, seeds: Sequence[str], jitter: Jitter, now_ms: int) -> None:
        self.me = me
        self.nodes = NodeTable()
        self._standing = Standing.ALIVE  # LEFT once it stops
        self._seeds = tuple(dict.fromkeys(seed for seed in seeds if seed != me.address))
        self._jitter = jitter
        self._spread = Spread()
        self._order: list[NodeId] = []  # nodes left in this probe round, the next one last
        self._number = jitter.draw(0, 2**32)
        self._probing: _DirectProbe | None = None
        self._relayed: dict[int, _RelayedProbe] = {}  # by probe number, the oldest first
        self._pages: deque[_Page] = deque()
        self._last_tick_ms = now_ms
        self._period_ms = now_ms  # when the next period begins
        self._sync_ms = now_ms  # when the next full exchange begins
        self._sync_gap_ms = GOSSIP_PERIOD_MS
        self._spread.add(me.node_id, GOSSIP_NEWS_SENDS)

    @property
    def update_count(self) -> int:
        """How many updates are still being disseminated."""
        return len(self._spread)

    def set_own_state(self, own: OwnState) -> None:
        """Set the fields of the own record that change."""
        me = self.me
        if own != OwnState(me.cluster_id, me.leads, me.term, me.figures):
            self._change_own(me.incarnation + 1, **own._asdict())

    def set_wall_clock(self, wall_ms: int) -> None:
        """Check the wall clock. If it was set back, so is the own incarnation: nodes refuse one
        from the future. A node that still has a higher one reports it, and it is then exceeded."""
        if self.me.incarnation > wall_ms + GOSSIP_AGE_MS_MAX:
            self._change_own(wall_ms)

    def tick(self, now_ms: int) -> list[Send]:
        """Run the timers; returns the messages to send."""
        if now_ms - self._last_tick_ms > PAUSE_MS:
            self._shift_suspicions(now_ms - self._last_tick_ms)
        self._last_tick_ms = now_ms
        sends = [*self._maybe_probe_indirectly(now_ms)]
        self._declare_dead(now_ms)
        if now_ms >= self._period_ms:
            self._period_ms = now_ms + GOSSIP_PERIOD_MS
            self.nodes.forget_gone(now_ms)
            self._maybe_suspect(now_ms)
            sends += self._probe(now_ms)
        if now_ms >= self._sync_ms:
            self._sync(now_ms)
        return [*sends, *self._send_pages(now_ms)]

    def receive(self, datagram: Datagram, now_ms: int) -> list[Send]:
        """Handle a datagram; returns the messages to send."""
        if datagram.sender == self.me.node_id or self._standing is Standing.LEFT:
            return []
        is_page = isinstance(datagram.message, Sync)
        for update in datagram.updates:
            self._merge(update, now_ms, is_page=is_page)
        sender = self.nodes.get(datagram.sender)
        if sender is not None and not sender.is_gone:
            sender.heard_ms = now_ms
        return [*self._answer(datagram, sender, now_ms)]

    def leave(self) -> list[Send]:
        """Leave the federation; returns the last messages to send. No other call may follow."""
        self._change_own(self.me.incarnation + 1)
        self._standing = Standing.LEFT
        updates = (NodeUpdate(Standing.LEFT, 0, self.me),)
        recipients = self._sample(self.nodes.present(), GOSSIP_LEAVE_TOLD)
        return [Send(node.record.address, Sync(asks=False), updates) for node in recipients]

    # --- timers, in order

    def _shift_suspicions(self, paused_ms: int) -> None:
        """Extend suspicions by the time of our own pause: no refutation could be received in it."""
        self._probing = None
        for node in self.nodes:
            if node.standing is Standing.SUSPECT:
                node.since_ms += paused_ms

    def _maybe_probe_indirectly(self, now_ms: int) -> Iterator[Send]:
        probing = self._probing
        if probing is None or probing.is_indirect or now_ms - probing.sent_ms < GOSSIP_ACK_MS:
            return
        self._probing = probing._replace(is_indirect=True)
        asked = ProbeFor(probing.number, probing.target)
        others = [
            node
            for node in self.nodes
            if node.standing is Standing.ALIVE and node.record.node_id != probing.target
        ]
        for helper in self._sample(others, GOSSIP_HELPERS):
            yield self._send(helper, asked, now_ms)

    def _declare_dead(self, now_ms: int) -> None:
        suspect_ms = GOSSIP_SUSPECT_PERIODS * GOSSIP_PERIOD_MS * self._log_size()
        for node in self.nodes:
            if node.standing is Standing.SUSPECT and now_ms - node.since_ms > suspect_ms:
                self._set_standing(node, Standing.DEAD, now_ms)

    def _maybe_suspect(self, now_ms: int) -> None:
        probing, self._probing = self._probing, None
        target = None if probing is None else self.nodes.get(probing.target)
        if target is not None and target.standing is Standing.ALIVE:
            self._set_standing(target, Standing.SUSPECT, now_ms)

    def _probe(self, now_ms: int) -> Iterator[Send]:
        target = self._next_target()
        if target is not None:
            number = self._next_number()
            self._probing = _DirectProbe(number, target.record.node_id, now_ms, is_indirect=False)
            yield self._send(target, Probe(number, target.record.node_id), now_ms)

    def _next_target(self) -> Node | None:
        for _ in range(2):
            while self._order:
                node = self.nodes.get(self._order.pop())
                if node is not None and not node.is_gone:
                    return node
            present = self.nodes.present()
            self._order = [node.record.node_id for node in self._sample(present, len(present))]
        return None

    def _sync(self, now_ms: int) -> None:
        """Start a full exchange with one live node, one dead node, and one seed that is not known
        to be alive; with all such seeds while no node is."""
        alive = [node for node in self.nodes if node.standing is Standing.ALIVE]
        dead = [node for node in self.nodes if node.standing is Standing.DEAD]
        taken = {node.record.address for node in alive}
        seeds = [seed for seed in self._seeds if seed not in taken]
        if alive:
            seeds = self._sample(seeds, 1)
            # Frequent at first: of nodes that start together, none knows many yet.
            self._sync_gap_ms = min(2 * self._sync_gap_ms, GOSSIP_SYNC_MS)
        gap_ms = self._sync_gap_ms
        self._sync_ms = now_ms + self._jitter.draw(gap_ms // 2, gap_ms + gap_ms // 2)
        chosen = [node.record.address for node in (*self._sample(alive, 1), *self._sample(dead, 1))]
        for address in dict.fromkeys((*chosen, *seeds)):
            self._queue_full_table(address, now_ms, asks=True)

    def _send_pages(self, now_ms: int) -> Iterator[Send]:
        for _ in range(min(len(self._pages), GOSSIP_PAGES_PER_TICK)):
            page = self._pages.popleft()
            pending = (self._update_of(node_id, now_ms) for node_id in page.node_ids)
            # A record may have grown since its page was made: what does not fit is left out.
            updates = packed(one for one in pending if one is not None)
            yield Send(page.address, Sync(page.asks), updates)

    # --- received messages

    def _merge(self, update: NodeUpdate, now_ms: int, *, is_page: bool) -> None:
        node_id = update.record.node_id
        if node_id == self.me.node_id:
            self._maybe_refute(update)
        elif self.nodes.merge(update, now_ms, is_page=is_page):
            self._disseminate(node_id)

    def _maybe_refute(self, update: NodeUpdate) -> None:
        """Refute a record that declares this node gone, is from an earlier life, or has its id but
        another content: raise the incarnation above it."""
        claimed = update.record
        if claimed.incarnation < self.me.incarnation:
            return
        if update.standing is not Standing.ALIVE or claimed != self.me:
            self._change_own(claimed.incarnation + 1)

    def _answer(self, datagram: Datagram, sender: Node | None, now_ms: int) -> Iterator[Send]:
        message, address = datagram.message, datagram.address
        if isinstance(message, Probe):
            if message.target == self.me.node_id:
                yield self._reply(sender, address, Ack(message.number, message.target), now_ms)
        elif isinstance(message, ProbeFor):
            yield from self._relay_probe(message, address, now_ms)
        elif isinstance(message, Ack):
            yield from self._acked(message, now_ms)
        elif message.asks and sender is not None:
            is_early = (
                sender.synced_ms is not None and now_ms - sender.synced_ms < GOSSIP_SYNC_ANSWER_MS
            )
            if not is_early:
                sender.synced_ms = now_ms
                self._queue_full_table(address, now_ms, asks=False)

    def _relay_probe(self, asked: ProbeFor, address: str, now_ms: int) -> Iterator[Send]:
        target = self.nodes.get(asked.target)
        if target is None:
            return
        number = self._next_number()
        self._relayed[number] = _RelayedProbe(address, asked.number, asked.target)
        if len(self._relayed) > GOSSIP_PROBES_MAX:
            del self._relayed[next(iter(self._relayed))]
        yield self._send(target, Probe(number, asked.target), now_ms)

    def _acked(self, ack: Ack, now_ms: int) -> Iterator[Send]:
        probing = self._probing
        if probing is not None and (probing.number, probing.target) == (ack.number, ack.target):
            self._probing = None
            target = self.nodes.get(ack.target)
            if target is not None and not target.is_gone:
                target.heard_ms = now_ms
            return
        helping = self._relayed.get(ack.number)
        if helping is not None and helping.target == ack.target:
            del self._relayed[ack.number]
            message = Ack(helping.number, helping.target)
            yield self._reply(self.nodes.at(helping.address), helping.address, message, now_ms)

    # --- messages to send

    def _send(self, node: Node, message: Message, now_ms: int) -> Send:
        return self._reply(node, node.record.address, message, now_ms)

    def _reply(self, node: Node | None, address: str, message: Message, now_ms: int) -> Send:
        """Piggyback updates: first our view of the receiver if it is not alive, so that it can
        refute it; then the newest."""
        chosen = packed(self._updates_for(node, now_ms))
        for one in chosen:
            self._spread.count_send(one.record.node_id)
        return Send(address, message, chosen)

    def _updates_for(self, receiver: Node | None, now_ms: int) -> Iterator[NodeUpdate]:
        is_suspected = receiver is not None and receiver.standing is not Standing.ALIVE
        first = (receiver.record.node_id,) if receiver is not None and is_suspected else ()
        for node_id in dict.fromkeys((*first, *self._spread.newest_first())):
            update = self._update_of(node_id, now_ms)
            if update is None:
                self._spread.drop(node_id)
            else:
                yield update

    def _queue_full_table(self, address: str, now_ms: int, *, asks: bool) -> None:
        """Queue all records in pages: our own and the receiver's first."""
        receiver = self.nodes.at(address)
        first = [] if receiver is None else [receiver.as_update(now_ms)]
        others = [node.as_update(now_ms) for node in self.nodes if node is not receiver]
        mine = NodeUpdate(self._standing, 0, self.me)
        for page in in_pages((mine, *first, *others)):
            if len(self._pages) < GOSSIP_PAGES_MAX:
                self._pages.append(
                    _Page(address, asks, tuple(update.record.node_id for update in page))
                )
            asks = False

    def _update_of(self, node_id: NodeId, now_ms: int) -> NodeUpdate | None:
        if node_id == self.me.node_id:
            return NodeUpdate(self._standing, 0, self.me)
        node = self.nodes.get(node_id)
        return None if node is None else node.as_update(now_ms)

    # --- helpers

    def _set_standing(self, node: Node, standing: Standing, now_ms: int) -> None:
        self.nodes.set_standing(node, standing, now_ms)
        self._disseminate(node.record.node_id)

    def _change_own(self, incarnation: int, **changes: object) -> None:
        self.me = msgspec.structs.replace(self.me, incarnation=incarnation, **changes)
        self.nodes.version += 1
        self._disseminate(self.me.node_id)

    def _disseminate(self, node_id: NodeId) -> None:
        self._spread.add(node_id, GOSSIP_NEWS_SENDS * self._log_size())

    def _log_size(self) -> int:
        """log2 of the number of nodes, this one included, rounded up."""
        return (len(self.nodes) + 1).bit_length()

    def _next_number(self) -> int:
        self._number += 1
        return self._number

    def _sample(self, items: Sequence[T], count: int) -> list[T]:
        """A random sample of at most `count` items."""
        left = list(items)
        for place in range(min(count, len(left))):
            other = self._jitter.draw(place, len(left))
            left[place], left[other] = left[other], left[place]
        return left[:count]
