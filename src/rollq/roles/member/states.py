"""Where states come from: from nothing, or from a snapshot on this member's disk.

Bodies of waiting jobs do not all fit into memory. Large ones stay in the log. Others that come with
a snapshot stay in its file, which is pinned as long as one of them is needed; the rest goes to
scratch files beyond a hot window. Every state has a spill of its own, so that it can be thrown
away as a whole.
"""

from __future__ import annotations

from functools import partial

from rollq.grid.snapshot import PREFACE_BYTES, decode_snapshot, head_bytes
from rollq.grid.state import GridState
from rollq.raft.types import SnapshotMeta
from rollq.store.disk import Disk
from rollq.store.log_bodies import BodyLog
from rollq.store.snapshots import Snapshots
from rollq.store.spill import Spill, clear_spill


class States:
    """Makes the states of one member, one after another."""

    def __init__(self, disk: Disk, snapshots: Snapshots, log: BodyLog, hot_bytes_max: int) -> None:
        self._disk = disk
        self._snapshots = snapshots
        self._log = log
        self._hot_bytes_max = hot_bytes_max
        self._count = 0
        clear_spill(disk)

    def empty(self) -> GridState:
        """The state before the first entry."""
        return GridState(self._spill())

    def load(self, meta: SnapshotMeta) -> GridState:
        """The state of a snapshot that was verified. Raises DiskError SNAPSHOT_CORRUPT if it says
        what no snapshot says."""
        disk = self._disk
        spill = self._spill()
        name, start, layout = self._snapshots.pin(meta)
        spill.attach(name, start, layout, partial(self._snapshots.unpin, name))
        size = head_bytes(disk.read(name, start, PREFACE_BYTES))
        state = decode_snapshot(disk.read(name, start, size), spill, spill.adopt)
        spill.adopted()
        return state

    def hold(self, state: GridState) -> list[int]:
        """Hold the segments of the log that bodies of this state are in, for a snapshot that will
        refer to them. Whoever gets them has them released."""
        if not isinstance(state.bodies, Spill):
            return []
        state.bodies.tidy()
        segments = state.bodies.segments()
        self._log.files.state.hold(segments)
        return segments

    def release(self, segments: list[int]) -> None:
        """The snapshot holds them itself, or came to nothing."""
        self._log.files.state.release(segments)

    def retire(self, state: GridState) -> None:
        """Another state has taken the place of this one."""
        if isinstance(state.bodies, Spill):
            state.bodies.close()

    def _spill(self) -> Spill:
        self._count += 1
        return Spill(
            self._disk,
            f"{self._count:04d}",
            hot_bytes_max=self._hot_bytes_max,
            log=self._log,
        )
