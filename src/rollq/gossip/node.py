"""A running gossip node: the machine with a UDP socket and a clock."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from rollq.base.counters import Family, counter, counters_by, gauge, gauges_by
from rollq.base.errors import ErrorCode, LocalError, RollqError
from rollq.base.federation_limits import (
    GOSSIP_ADDRESS_BYTES_MAX,
    GOSSIP_FIGURES_MS,
    GOSSIP_GROUP_BYTES_MAX,
    GOSSIP_TICK_MS,
)
from rollq.base.log_events import (
    DATAGRAM_REFUSED,
    GROUP_CONFLICT,
    NODE_DOWN,
    NODE_LEFT,
    NODE_UP,
    seldom,
    tell,
)
from rollq.base.repeats import Repeats
from rollq.base.stamp import Clock, Jitter
from rollq.gossip.codec import (
    DatagramRefusal,
    decode_datagram,
    encode_datagram,
    is_address,
    is_name,
)
from rollq.gossip.machine import GossipMachine, OwnState, Send
from rollq.gossip.map import FederationView, federation_view
from rollq.gossip.nodes import Change
from rollq.gossip.records import GONE, Datagram, Figures, NodeId, NodeKind, NodeRecord, Standing
from rollq.gossip.resolver import Resolver
from rollq.gossip.setup import FederationSetup

log = logging.getLogger("rollq.gossip")

WHY: Final = {
    DatagramRefusal.TOO_LONG: "it is too long",
    DatagramRefusal.BAD_VERSION: "it is not a gossip message of this version",
    DatagramRefusal.NO_KEY: "it is signed with a key that is not in the key file here",
    DatagramRefusal.BAD_MAC: "its signature is wrong",
    DatagramRefusal.BAD_BODY: "its content is not valid",
    DatagramRefusal.TOO_OLD: "it is too old, or the clocks differ",
}


@dataclass(frozen=True, slots=True)
class OwnNode:
    """How a process describes itself to others.

    Attributes:
        node_id: Of a member, its id; else random.
        kind: Member or router.
        group: Of a member, the name of its group.
        address: The address to advertise.
        state: Returns the changing fields without figures; called at each tick.
        figures: Returns the figures of the group; called every GOSSIP_FIGURES_MS.
    """

    node_id: NodeId
    kind: NodeKind
    group: str
    address: str
    state: Callable[[], OwnState] = OwnState
    figures: Callable[[], Figures] = Figures


class GossipNode:
    """One node. Not thread-safe: used on one event loop.

    Attributes:
        machine: The SWIM state.
        refused: Dropped datagrams, by reason.
    """

    def __init__(self, setup: FederationSetup, own: OwnNode, clock: Clock, jitter: Jitter) -> None:
        self._setup = setup
        self._own = own
        self._clock = clock
        self._jitter = jitter
        record = NodeRecord(
            own.node_id, own.kind, own.group, b"", own.address, incarnation=clock.wall_ms()
        )
        _check(record)
        self.machine = GossipMachine(record, setup.seeds, jitter, clock.now_ms())
        self.refused: Counter[DatagramRefusal] = Counter()
        self._counted: Counter[str] = Counter()
        self._repeats = Repeats()
        self._transport: asyncio.DatagramTransport | None = None
        self._resolver: Resolver | None = None
        self._ticker: asyncio.TimerHandle | None = None
        self._state = OwnState()
        self._figures_ms = 0  # when they are sent next

    async def start(self, host: str, port: int) -> None:
        """Listen on this UDP port and start gossiping.

        Raises:
            LocalError: CANNOT_LISTEN.
        """
        self._loop = asyncio.get_running_loop()
        try:
            self._transport, _ = await self._loop.create_datagram_endpoint(
                lambda: _Protocol(self._received), local_addr=(host or "0.0.0.0", port)
            )
        except OSError as error:
            raise LocalError(
                ErrorCode.CANNOT_LISTEN,
                f"cannot gossip on UDP {host}:{port}: {error.strerror or error}",
                "use another port, or stop the process that has this one",
            ) from None
        self._resolver = Resolver(self._transport.get_extra_info("socket").family)
        self._tick()

    async def stop(self) -> None:
        """Send the leave messages and close the socket. Idempotent."""
        transport, self._transport = self._transport, None
        if transport is None:
            return
        if self._ticker is not None:
            self._ticker.cancel()
        self._send(transport, self.machine.leave())
        transport.close()
        if self._resolver is not None:
            await self._resolver.stop()

    def view(self) -> FederationView:
        """The map of the federation."""
        return federation_view(self.machine, self._clock.now_ms())

    def families(self) -> list[Family]:
        """Metrics."""
        by_standing = dict.fromkeys((one.name.lower() for one in Standing), 0)
        by_standing[Standing.ALIVE.name.lower()] = 1  # this one
        for node in self.machine.nodes:
            by_standing[node.standing.name.lower()] += 1
        return [
            gauges_by("rollq_gossip_nodes", "standing", by_standing),
            gauge("rollq_gossip_news", self.machine.update_count),
            counter("rollq_gossip_nodes_untaken_total", self.machine.nodes.dropped_count),
            counter("rollq_gossip_sent_total", self._counted["sent"]),
            counter("rollq_gossip_received_total", self._counted["received"]),
            counters_by(
                "rollq_gossip_refused_total",
                "reason",
                {reason.value: self.refused[reason] for reason in DatagramRefusal},
            ),
        ]

    # --- input and output

    def _tick(self) -> None:
        if self._transport is None:
            return
        self._ticker = self._loop.call_later(GOSSIP_TICK_MS / 1000, self._tick)
        now_ms = self._clock.now_ms()
        self.machine.set_wall_clock(self._clock.wall_ms())
        self._tell_own(now_ms)
        self._send(self._transport, self.machine.tick(now_ms))
        self._follow()

    def _tell_own(self, now_ms: int) -> None:
        """A change of leadership is sent at once, figures periodically."""
        state = self._own.state()
        if state != self._state or now_ms >= self._figures_ms:
            self._state = state
            self._figures_ms = now_ms + GOSSIP_FIGURES_MS
            self.machine.set_own_state(state._replace(figures=self._own.figures()))

    def _received(self, data: bytes, address: tuple[Any, ...]) -> None:
        if self._transport is None:
            return
        self._counted["received"] += 1
        now_ms = self._clock.now_ms()
        datagram = decode_datagram(self._setup.keys, data, self._clock.wall_ms())
        if isinstance(datagram, DatagramRefusal):
            self.refused[datagram] += 1
            fields = {"address": f"{address[0]}:{address[1]}", "cause": WHY[datagram]}
            if (told := seldom(self._repeats, datagram.value, now_ms, fields)) is not None:
                tell(log, DATAGRAM_REFUSED, **told)
            return
        self._send(self._transport, self.machine.receive(datagram, now_ms))
        self._follow()

    def _send(self, transport: asyncio.DatagramTransport, sends: list[Send]) -> None:
        assert self._resolver is not None
        me = self.machine.me
        for send in sends:
            # Drop what cannot be sent: a bad address, or an error of the socket.
            with contextlib.suppress(RollqError, OSError):
                to = self._resolver.get(send.address)
                if to is not None:
                    datagram = Datagram(
                        self._clock.wall_ms(), me.node_id, me.address, send.message, send.updates
                    )
                    transport.sendto(encode_datagram(self._setup.keys[0], datagram), to)
                    self._counted["sent"] += 1

    def _follow(self) -> None:
        """Log the changes of the node table."""
        changes = self.machine.nodes.take_changes()
        for change in changes:
            self._log_change(change)
        if any(change.before is not change.standing for change in changes):
            self._log_conflicts()

    def _log_change(self, change: Change) -> None:
        record, before = change.record, change.before
        was_there = before is not None and before not in GONE
        is_there = change.standing not in GONE
        if was_there == is_there:
            return
        event = (
            NODE_UP if is_there else NODE_LEFT if change.standing is Standing.LEFT else NODE_DOWN
        )
        kind = record.kind.name.lower()
        tell(log, event, kind=kind, address=record.address, group=record.group)

    def _log_conflicts(self) -> None:
        now_ms = self._clock.now_ms()
        for name in dict.fromkeys(one.name for one in self.view().groups if one.is_conflict):
            told = seldom(self._repeats, f"conflict {name}", now_ms, {"group": name})
            if told is not None:
                tell(log, GROUP_CONFLICT, **told)


class _Protocol(asyncio.DatagramProtocol):
    """Receives datagrams. ICMP errors of datagrams that we sent are ignored."""

    def __init__(self, on_datagram: Callable[[bytes, tuple[Any, ...]], None]) -> None:
        self._on_datagram = on_datagram

    def datagram_received(self, data: bytes, addr: tuple[Any, ...]) -> None:
        self._on_datagram(data, addr)


def _check(record: NodeRecord) -> None:
    """Check that other nodes will accept the own record.

    Raises:
        LocalError: BAD_SETUP.
    """
    if not is_name(record.group, GOSSIP_GROUP_BYTES_MAX):
        hint = f"use at most {GOSSIP_GROUP_BYTES_MAX} bytes of printable text"
        raise _unusable("the name of the group", record.group, hint)
    if not is_address(record.address):
        hint = (
            f"use host:port, at most {GOSSIP_ADDRESS_BYTES_MAX} bytes of printable text without "
            "spaces and commas"
        )
        raise _unusable("the address", record.address, hint)


def _unusable(what: str, text: str, hint: str) -> LocalError:
    problem = f"{what} cannot be used in a federation: {text[:64]!a}"
    return LocalError(ErrorCode.BAD_SETUP, problem, hint)
