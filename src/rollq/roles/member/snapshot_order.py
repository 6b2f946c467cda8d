"""Taking a snapshot beside the turns of the loop, in three steps that may be far apart.

1. `write`: history and state go to temporary files, synced. It must see the state of the moment of
   the order: it runs at once, or in a forked child, which has a copy of all memory;
2. `publish`: the files are renamed, first the history, then the snapshot, then the log is
   compacted. On the persist thread, step by step between the works of turns;
3. `Driver.finish_snapshot`: memory is released.

A crash between two steps leaves temporary files that the next order removes, or published files
without the later steps, which recovery handles.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from rollq.base.limits import (
    IDLE_SNAPSHOT_LOG_BYTES_MIN,
    SMALL_SNAPSHOT_BYTES,
    SNAPSHOT_LOG_BYTES_MIN,
)
from rollq.grid.snapshot import snapshot_pieces
from rollq.grid.state import GridState
from rollq.history.packed import PackedIndex, parts_of
from rollq.history.segments import FOLDER, TEMPORARY
from rollq.raft.types import Config, SnapshotMeta
from rollq.roles.member.work import MemberStore
from rollq.store.snapshots import NO_DIGEST
from rollq.store.spill import Spill

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(SnapshotMeta)

ENTRY_COST_BYTES = 512  # of an entry in a replay, beside its data
FACT_COST_BYTES = 100  # of a fact in a replay; the size of a run does not bound its facts
SIZE_SHARE = 4  # the next snapshot is due once the log is 1/4 of the last one


class SnapshotOrder:
    """One snapshot under way."""

    def __init__(
        self,
        store: MemberStore,
        crash_point: Callable[[str], None],
        state: GridState,
        position: tuple[int, Config],
        unsealed: list[PackedIndex],
    ) -> None:
        """Create the empty temporary files.

        Args:
            store: Where the snapshot goes.
            crash_point: See the driver.
            state: As it is now; only `write` reads it.
            position: Term of the last applied entry, and the configuration there.
            unsealed: History that no segment holds.
        """
        self.index = state.applied_index
        self.taken: SnapshotMeta | None = None  # set by `publish`
        self.file_bytes = 0  # size of the written files; set by `publish`
        self.compact_to = 0  # the last log index that was compacted; set by `publish`
        self._store = store
        self._crash_point = crash_point
        self._state: GridState | None = state
        self._position = position
        self._parts = list(parts_of(unsealed))
        # Jobs may end before the snapshot is published; their log segments must outlive it.
        self._held = store.states.hold(state)
        store.snapshots.begin()
        for number in range(len(self._parts)):
            store.segments.begin(_part_name(number))

    def write(self) -> bytes:
        """Write everything. The result must be passed to `publish`, maybe in another process."""
        store, state = self._store, self._state
        assert state is not None, "written already"
        self._state = None
        for number, part in enumerate(self._parts):
            store.segments.write_packed(_part_name(number), part[0].index, part[-1].index, part)
        bodies = state.bodies
        size_bytes, pieces = snapshot_pieces(
            state, bodies.referred if isinstance(bodies, Spill) else bodies.sealed
        )
        meta = SnapshotMeta(self.index, *self._position, size_bytes, NO_DIGEST)
        meta = store.snapshots.write(meta, pieces, refers=bool(self._held))
        self._crash_point("snapshot_written")
        return _encoder.encode(meta)

    @property
    def seal_count(self) -> int:
        """How many of the first `steps` seal a part of the history."""
        return len(self._parts)

    def close(self) -> None:
        """The snapshot is published or has failed: release the log segments."""
        self._store.states.release(self._held)
        self._held = []

    def publish(self, written: bytes) -> None:
        """Publish the files; durable when it returns."""
        for _ in self.steps(written):
            pass

    def steps(self, written: bytes) -> Iterator[None]:
        """As `publish`, in steps of a sync or two each, so that the disk work of a turn need not
        wait for all of them."""
        store = self._store
        for number, part in enumerate(self._parts):
            store.segments.publish_packed(_part_name(number), part[0].index, part[-1].index)
            yield
        self._crash_point("history_sealed")
        meta = _decoder.decode(written)
        store.snapshots.publish(meta, self._held)
        self.file_bytes = store.snapshots.file_bytes(meta)
        self._crash_point("snapshot_saved")
        yield
        self.compact_to = store.snapshots.oldest_index()
        while store.wal.compact_next(self.compact_to):
            yield
        self._crash_point("log_compacted")
        self.taken = meta


class SnapshotPace:
    """When the next snapshot is due. Snapshots bound the log on disk, the memory for unsealed
    history, and the time of a restart; the cost of one grows with the state."""

    def __init__(self, entries_max: int, size_bytes: int) -> None:
        """Start from a snapshot of `size_bytes` (0: from nothing)."""
        self._entries_max = entries_max
        self._size_bytes = size_bytes
        self._cost_bytes = 0
        self._entries = 0
        self._ordered_bytes = 0  # cost covered by a snapshot that is under way

    def applied(self, cost_bytes: int, facts: int) -> None:
        """Count an applied entry: its bytes in log and history, and the facts that a restart would
        derive again."""
        self._cost_bytes += cost_bytes + ENTRY_COST_BYTES + FACT_COST_BYTES * facts
        self._entries += 1

    def is_due(self, *, idle: bool) -> bool:
        """Whether a snapshot is worth its cost now."""
        share = self._size_bytes // SIZE_SHARE
        if idle:
            return self._cost_bytes > max(share // SIZE_SHARE, IDLE_SNAPSHOT_LOG_BYTES_MIN)
        if self._cost_bytes > max(share, SNAPSHOT_LOG_BYTES_MIN):
            return True
        # Many entries of few jobs each: their number alone would order a snapshot every second, and
        # each costs as much as some thousand jobs.
        worth_bytes = max(share, self._size_bytes - SMALL_SNAPSHOT_BYTES)
        return self._entries >= self._entries_max and self._cost_bytes > worth_bytes

    def is_due_at_stop(self) -> bool:
        """Whether the next start would replay so much that a snapshot at the stop is worth it."""
        share = self._size_bytes // SIZE_SHARE // SIZE_SHARE
        return self._cost_bytes + self._ordered_bytes > max(share, IDLE_SNAPSHOT_LOG_BYTES_MIN)

    def ordered(self) -> None:
        """A snapshot of what was applied so far is under way."""
        self._ordered_bytes += self._cost_bytes
        self._cost_bytes = self._entries = 0

    def taken(self, size_bytes: int) -> None:
        """The ordered snapshot is on disk, with this size."""
        self._size_bytes = size_bytes
        self._ordered_bytes = 0


def _part_name(number: int) -> str:
    return f"{FOLDER}/taking-{number:04d}{TEMPORARY}"
