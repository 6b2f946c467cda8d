"""SWIM: who is there, by probes and by what others say. Pure: it takes datagrams and looks at the
clock, and gives datagrams.

Each period one node is probed: all of them in a random order, then again. Who does not answer is
probed by three others; who does not answer them either is a suspect, and dead after a time in which
it could have refuted that everywhere. News ride on all of this. Now and then everything is
exchanged with one other, and with one that is dead: two halves that were apart find each other so.
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
    News,
    NodeId,
    NodeRecord,
    Probe,
    ProbeFor,
    Question,
    Standing,
    Sync,
)
from rollq.gossip.spread import Spread

T = TypeVar("T")

# Who did not look at the clock for so long was stopped itself.
PAUSE_MS: Final = 2 * GOSSIP_PERIOD_MS


class Send(NamedTuple):
    """What to send where."""

    address: str
    said: Question
    news: tuple[News, ...]


class OwnState(NamedTuple):
    """What a node says of itself that changes."""

    cluster_id: bytes = b""
    leads: bool = False
    term: int = 0
    figures: Figures = Figures()


class _Probing(NamedTuple):
    """A probe of our own."""

    number: int
    target: NodeId
    sent_ms: int
    is_helped: bool


class _Helping(NamedTuple):
    """A probe for another node."""

    address: str
    number: int  # as that node knows it
    target: NodeId


class _Page(NamedTuple):
    """A part of a full exchange that is to be sent."""

    address: str
    asks: bool
    node_ids: tuple[NodeId, ...]


class GossipMachine:
    """One node among others.

    Args:
        me: What this node says of itself first. Its incarnation is the time of its start: higher
            than in any life before.
        seeds: Addresses of others; one that is there is enough.
        jitter: Chance.
        now_ms: Monotonic, as for all calls.

    Attributes:
        me: What it says of itself now.
        nodes: The others.
    """

    def __init__(self, me: NodeRecord, seeds: Sequence[str], jitter: Jitter, now_ms: int) -> None:
        self.me = me
        self.nodes = NodeTable()
        self._standing = Standing.ALIVE  # LEFT once it stops
        self._seeds = tuple(dict.fromkeys(seed for seed in seeds if seed != me.address))
        self._jitter = jitter
        self._spread = Spread()
        self._order: list[NodeId] = []  # to be probed, the next one last
        self._number = jitter.draw(0, 2**32)
        self._probing: _Probing | None = None
        self._helping: dict[int, _Helping] = {}  # by our number, the oldest first
        self._pages: deque[_Page] = deque()
        self._looked_ms = now_ms
        self._period_ms = now_ms  # when the next one begins
        self._sync_ms = now_ms  # when everything is exchanged next
        self._sync_gap_ms = GOSSIP_PERIOD_MS
        self._spread.add(me.node_id, GOSSIP_NEWS_SENDS)

    @property
    def news_count(self) -> int:
        """How many news are being told."""
        return len(self._spread)

    def tell(self, own: OwnState) -> None:
        """What this node says of itself from now on."""
        me = self.me
        if own != OwnState(me.cluster_id, me.leads, me.term, me.figures):
            self._change_own(me.incarnation + 1, **own._asdict())

    def clock_is(self, wall_ms: int) -> None:
        """What the clock says. If it was set back, so is our incarnation: others take none from the
        future. Who knows a higher one of us says so, and is outbid."""
        if self.me.incarnation > wall_ms + GOSSIP_AGE_MS_MAX:
            self._change_own(wall_ms)

    def tick(self, now_ms: int) -> list[Send]:
        """Look at the clock; what is to be sent."""
        if now_ms - self._looked_ms > PAUSE_MS:
            self._was_stopped(now_ms - self._looked_ms)
        self._looked_ms = now_ms
        sends = [*self._maybe_ask_helpers(now_ms)]
        self._bury(now_ms)
        if now_ms >= self._period_ms:
            self._period_ms = now_ms + GOSSIP_PERIOD_MS
            self.nodes.forget_gone(now_ms)
            self._maybe_suspect(now_ms)
            sends += self._probe(now_ms)
        if now_ms >= self._sync_ms:
            self._sync(now_ms)
        return [*sends, *self._turn_pages(now_ms)]

    def receive(self, datagram: Datagram, now_ms: int) -> list[Send]:
        """Somebody said something; what is to be sent."""
        if datagram.sender == self.me.node_id or self._standing is Standing.LEFT:
            return []
        is_page = isinstance(datagram.said, Sync)
        for news in datagram.news:
            self._merge(news, now_ms, is_page=is_page)
        sender = self.nodes.get(datagram.sender)
        if sender is not None and not sender.is_gone:
            sender.heard_ms = now_ms
        return [*self._answer(datagram, sender, now_ms)]

    def leave(self) -> list[Send]:
        """This node stops: what is to be sent. Nothing may follow."""
        self._change_own(self.me.incarnation + 1)
        self._standing = Standing.LEFT
        news = (News(Standing.LEFT, 0, self.me),)
        told = self._some(self.nodes.present(), GOSSIP_LEAVE_TOLD)
        return [Send(node.record.address, Sync(asks=False), news) for node in told]

    # --- looks at the clock, in order

    def _was_stopped(self, paused_ms: int) -> None:
        """Nobody else is to blame for what was not heard meanwhile."""
        self._probing = None
        for node in self.nodes:
            if node.standing is Standing.SUSPECT:
                node.since_ms += paused_ms

    def _maybe_ask_helpers(self, now_ms: int) -> Iterator[Send]:
        probing = self._probing
        if probing is None or probing.is_helped or now_ms - probing.sent_ms < GOSSIP_ACK_MS:
            return
        self._probing = probing._replace(is_helped=True)
        asked = ProbeFor(probing.number, probing.target)
        others = [
            node
            for node in self.nodes
            if node.standing is Standing.ALIVE and node.record.node_id != probing.target
        ]
        for helper in self._some(others, GOSSIP_HELPERS):
            yield self._send(helper, asked, now_ms)

    def _bury(self, now_ms: int) -> None:
        suspect_ms = GOSSIP_SUSPECT_PERIODS * GOSSIP_PERIOD_MS * self._log_size()
        for node in self.nodes:
            if node.standing is Standing.SUSPECT and now_ms - node.since_ms > suspect_ms:
                self._found(node, Standing.DEAD, now_ms)

    def _maybe_suspect(self, now_ms: int) -> None:
        probing, self._probing = self._probing, None
        target = None if probing is None else self.nodes.get(probing.target)
        if target is not None and target.standing is Standing.ALIVE:
            self._found(target, Standing.SUSPECT, now_ms)

    def _probe(self, now_ms: int) -> Iterator[Send]:
        """Probe the next one."""
        target = self._next_target()
        if target is not None:
            number = self._next_number()
            self._probing = _Probing(number, target.record.node_id, now_ms, is_helped=False)
            yield self._send(target, Probe(number, target.record.node_id), now_ms)

    def _next_target(self) -> Node | None:
        for _ in range(2):
            while self._order:
                node = self.nodes.get(self._order.pop())
                if node is not None and not node.is_gone:
                    return node
            present = self.nodes.present()
            self._order = [node.record.node_id for node in self._some(present, len(present))]
        return None

    def _sync(self, now_ms: int) -> None:
        """Exchange everything with one that is there, one that is dead, and a seed that is not
        known to be there; with all seeds as long as nobody is."""
        alive = [node for node in self.nodes if node.standing is Standing.ALIVE]
        dead = [node for node in self.nodes if node.standing is Standing.DEAD]
        taken = {node.record.address for node in alive}
        seeds = [seed for seed in self._seeds if seed not in taken]
        if alive:
            seeds = self._some(seeds, 1)
            # Often at first: of those that start together, none knows much yet.
            self._sync_gap_ms = min(2 * self._sync_gap_ms, GOSSIP_SYNC_MS)
        gap_ms = self._sync_gap_ms
        self._sync_ms = now_ms + self._jitter.draw(gap_ms // 2, gap_ms + gap_ms // 2)
        chosen = [node.record.address for node in (*self._some(alive, 1), *self._some(dead, 1))]
        for address in dict.fromkeys((*chosen, *seeds)):
            self._tell_all(address, now_ms, asks=True)

    def _turn_pages(self, now_ms: int) -> Iterator[Send]:
        for _ in range(min(len(self._pages), GOSSIP_PAGES_PER_TICK)):
            page = self._pages.popleft()
            told = (self._news_on(node_id, now_ms) for node_id in page.node_ids)
            # A record may have grown since its page was made: what does not fit comes another time.
            news = packed(one for one in told if one is not None)
            yield Send(page.address, Sync(page.asks), news)

    # --- what others say

    def _merge(self, news: News, now_ms: int, *, is_page: bool) -> None:
        node_id = news.record.node_id
        if node_id == self.me.node_id:
            self._maybe_refute(news)
        elif self.nodes.merge(news, now_ms, is_page=is_page):
            self._tell_news(node_id)

    def _maybe_refute(self, news: News) -> None:
        """Who says that we are gone, or knows us from an earlier life, or takes another for us, is
        told better."""
        said = news.record
        if said.incarnation < self.me.incarnation:
            return
        if news.standing is not Standing.ALIVE or said != self.me:
            self._change_own(said.incarnation + 1)

    def _answer(self, datagram: Datagram, sender: Node | None, now_ms: int) -> Iterator[Send]:
        said, address = datagram.said, datagram.address
        if isinstance(said, Probe):
            if said.target == self.me.node_id:
                yield self._reply(sender, address, Ack(said.number, said.target), now_ms)
        elif isinstance(said, ProbeFor):
            yield from self._help(said, address, now_ms)
        elif isinstance(said, Ack):
            yield from self._acked(said, now_ms)
        elif said.asks and sender is not None:
            is_early = (
                sender.answered_ms is not None
                and now_ms - sender.answered_ms < GOSSIP_SYNC_ANSWER_MS
            )
            if not is_early:
                sender.answered_ms = now_ms
                self._tell_all(address, now_ms, asks=False)

    def _help(self, asked: ProbeFor, address: str, now_ms: int) -> Iterator[Send]:
        target = self.nodes.get(asked.target)
        if target is None:
            return
        number = self._next_number()
        self._helping[number] = _Helping(address, asked.number, asked.target)
        if len(self._helping) > GOSSIP_PROBES_MAX:
            del self._helping[next(iter(self._helping))]
        yield self._send(target, Probe(number, asked.target), now_ms)

    def _acked(self, ack: Ack, now_ms: int) -> Iterator[Send]:
        probing = self._probing
        if probing is not None and (probing.number, probing.target) == (ack.number, ack.target):
            self._probing = None
            target = self.nodes.get(ack.target)
            if target is not None and not target.is_gone:
                target.heard_ms = now_ms
            return
        helping = self._helping.get(ack.number)
        if helping is not None and helping.target == ack.target:
            del self._helping[ack.number]
            said = Ack(helping.number, helping.target)
            yield self._reply(self.nodes.at(helping.address), helping.address, said, now_ms)

    # --- what is said

    def _send(self, node: Node, said: Question, now_ms: int) -> Send:
        return self._reply(node, node.record.address, said, now_ms)

    def _reply(self, node: Node | None, address: str, said: Question, now_ms: int) -> Send:
        """With news: first what we think of the receiver, if that is nothing good, so that it can
        refute it; then the newest."""
        chosen = packed(self._riding(node, now_ms))
        for one in chosen:
            self._spread.told(one.record.node_id)
        return Send(address, said, chosen)

    def _riding(self, receiver: Node | None, now_ms: int) -> Iterator[News]:
        is_ill = receiver is not None and receiver.standing is not Standing.ALIVE
        first = (receiver.record.node_id,) if receiver is not None and is_ill else ()
        for node_id in dict.fromkeys((*first, *self._spread.newest_first())):
            news = self._news_on(node_id, now_ms)
            if news is None:
                self._spread.drop(node_id)
            else:
                yield news

    def _tell_all(self, address: str, now_ms: int, *, asks: bool) -> None:
        """Send all that is known, in pages: ourselves and the receiver first."""
        receiver = self.nodes.at(address)
        first = [] if receiver is None else [receiver.news(now_ms)]
        others = [node.news(now_ms) for node in self.nodes if node is not receiver]
        mine = News(self._standing, 0, self.me)
        for page in in_pages((mine, *first, *others)):
            if len(self._pages) < GOSSIP_PAGES_MAX:
                self._pages.append(
                    _Page(address, asks, tuple(news.record.node_id for news in page))
                )
            asks = False

    def _news_on(self, node_id: NodeId, now_ms: int) -> News | None:
        if node_id == self.me.node_id:
            return News(self._standing, 0, self.me)
        node = self.nodes.get(node_id)
        return None if node is None else node.news(now_ms)

    # --- helpers

    def _found(self, node: Node, standing: Standing, now_ms: int) -> None:
        self.nodes.stand(node, standing, now_ms)
        self._tell_news(node.record.node_id)

    def _change_own(self, incarnation: int, **changes: object) -> None:
        self.me = msgspec.structs.replace(self.me, incarnation=incarnation, **changes)
        self.nodes.version += 1
        self._tell_news(self.me.node_id)

    def _tell_news(self, node_id: NodeId) -> None:
        self._spread.add(node_id, GOSSIP_NEWS_SENDS * self._log_size())

    def _log_size(self) -> int:
        """The logarithm of the number of nodes, this one too, rounded up."""
        return (len(self.nodes) + 1).bit_length()

    def _next_number(self) -> int:
        self._number += 1
        return self._number

    def _some(self, items: Sequence[T], count: int) -> list[T]:
        """So many of these, by chance."""
        left = list(items)
        for place in range(min(count, len(left))):
            other = self._jitter.draw(place, len(left))
            left[place], left[other] = left[other], left[place]
        return left[:count]
