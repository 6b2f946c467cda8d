"""A group of RaftNodes in one thread: a disk each, links that can be cut, delivery by hand.

`Host` is the smallest shell that keeps the order of duties of a `Ready`: it writes to a model of a
disk, applies entries to a hash chain, and can be stopped between any two duties. `Network` holds
hosts and the messages between them, and delivers in order until nothing moves (`settle`).
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import msgspec

from rollq.base.ids import MemberId
from rollq.raft.node import RaftNode, RaftOptions, RaftStart
from rollq.raft.ready import ReadReady, Ready, SnapshotChunk
from rollq.raft.types import (
    Config,
    Entry,
    HardState,
    InstallSnapshot,
    Member,
    Position,
    RaftMessage,
    Role,
    SnapshotMeta,
)

CHAIN_START = bytes(32)
SETTLE_ROUNDS_MAX = 10_000


class SeededJitter:
    """Chance from a seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)

    def draw(self, low: int, high: int) -> int:
        return self.random.randrange(low, high)

    def draw_id(self) -> bytes:
        return self.random.randbytes(16)


def voters_config(*ids: MemberId) -> Config:
    """A configuration of voters only."""
    return Config(voters=tuple(Member(i, f"host{i}:5000") for i in ids))


def bootstrap(*ids: MemberId) -> RaftStart:
    """What a first member of a new group starts from."""
    return RaftStart(snapshot=SnapshotMeta(config=voters_config(*ids)))


@dataclass
class DiskModel:
    """What would be on disk. `loose_state` is written but not synced: a crash may take it."""

    hard_state: HardState = field(default_factory=HardState)
    loose_state: HardState = field(default_factory=HardState)
    snapshot: SnapshotMeta = field(default_factory=SnapshotMeta)
    snapshot_data: bytes = b""
    entries: list[Entry] = field(default_factory=list)
    suspect: Position | None = None

    def start(self) -> RaftStart:
        """What recovery hands to a new life of the member."""
        return RaftStart(self.hard_state, self.snapshot, list(self.entries), self.suspect)

    def write_entries(self, entries: list[Entry]) -> None:
        """Replace the tail."""
        if entries:
            keep = entries[0].index - self.snapshot.index - 1
            assert 0 <= keep <= len(self.entries), "a gap in what is written"
            self.entries[keep:] = entries

    def write_snapshot(self, meta: SnapshotMeta, data: bytes, keep: bool) -> None:
        """A new snapshot; `keep` the entries after it, or start the log anew."""
        if keep:
            self.entries = self.entries[meta.index - self.snapshot.index :]
        else:
            self.entries = []
        self.snapshot, self.snapshot_data = meta, data


class Host:
    """A member with its disk and state machine."""

    def __init__(self, member_id: MemberId, start: RaftStart, options: RaftOptions, seed: int):
        self.id = member_id
        self.options = options
        self.jitter = SeededJitter(seed)
        self.disk = DiskModel(
            hard_state=start.hard_state,
            loose_state=start.hard_state,
            snapshot=start.snapshot,
            snapshot_data=CHAIN_START,
            entries=list(start.entries),
            suspect=start.suspect,
        )
        self.readies: list[Ready] = []
        self.boot()

    def boot(self) -> None:
        """A new life from what the disk holds."""
        self.node = RaftNode(self.id, self.options, self.disk.start(), self.jitter)
        self.chain = self.disk.snapshot_data
        self.chain_index = self.disk.snapshot.index
        self.applied: list[Entry] = []
        self.reads: list[ReadReady] = []
        self.incoming = b""

    def persist(self, ready: Ready) -> None:
        """Duty 2."""
        self.disk.write_entries(ready.entries)
        if ready.hard_state is not None:
            self.disk.loose_state = ready.hard_state
        if ready.must_sync:
            self.disk.hard_state = self.disk.loose_state
        for chunk in ready.snapshot_chunks:
            self._write_chunk(chunk)
        self.disk.suspect = self.node.suspect

    def apply(self, ready: Ready) -> None:
        """Duties 4 and 5."""
        if ready.snapshot_chunks and ready.snapshot_chunks[-1].done:
            self.chain = self.disk.snapshot_data
            self.chain_index = self.disk.snapshot.index
        for entry in ready.committed:
            assert entry.index == self.chain_index + 1, "applied out of order"
            self.chain_index = entry.index
            self.chain = hashlib.sha256(self.chain + entry.data).digest()
        self.applied.extend(ready.committed)
        self.reads.extend(ready.reads)

    def take_ready(self) -> list[RaftMessage]:
        """All duties at once; returns what is to be sent."""
        ready = self.node.ready()
        self.readies.append(ready)
        self.persist(ready)
        self.apply(ready)
        self.node.advance(ready)
        return [self.fill(m) for m in (*ready.send_now, *ready.send_after_persist)]

    def take_snapshot(self, keep: int = 0) -> None:
        """Snapshot what is applied; forget entries but the last `keep`."""
        index = self.node.applied
        term = self.node.term_at(index)
        assert term is not None
        meta = SnapshotMeta(
            index=index,
            term=term,
            config=self.node.config,
            size_bytes=len(self.chain),
            sha256=hashlib.sha256(self.chain).digest(),
        )
        if index > self.disk.snapshot.index:
            self.disk.write_snapshot(meta, self.chain, keep=True)
        self.node.snapshot_taken(meta, max(index - keep, 0))

    def fill(self, message: RaftMessage) -> RaftMessage:
        """Put the bytes into a snapshot chunk, as the shell does just before sending."""
        if not isinstance(message, InstallSnapshot):
            return message
        data = self.disk.snapshot_data if message.meta == self.disk.snapshot else b""
        chunk = data[message.offset : message.offset + message.length]
        return msgspec.structs.replace(message, data=chunk)

    def _write_chunk(self, chunk: SnapshotChunk) -> None:
        if chunk.offset == 0:
            self.incoming = b""
        assert len(self.incoming) == chunk.offset, "a gap in the snapshot"
        self.incoming += chunk.data
        if chunk.done:
            assert hashlib.sha256(self.incoming).digest() == chunk.meta.sha256
            self.disk.write_snapshot(chunk.meta, self.incoming, keep=False)


class Network:
    """Hosts, and messages between them in the order they were sent."""

    def __init__(
        self, *ids: MemberId, options: RaftOptions | None = None, start: RaftStart | None = None
    ) -> None:
        self.options = options or RaftOptions(snapshot_chunk_bytes_max=10)
        self.hosts: dict[MemberId, Host] = {}
        self.wire: list[RaftMessage] = []
        self.cut: set[tuple[MemberId, MemberId]] = set()
        self.drop: Callable[[RaftMessage], bool] = lambda _message: False
        for member_id in ids:
            first = start or bootstrap(*ids)
            self.add(member_id, replace(first, entries=list(first.entries)))

    def __getitem__(self, member_id: MemberId) -> RaftNode:
        return self.hosts[member_id].node

    def add(self, member_id: MemberId, start: RaftStart | None = None) -> RaftNode:
        """A host more; without `start`, a newcomer."""
        self.hosts[member_id] = Host(member_id, start or RaftStart(), self.options, member_id)
        return self[member_id]

    def elect(self, member_id: MemberId) -> RaftNode:
        """Have a member elected, and everything settled."""
        self[member_id].campaign()
        self.settle()
        assert self[member_id].role is Role.LEADER
        return self[member_id]

    def settle(self, *only: MemberId) -> None:
        """Carry out duties and deliver (of and to `only`, if given) until nothing moves."""
        ids = only or tuple(self.hosts)
        for _ in range(SETTLE_ROUNDS_MAX):
            moved = self.collect(*ids)
            deliverable = [m for m in self.wire if m.to in ids and m.sender in ids]
            self.wire = [m for m in self.wire if not (m.to in ids and m.sender in ids)]
            for message in deliverable:
                self.hosts[message.to].node.step(message)
            if not moved and not deliverable:
                return
        raise AssertionError("the network does not settle")

    def collect(self, *ids: MemberId) -> bool:
        """Carry out what is ready and put messages on the wire; says whether there was any."""
        moved = False
        for member_id in ids or tuple(self.hosts):
            host = self.hosts[member_id]
            while host.node.has_ready():
                moved = True
                for message in host.take_ready():
                    gone = (message.sender, message.to) in self.cut or self.drop(message)
                    if not gone and message.to in self.hosts:
                        self.wire.append(message)
        return moved

    def isolate(self, member_id: MemberId) -> None:
        """Cut all links of a member, both ways."""
        for other in self.hosts:
            if other != member_id:
                self.cut |= {(member_id, other), (other, member_id)}

    def heal(self) -> None:
        """All links work, and nothing is dropped."""
        self.cut.clear()
        self.drop = lambda _message: False

    def tick(self, member_id: MemberId, times: int = 1) -> None:
        """Let time pass on one member."""
        for _ in range(times):
            self[member_id].tick()

    def beat(self, member_id: MemberId) -> None:
        """Let the leader send a heartbeat, and settle."""
        self.tick(member_id, self.options.heartbeat_ticks)
        self.settle()

    def logs(self) -> dict[MemberId, list[tuple[int, bytes]]]:
        """(term, data) of every entry of every member."""
        return {
            i: [(e.term, e.data) for e in h.node.entry_slice(1, h.node.last_index + 1)]
            for i, h in self.hosts.items()
        }


def only_leader(network: Network) -> RaftNode:
    """The member that leads in the newest term."""
    leaders = [h.node for h in network.hosts.values() if h.node.role is Role.LEADER]
    return max(leaders, key=lambda node: node.term)
