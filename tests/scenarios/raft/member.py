"""A member of consensus with the disk and state machine done by hand: what the shell would do.

Both our own scenarios and the scripts of others drive members through `handle_ready`, which does
the duties of a `Ready` in their order. The state machine keeps what it applied as bytes, so that
a snapshot that lost or repeated something differs. Nothing here decides anything.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from rollq.base.ids import MemberId
from rollq.raft.node import RaftNode, RaftOptions, RaftStart
from rollq.raft.ready import ReadReady, Ready, SnapshotChunk
from rollq.raft.types import (
    Config,
    Entry,
    EntryKind,
    HardState,
    InstallSnapshot,
    Member,
    Position,
    RaftMessage,
    Role,
    SnapshotMeta,
)

EMPTY_STATE = b"="  # a snapshot is never empty: consensus counts in its bytes


class HighestJitter:
    """Chance that always draws the highest: elections begin only when a script says so."""

    def draw(self, low: int, high: int) -> int:
        """The last number before `high`."""
        return max(low, high - 1)

    def draw_id(self) -> bytes:
        """An id without chance."""
        return bytes(16)


@dataclass(slots=True)
class FakeDisk:
    """What the member has persisted."""

    hard_state: HardState = field(default_factory=HardState)
    snapshot: SnapshotMeta = field(default_factory=SnapshotMeta)
    snapshot_data: bytes = b""
    entries: list[Entry] = field(default_factory=list)
    incoming: bytearray = field(default_factory=bytearray)
    incoming_meta: SnapshotMeta = field(default_factory=SnapshotMeta)

    @property
    def first_index(self) -> int:
        """Index of the first entry kept, or of the one to come."""
        return self.entries[0].index if self.entries else self.last_index + 1

    @property
    def last_index(self) -> int:
        """Index of the last entry kept, or of the snapshot."""
        return self.entries[-1].index if self.entries else self.snapshot.index

    def append(self, entries: list[Entry]) -> None:
        """Persist entries; they replace the tail from the first one on."""
        if not entries:
            return
        at = entries[0].index
        if at > self.last_index + 1:
            raise AssertionError(f"gap in the log: {self.last_index} then {at}")
        self.entries = [entry for entry in self.entries if entry.index < at] + entries

    def write_chunk(self, chunk: SnapshotChunk) -> bool:
        """Persist a piece of a snapshot; true if the file is complete and now the newest."""
        if chunk.offset == 0:
            self.incoming = bytearray()
            self.incoming_meta = chunk.meta
        if chunk.offset != len(self.incoming) or chunk.meta != self.incoming_meta:
            raise AssertionError(f"chunk at {chunk.offset}, file has {len(self.incoming)} bytes")
        self.incoming += chunk.data
        if not chunk.done:
            return False
        if len(self.incoming) != chunk.meta.size_bytes:
            raise AssertionError(f"done with {len(self.incoming)} of {chunk.meta.size_bytes}")
        self.snapshot, self.snapshot_data = chunk.meta, bytes(self.incoming)
        self.entries = []
        return True

    def compact(self, to: int) -> None:
        """Forget the entries up to and with `to`."""
        self.entries = [entry for entry in self.entries if entry.index > to]


class FakeMember:
    """A RaftNode, its disk, its state machine and what it has told the world so far."""

    def __init__(
        self,
        member_id: MemberId,
        options: RaftOptions,
        disk: FakeDisk,
        suspect: Position | None = None,
    ) -> None:
        self.id = member_id
        self.options = options
        self.disk = disk
        self.suspect = suspect
        self.taken: dict[int, bytes] = {}  # bytes of every snapshot it made, by index
        self.reads: list[ReadReady] = []
        self.restart()

    def restart(self) -> None:
        """Come back with what is on disk and nothing else."""
        disk = self.disk
        self.state = disk.snapshot_data or EMPTY_STATE
        self.state_index = disk.snapshot.index
        self.role = Role.FOLLOWER  # as last announced by a Ready
        self.leader_id: MemberId = 0
        entries = [entry for entry in disk.entries if entry.index > disk.snapshot.index]
        start = RaftStart(disk.hard_state, disk.snapshot, entries, self.suspect)
        self.node = RaftNode(self.id, self.options, start, HighestJitter())
        if disk.snapshot.index:
            self.taken[disk.snapshot.index] = self.state

    def handle_ready(self, watch: Callable[[Ready], None] | None = None) -> list[RaftMessage]:
        """Do the duties of one Ready in order; returns what it sent, in order."""
        ready = self.node.ready()
        if watch is not None:
            watch(ready)
        self.role = self.role if ready.role is None else ready.role
        self.leader_id = self.leader_id if ready.leader_id is None else ready.leader_id
        sent = [self._fill(message) for message in ready.send_now]
        self._persist(ready)
        sent.extend(self._fill(message) for message in ready.send_after_persist)
        for entry in ready.committed:
            self._apply(entry)
        self.reads.extend(ready.reads)
        self.node.advance(ready)
        return sent

    def snapshot_meta(self) -> SnapshotMeta:
        """A snapshot of the state as applied now, kept so that its bytes can be sent."""
        self.taken[self.state_index] = self.state
        return SnapshotMeta(
            index=self.state_index,
            term=self.node.term_at(self.state_index) or 0,
            config=self.node.config,
            size_bytes=len(self.state),
        )

    def take_snapshot(self, compact_to: int) -> SnapshotMeta:
        """Make a snapshot, tell consensus, and let it forget entries up to `compact_to`."""
        meta = self.snapshot_meta()
        self.disk.snapshot, self.disk.snapshot_data = meta, self.state
        self.disk.compact(compact_to)
        self.node.snapshot_taken(meta, compact_to)
        return meta

    def _fill(self, message: RaftMessage) -> RaftMessage:
        if not isinstance(message, InstallSnapshot):
            return message
        data = self.taken[message.meta.index]
        piece = data[message.offset : message.offset + message.length]
        if len(piece) != message.length:
            raise AssertionError(f"asked for {message.length} bytes, have {len(piece)}")
        return msgspec.structs.replace(message, data=piece)

    def _persist(self, ready: Ready) -> None:
        if ready.hard_state is not None:
            self.disk.hard_state = ready.hard_state
        self.disk.append(ready.entries)  # before the snapshot, which replaces the whole log
        for chunk in ready.snapshot_chunks:
            if self.disk.write_chunk(chunk):
                self.state = self.disk.snapshot_data
                self.state_index = chunk.meta.index
                self.taken[chunk.meta.index] = self.state

    def _apply(self, entry: Entry) -> None:
        if entry.index != self.state_index + 1:
            raise AssertionError(f"applied {self.state_index}, then {entry.index}")
        self.state_index = entry.index
        if entry.kind == EntryKind.NORMAL:
            self.state += entry.data


def make_config(voters: list[MemberId], learners: list[MemberId]) -> Config:
    """A configuration of members without addresses."""
    return Config(
        tuple(Member(each) for each in sorted(voters)),
        tuple(Member(each) for each in sorted(learners)),
    )
