"""Taking a snapshot beside the turns of the loop, in three steps that may be far apart.

1. `write`: history and state go to temporary files, synced. It must see the state as it was when
   the order was given: done at once, or by a forked child, which has a copy of everything;
2. `publish`: the files get their names, first the history, then the snapshot, then the log may
   shrink. On the persist thread, step by step between the works of turns;
3. `Driver.finish_snapshot`: memory follows.

A crash between any two leaves temporary files that the next order removes, or names without the
later steps, which is a state that recovery knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec

from rollq.base.limits import (
    IDLE_SNAPSHOT_LOG_BYTES_MIN,
    SEALED_PACKED_BYTES_MAX,
    SMALL_SNAPSHOT_BYTES,
    SNAPSHOT_LOG_BYTES_MIN,
)
from rollq.grid.snapshot import snapshot_pieces
from rollq.grid.state import GridState
from rollq.history.packed import PackedIndex
from rollq.history.segments import FOLDER, TEMPORARY
from rollq.raft.types import Config, SnapshotMeta
from rollq.roles.member.work import MemberStore
from rollq.store.snapshots import NO_DIGEST
from rollq.store.spill import Spill

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(SnapshotMeta)

ENTRY_COST_BYTES = 512  # of an entry at a replay, beside its data
FACT_COST_BYTES = (
    100  # of a fact at a replay: the data of a run says little about how many there are
)
SIZE_SHARE = 4  # the log may grow to this part of the snapshot before there is another


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
        """Make the temporary files; nothing is in them yet.

        Args:
            store: where it goes.
            crash_point: see the driver.
            state: as it is now; read by `write` alone.
            position: term of the last applied entry, and the configuration there.
            unsealed: history that no segment holds.
        """
        self.index = state.applied_index
        self.taken: SnapshotMeta | None = None  # set by `publish`
        self.file_bytes = 0  # how much was written for it; set by `publish`
        self.compact_to = 0  # how far the log on disk went
        self._store = store
        self._crash_point = crash_point
        self._state: GridState | None = state
        self._position = position
        self._parts = list(_split(unsealed))
        # Jobs may end before the snapshot is published, and segments would go with their bodies.
        self._held = store.states.hold(state)
        store.snapshots.begin()
        for number in range(len(self._parts)):
            store.segments.begin(_part_name(number))

    def write(self) -> bytes:
        """Write everything; what is returned goes to `publish`, maybe in another process."""
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
        """How many of the first `steps` seal a piece of history."""
        return len(self._parts)

    def close(self) -> None:
        """It is published, or came to nothing."""
        self._store.states.release(self._held)
        self._held = []

    def publish(self, written: bytes) -> None:
        """Make it count; durable when it returns."""
        for _ in self.steps(written):
            pass

    def steps(self, written: bytes) -> Iterator[None]:
        """As `publish`, in steps of a sync or two each: a turn that comes to the disk meanwhile
        need not wait for all of them."""
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
    """When a snapshot is worth its cost: it bounds the log on disk, the memory that holds what no
    snapshot has, and the time of a restart; and it costs as much as the state is large."""

    def __init__(self, entries_max: int, size_bytes: int) -> None:
        """Start from a snapshot of `size_bytes` (0: from nothing)."""
        self._entries_max = entries_max
        self._size_bytes = size_bytes
        self._cost_bytes = 0
        self._entries = 0
        self._ordered_bytes = 0  # cost of what is in a snapshot that is not taken yet

    def applied(self, cost_bytes: int, facts: int) -> None:
        """One more entry is not in any snapshot; it takes so many bytes of log and history, and
        stands for so many facts, which a restart would have to make again."""
        self._cost_bytes += cost_bytes + ENTRY_COST_BYTES + FACT_COST_BYTES * facts
        self._entries += 1

    def is_due(self, *, idle: bool) -> bool:
        """Whether there is enough to be worth a snapshot."""
        share = self._size_bytes // SIZE_SHARE
        if idle:
            return self._cost_bytes > max(share // SIZE_SHARE, IDLE_SNAPSHOT_LOG_BYTES_MIN)
        if self._cost_bytes > max(share, SNAPSHOT_LOG_BYTES_MIN):
            return True
        # Entries of few jobs each: by their number alone there would be a snapshot every second,
        # each of which costs as much as some thousand jobs.
        worth_bytes = max(share, self._size_bytes - SMALL_SNAPSHOT_BYTES)
        return self._entries >= self._entries_max and self._cost_bytes > worth_bytes

    def is_due_at_stop(self) -> bool:
        """Whether the next start would have so much to apply that a snapshot now is worth it."""
        share = self._size_bytes // SIZE_SHARE // SIZE_SHARE
        return self._cost_bytes + self._ordered_bytes > max(share, IDLE_SNAPSHOT_LOG_BYTES_MIN)

    def ordered(self) -> None:
        """What was applied so far will be in a snapshot."""
        self._ordered_bytes += self._cost_bytes
        self._cost_bytes = self._entries = 0

    def taken(self, size_bytes: int) -> None:
        """The snapshot that was ordered is on disk, and has this size."""
        self._size_bytes = size_bytes
        self._ordered_bytes = 0


def _split(unsealed: list[PackedIndex]) -> Iterator[list[PackedIndex]]:
    """Parts for segments that are not too large to be read as a whole."""
    part: list[PackedIndex] = []
    size = 0
    for recent in unsealed:
        if part and size + recent.packed_bytes > SEALED_PACKED_BYTES_MAX:
            yield part
            part, size = [], 0
        part.append(recent)
        size += recent.packed_bytes
    if part:
        yield part


def _part_name(number: int) -> str:
    return f"{FOLDER}/taking-{number:04d}{TEMPORARY}"
