"""The virtual network: lossy links between members, and sessions that break.

Member links lose, duplicate, reorder, delay and replay messages. A session models a TCP connection:
ordered while it is open, broken at any moment, which its two ends detect at different times. Every
message is encoded and decoded by `wire.message_codec`, as in production.

A direction may also be a black hole: packets are dropped without an error. A connection that lost
bytes stays stuck in that direction after the black hole is gone, because TCP retransmits less and
less often: only reconnecting helps. An endpoint whose bytes are not acknowledged for too long gets
an error, as by TCP_USER_TIMEOUT in production; so does one that is idle on a connection that the
member has closed (keepalive).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final, Protocol

from rollq.base.limits import (
    DIAL_MS_MAX,
    KEEPALIVE_IDLE_S,
    LINK_UNACKED_MS_MAX,
    PEER_UNACKED_MS_MAX,
)
from rollq.testing.clock import MS, VirtualTimeline
from rollq.testing.jitter import SeededJitter
from rollq.testing.trace import Trace
from rollq.wire.frame import Frame
from rollq.wire.message_codec import Dialect, decode_message, encode_message

OLD_FRAMES_KEPT: Final = 64
GROUP: Final = "sim"
KEEPALIVE_MS: Final = 2 * 1_000 * KEEPALIVE_IDLE_S  # as long again for unanswered probes


class MemberPort(Protocol):
    """A member, as seen by the network."""

    address: str

    @property
    def reachable(self) -> bool:
        """Whether its process is up."""

    @property
    def life(self) -> int:
        """The number of starts of the process; a connection belongs to one."""

    @property
    def boot(self) -> int:
        """The boot number that it has announced."""

    @property
    def key(self) -> bytes:
        """The cluster key that its links prove; empty: none."""

    def receive_peer(self, sender: str, message: Any, boot: int, key: bytes) -> None:
        """A message of another member, over a link with a proven key."""

    def receive_session(self, session: int, message: Any) -> None:
        """A message of a session."""

    def session_gone(self, session: int) -> None:
        """A session was closed."""


class SessionPort(Protocol):
    """A worker or client, as seen by the network."""

    name: str

    def connected(self, link: SessionLink) -> None:
        """The connection is open."""

    def refused(self, ticket: int) -> None:
        """The connection attempt failed."""

    def receive(self, link: SessionLink, message: Any) -> None:
        """A message of the member."""

    def lost(self, link: SessionLink) -> None:
        """The connection was lost."""


@dataclass(slots=True)
class NetFaults:
    """Fault rates of the network. All zero: no faults."""

    loss_per_mille: int = 0
    double_per_mille: int = 0
    replay_per_mille: int = 0
    delay_ms_max: int = 2
    tail_per_mille: int = 0  # so many messages take up to `tail_ms_max`
    tail_ms_max: int = 0


class SessionLink:
    """One connection between an endpoint and a member."""

    __slots__ = (
        "down_stuck",
        "down_us",
        "endpoint",
        "is_closing",
        "is_timing_out",
        "life",
        "member",
        "number",
        "open",
        "up_stuck",
        "up_us",
    )

    def __init__(self, number: int, endpoint: SessionPort, member: MemberPort) -> None:
        self.number = number
        self.endpoint = endpoint
        self.member = member
        self.life = member.life
        self.open = True
        self.is_closing = False  # closed by the endpoint: messages sent before still arrive
        self.up_us = 0  # arrival of the last message each way: the next is not earlier
        self.down_us = 0
        self.up_stuck = False  # bytes to the member were lost, so nothing later arrives
        self.down_stuck = False
        self.is_timing_out = False  # a timeout of the endpoint's kernel is running


class Network:
    """All connections of a run."""

    def __init__(self, timeline: VirtualTimeline, chance: SeededJitter, trace: Trace) -> None:
        self._timeline = timeline
        self._chance = chance
        self._trace = trace
        self._session_count = 0
        self._old: deque[tuple[str, str, Frame, int, bytes]] = deque(maxlen=OLD_FRAMES_KEPT)
        self.faults = NetFaults()
        self.members: dict[str, MemberPort] = {}
        self.blocked: dict[tuple[str, str], None] = {}  # (from, to) between members
        self.shut: dict[str, None] = {}  # members that endpoints cannot reach
        # (from, to), members by address and endpoints by name
        self.blackholes: dict[tuple[str, str], None] = {}
        self._stuck: dict[tuple[str, str], int] = {}  # links between members, and since when
        self.links: dict[int, SessionLink] = {}
        self.counts = {"lost": 0, "doubled": 0, "replayed": 0, "late": 0, "blocked": 0, "sent": 0}
        self.counts["blackholed"] = 0
        self.on_delivered: Callable[[str, str, Any], None] | None = None

    # --- between members

    def send(self, sender: MemberPort, to: str, message: Any) -> None:
        """Send a message to another member; it may be lost."""
        faults, chance = self.faults, self._chance
        self.counts["sent"] += 1
        if (sender.address, to) in self.blocked:
            self.counts["blocked"] += 1
            return
        if self._is_blackholed(sender.address, to):
            return
        frame = encode_message(message, Dialect.COMPACT, GROUP)
        if faults.loss_per_mille and chance.chance(faults.loss_per_mille):
            self.counts["lost"] += 1
            return
        letter = (sender.address, to, frame, sender.boot, sender.key)
        self._carry(*letter)
        if faults.double_per_mille and chance.chance(faults.double_per_mille):
            self.counts["doubled"] += 1
            self._carry(*letter)
        if faults.replay_per_mille:
            self._old.append(letter)
            if chance.chance(faults.replay_per_mille):
                self.counts["replayed"] += 1
                self._carry(*chance.pick(self._old))

    def _is_blackholed(self, sender: str, to: str) -> bool:
        """Whether a link between members drops this. If only one direction is dead, TCP times out
        and closes the link; if both are, the member must give it up."""
        way, back, now_us = (sender, to), (to, sender), self._timeline.now_us
        if way in self.blackholes:
            self._stuck.setdefault(way, now_us)
        if way not in self._stuck:
            return False
        is_one_way = way not in self.blackholes and back not in self.blackholes | self._stuck
        if is_one_way and now_us - self._stuck[way] > PEER_UNACKED_MS_MAX * MS:
            del self._stuck[way]
            return False
        self.counts["blackholed"] += 1
        return True

    def close_peer(self, sender: MemberPort, to: str) -> None:
        """A member closes its link to another, and reconnects for the next message."""
        self._stuck.pop((sender.address, to), None)

    def _carry(self, sender: str, to: str, frame: Frame, boot: int, key: bytes) -> None:
        self._timeline.after(self._delay_us(), self._arrive, sender, to, frame, boot, key)

    def _arrive(self, sender: str, to: str, frame: Frame, boot: int, key: bytes) -> None:
        member = self.members[to]
        if member.reachable and (sender, to) not in self.blocked:
            member.receive_peer(sender, decode_message(frame, Dialect.COMPACT), boot, key)

    def _delay_us(self) -> int:
        faults = self.faults
        if faults.tail_per_mille and self._chance.chance(faults.tail_per_mille):
            self.counts["late"] += 1
            return self._chance.draw(1, faults.tail_ms_max * MS)
        return self._chance.draw(100, faults.delay_ms_max * MS)

    # --- sessions

    def dial(self, endpoint: SessionPort, address: str, ticket: int) -> None:
        """Open a connection; the endpoint gets `connected` or `refused`."""
        member = self.members.get(address)
        if member is None or not member.reachable or address in self.shut:
            self._timeline.after(self._chance.draw(1, 50) * MS, endpoint.refused, ticket)
            return
        name = endpoint.name
        if (name, address) in self.blackholes or (address, name) in self.blackholes:
            self._timeline.after(DIAL_MS_MAX * MS, endpoint.refused, ticket)
            return
        self._session_count += 1
        link = SessionLink(self._session_count, endpoint, member)
        self.links[link.number] = link
        endpoint.connected(link)

    def to_member(self, link: SessionLink, message: Any) -> None:
        """Send a message of the endpoint."""
        if not link.open or self._is_up_stuck(link):
            return
        frame = encode_message(message, Dialect.COMPACT, GROUP)
        link.up_us = max(link.up_us, self._timeline.now_us + self._delay_us())
        self._timeline.after(link.up_us - self._timeline.now_us, self._at_member, link, frame)

    def _at_member(self, link: SessionLink, frame: Frame) -> None:
        if (link.open or link.is_closing) and link.member.life == link.life:
            link.member.receive_session(link.number, decode_message(frame, Dialect.COMPACT))

    def to_endpoint(self, number: int, message: Any) -> None:
        """Send a message of a member."""
        link = self.links.get(number)
        if link is None or not link.open or self._is_down_stuck(link):
            return
        frame = encode_message(message, Dialect.COMPACT, GROUP)
        link.down_us = max(link.down_us, self._timeline.now_us + self._delay_us())
        self._timeline.after(link.down_us - self._timeline.now_us, self._at_endpoint, link, frame)

    def _at_endpoint(self, link: SessionLink, frame: Frame) -> None:
        if link.open:
            link.endpoint.receive(link, decode_message(frame, Dialect.COMPACT))

    def close_by_member(self, number: int) -> None:
        """A member closes a session; messages sent before still arrive."""
        link = self.links.get(number)
        if link is not None and link.open:
            if self._is_down_stuck(link):
                self._orphan(link)
                return
            link.down_us = max(link.down_us, self._timeline.now_us + self._delay_us())
            self._timeline.after(link.down_us - self._timeline.now_us, self._closed, link)

    def _closed(self, link: SessionLink) -> None:
        if link.open:
            self._forget(link)
            link.endpoint.lost(link)

    def close_by_endpoint(self, link: SessionLink, *, abrupt: bool = False) -> None:
        """An endpoint closes its session, or crashes: then the member may notice late."""
        if not link.open:
            return
        self._forget(link)
        if self._is_up_stuck(link):
            return
        link.is_closing = not abrupt
        delay_us = self._chance.draw(1, 3_000) * MS if abrupt else MS
        delay_us = max(delay_us, link.up_us - self._timeline.now_us)
        self._timeline.after(delay_us, self._tell_member, link)

    def cut(self, link: SessionLink) -> None:
        """Break a connection: both ends notice, at different times."""
        if not link.open:
            return
        self._trace.note(link.endpoint.name, "cut", link.number)
        self._forget(link)
        self._timeline.after(self._chance.draw(0, 1_500) * MS, self._tell_member, link)
        self._timeline.after(self._chance.draw(0, 1_500) * MS, link.endpoint.lost, link)

    def member_died(self, member: MemberPort) -> None:
        """Close every session of a member that has died."""
        for way in [way for way in self._stuck if way[0] == member.address]:
            del self._stuck[way]
        for link in [link for link in self.links.values() if link.member is member]:
            if self._is_down_stuck(link):
                self._orphan(link)
                continue
            self._forget(link)
            self._timeline.after(self._chance.draw(0, 800) * MS, link.endpoint.lost, link)

    def _orphan(self, link: SessionLink) -> None:
        """The member has forgotten a link, and the other end gets no error."""
        link.up_stuck = True
        self._time_out(link, KEEPALIVE_MS)

    def _time_out(self, link: SessionLink, after_ms: int) -> None:
        if link.open and not link.is_timing_out:
            link.is_timing_out = True
            self._timeline.after(after_ms * MS, self._closed, link)

    def _is_up_stuck(self, link: SessionLink) -> bool:
        if not link.up_stuck and (link.endpoint.name, link.member.address) in self.blackholes:
            link.up_stuck = True
        if link.up_stuck:
            self._time_out(link, LINK_UNACKED_MS_MAX)
        self.counts["blackholed"] += link.up_stuck
        return link.up_stuck

    def _is_down_stuck(self, link: SessionLink) -> bool:
        if not link.down_stuck and (link.member.address, link.endpoint.name) in self.blackholes:
            link.down_stuck = True
        self.counts["blackholed"] += link.down_stuck
        return link.down_stuck

    def _tell_member(self, link: SessionLink) -> None:
        link.is_closing = False
        if link.member.life == link.life:
            link.member.session_gone(link.number)

    def _forget(self, link: SessionLink) -> None:
        link.open = False
        self.links.pop(link.number, None)

    # --- healing

    def heal(self) -> None:
        """End all faults. Messages in flight still arrive; stuck connections stay stuck."""
        self.faults = NetFaults()
        self.blocked.clear()
        self.shut.clear()
        self.blackholes.clear()
        self._old.clear()
