"""A federation in virtual time: gossip machines on a network that loses, delays, duplicates and
partitions. Every datagram goes through the codec, as in production."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Final

from rollq.base.federation_limits import GOSSIP_PERIOD_MS, GOSSIP_TICK_MS
from rollq.gossip.codec import DatagramRefusal, Key, decode_datagram, encode_datagram
from rollq.gossip.machine import GossipMachine, Send
from rollq.gossip.records import Datagram, NodeKind, NodeRecord, Standing
from rollq.testing.clock import MS, VirtualClock, VirtualTimeline
from rollq.testing.jitter import Streams

KEY: Final[Key] = (b"key1", b"k" * 32)


@dataclass(slots=True)
class GossipFaults:
    """Fault rates of the network. All zero: no faults."""

    lost_per_mille: int = 0
    doubled_per_mille: int = 0
    delay_ms_max: int = 5


class SimGossipNode:
    """One process: it can be suspended, killed and restarted.

    Attributes:
        machine: Of the current life.
        keys: The first signs, all are accepted.
        refused: Datagrams that it dropped.
        bytes_max: The size of the largest datagram sent.
    """

    def __init__(self, federation: SimFederation, number: int, keys: tuple[Key, ...]) -> None:
        self._federation = federation
        self.keys = keys
        self.number = number
        self.node_id = number.to_bytes(8, "big")
        self.address = f"10.0.{number // 256}.{number % 256}:5000"
        self.clock = VirtualClock(federation.timeline)
        self.refused: list[DatagramRefusal] = []
        self.bytes_max = 0
        self.is_running = False
        self.is_stopped = False
        self.machine = self._new_machine(())

    def start(self, seeds: Collection[str]) -> None:
        """Start a new life."""
        self.is_running = True
        self.machine = self._new_machine(seeds)

    def kill(self) -> None:
        """Crash."""
        self.is_running = False

    def leave(self) -> None:
        """Stop cleanly."""
        self._post(self.machine.leave())
        self.is_running = False

    def tick(self) -> None:
        """Run the timers, unless it is suspended."""
        if self.is_running and not self.is_stopped:
            self.machine.set_wall_clock(self.clock.wall_ms())
            self._post(self.machine.tick(self.clock.now_ms()))

    def receive(self, data: bytes) -> None:
        """Handle a datagram."""
        if not self.is_running or self.is_stopped:
            return
        datagram = decode_datagram(self.keys, data, self.clock.wall_ms())
        if isinstance(datagram, DatagramRefusal):
            self.refused.append(datagram)
        else:
            self._post(self.machine.receive(datagram, self.clock.now_ms()))

    def standing_of(self, other: SimGossipNode) -> Standing | None:
        """The standing of another node in its table; None: unknown."""
        node = self.machine.nodes.get(other.node_id)
        return None if node is None else node.standing

    def knows(self, other: SimGossipNode) -> bool:
        """Whether it considers another node present: alive or suspect."""
        return self.standing_of(other) in (Standing.ALIVE, Standing.SUSPECT)

    def _new_machine(self, seeds: Collection[str]) -> GossipMachine:
        group, jitter = f"g{self.number}", self._federation.streams.named(f"node{self.number}")
        record = NodeRecord(
            self.node_id, NodeKind.MEMBER, group, self.node_id, self.address, self.clock.wall_ms()
        )
        return GossipMachine(record, tuple(seeds), jitter, self.clock.now_ms())

    def _post(self, sends: list[Send]) -> None:
        me = self.machine.me
        for send in sends:
            said = Datagram(
                self.clock.wall_ms(), me.node_id, me.address, send.message, send.updates
            )
            data = encode_datagram(self.keys[0], said)
            self.bytes_max = max(self.bytes_max, len(data))
            self._federation.post(self.address, send.address, data)


class SimFederation:
    """Nodes, and the network between them.

    Attributes:
        nodes: All of them, running or not.
        faults: The current faults of the network.
        taps: Callbacks for every datagram sent: from, to, bytes.
    """

    def __init__(
        self,
        count: int,
        seed: int = 1,
        keys: tuple[Key, ...] = (KEY,),
        faults: GossipFaults | None = None,
    ) -> None:
        self.timeline = VirtualTimeline()
        self.streams = Streams(seed)
        self.faults = faults or GossipFaults()
        self.nodes = [SimGossipNode(self, number, keys) for number in range(1, count + 1)]
        self.taps: list[Callable[[str, str, bytes], None]] = []
        self._by_address = {node.address: node for node in self.nodes}
        self._half: frozenset[str] = frozenset()
        for node in self.nodes:
            self.timeline.after(
                self.streams.schedule.draw(0, GOSSIP_TICK_MS) * MS, self._tick, node
            )

    def start_all(self) -> None:
        """Start all nodes with the first one as seed."""
        for node in self.nodes:
            node.start((self.nodes[0].address,))

    def run_periods(self, count: int) -> None:
        """Run for so many periods."""
        self.timeline.run_until(self.timeline.now_us + count * GOSSIP_PERIOD_MS * MS)

    def periods_until(self, condition: Callable[[], bool], periods_max: int) -> int:
        """How many periods pass until the condition holds.

        Raises:
            AssertionError: it does not hold within `periods_max`.
        """
        for period in range(periods_max + 1):
            if condition():
                return period
            self.run_periods(1)
        raise AssertionError(f"not within {periods_max} periods")

    def running(self) -> list[SimGossipNode]:
        """The running nodes."""
        return [node for node in self.nodes if node.is_running]

    def is_agreed(self) -> bool:
        """Whether every running node considers exactly the running nodes present."""
        return all(
            node.knows(other) == other.is_running
            for node in self.running()
            for other in self.nodes
            if other is not node
        )

    def cut(self, half: Collection[SimGossipNode]) -> None:
        """Partition the network: these nodes on one side; heal it with none."""
        self._half = frozenset(node.address for node in half)

    def post(self, sender: str, to: str, data: bytes) -> None:
        """Send a datagram; it may be lost, delayed or duplicated."""
        for tap in self.taps:
            tap(sender, to, data)
        node, net = self._by_address.get(to), self.streams.net
        if node is None or (sender in self._half) != (to in self._half):
            return
        for _ in range(1 + net.chance(self.faults.doubled_per_mille)):
            if not net.chance(self.faults.lost_per_mille):
                delay_us = net.draw(0, self.faults.delay_ms_max * MS + 1)
                self.timeline.after(delay_us, node.receive, data)

    def _tick(self, node: SimGossipNode) -> None:
        node.tick()
        self.timeline.after(GOSSIP_TICK_MS * MS, self._tick, node)
