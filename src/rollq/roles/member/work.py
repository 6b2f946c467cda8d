"""Disk work of one turn: all writes of the driver, in the safe order.

`run` is called on the persist thread, or on the loop where the disk is faster than the hand-over
(in the simulator: at a later virtual time). It touches the disk and its own fields, never the
driver's memory.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from rollq.base.errors import DiskError, ErrorCode
from rollq.base.ids import MemberId
from rollq.base.limits import QUICK_WRITE_BYTES_MAX
from rollq.grid.state import GridState
from rollq.history.packed import PackedIndex, parts_of
from rollq.history.segments import Segments
from rollq.raft.ready import Ready
from rollq.raft.types import Member, SnapshotMeta
from rollq.roles.member.states import States
from rollq.store.identity import ClusterKey
from rollq.store.snapshots import Snapshots
from rollq.store.wal import Wal
from rollq.wire.messages import HistoryRows, LeaderHello


@dataclass(slots=True)
class MemberStore:
    """The stores on a member's disk."""

    wal: Wal
    snapshots: Snapshots
    segments: Segments
    states: States


@dataclass(slots=True)
class BootNote:
    """A member's boot, to be written down before its call is answered."""

    address: str
    hello: LeaderHello


@dataclass(slots=True)
class Work:
    """The writes of one turn. At most one is under way."""

    store: MemberStore
    crash_point: Callable[[str], None]
    ready: Ready | None = None
    cluster: tuple[bytes, tuple[Member, ...]] | None = None  # found: write it down
    key: ClusterKey | None = None  # accepted: write it down, then hold it
    boots: list[BootNote] = field(default_factory=list)  # write down, then answer
    boots_relayed: dict[MemberId, int] = field(default_factory=dict)  # write down
    rows: list[HistoryRows] = field(default_factory=list)  # from peers: seal
    # Seal before a snapshot takes the place of the log that they could be made from again.
    unsealed: list[PackedIndex] = field(default_factory=list)
    clear_suspect: bool = False
    admitted: bool = False  # the group has admitted this member: write it down
    mark: bool = False
    scrub: bool = False
    doubted: SnapshotMeta | None = None  # one of ours that may be rotten: verify it
    sweep: Callable[[Segments], int] | None = None  # removes history beyond its retention
    # results
    loaded: GridState | None = None  # the state of a snapshot that arrived completely
    rejected: SnapshotMeta | None = None  # a snapshot that arrived damaged
    rotten: bool = False  # whether `doubted` is damaged

    @property
    def is_due(self) -> bool:
        """Whether there is anything to do."""
        return bool(
            self.ready is not None
            or self.cluster is not None
            or self.key is not None
            or self.boots
            or self.boots_relayed
            or self.rows
            or self.clear_suspect
            or self.admitted
            or self.mark
            or self.scrub
            or self.doubted is not None
            or self.sweep is not None
        )

    @property
    def needs_sync(self) -> bool:
        """Whether it syncs, and so belongs on the persist thread."""
        ready = self.ready
        return (
            ready is None
            or ready.must_sync
            or bool(ready.snapshot_chunks or self.boots or self.boots_relayed or self.rows)
            or self.cluster is not None
            or self.key is not None
            or self.clear_suspect
            or self.admitted
            or self.doubted is not None
            or self.sweep is not None
        )

    @property
    def is_light(self) -> bool:
        """Whether it is at most one small write with its sync."""
        ready = self.ready
        if ready is None or self.boots or self.boots_relayed or self.rows or ready.snapshot_chunks:
            return False
        if self.cluster is not None or self.clear_suspect or self.admitted or self.mark:
            return False
        if self.key is not None or self.scrub or self.doubted is not None or self.sweep is not None:
            return False
        size_bytes = sum([len(entry.data) for entry in ready.entries])
        return size_bytes <= QUICK_WRITE_BYTES_MAX and self.store.wal.has_room(size_bytes)

    def run(self) -> None:
        """Do all the work; raises DiskError if the member must stop."""
        if self.cluster is not None:
            self.store.wal.join_cluster(*self.cluster, self.key)
        elif self.key is not None:
            self.store.wal.note_key(self.key)
        for member_id, boot in self.boots_relayed.items():
            self.store.wal.note_peer_boot(member_id, boot)
        for note in self.boots:
            self.store.wal.note_peer_boot(note.hello.member_id, note.hello.boot)
        if self.ready is not None:
            self._persist(self.ready)
        if self.clear_suspect:
            self.store.wal.clear_suspect()
        if self.admitted:
            self.store.wal.note_admitted()
        for rows in self.rows:
            self.store.segments.seal(rows.first, rows.last, rows.lines)
        if self.mark:
            self.store.wal.vouch()
        if self.scrub:
            self.store.segments.scrub_next()
        if self.doubted is not None:
            self.rotten = not self.store.snapshots.is_sound(self.doubted)
        if self.sweep is not None:
            self.sweep(self.store.segments)

    def _persist(self, ready: Ready) -> None:
        # Before the last chunk: once the snapshot has its name, a restart begins behind it.
        for part in parts_of(self.unsealed):
            self.store.segments.seal_packed(part[0].index, part[-1].index, part)
        for chunk in ready.snapshot_chunks:
            try:
                whole = self.store.snapshots.receive(
                    chunk.meta, chunk.offset, chunk.data, chunk.done
                )
            except DiskError as error:
                if error.code is not ErrorCode.SNAPSHOT_CORRUPT:
                    raise
                self.rejected = chunk.meta
                continue
            if whole is not None:
                self.crash_point("snapshot_received")
                self.store.wal.install(whole)
                self.loaded = self.store.states.load(whole)
        if ready.must_sync:
            self.store.wal.append(ready.hard_state, ready.entries)
            self.crash_point("written_not_synced")
            self.store.wal.sync()
            self.crash_point("synced")
        elif ready.hard_state is not None:  # only the commit index moved
            self.store.wal.carry(ready.hard_state.commit)
