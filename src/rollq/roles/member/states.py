"""Creates grid states: an empty one, or from a snapshot on this member's disk.

Bodies of waiting jobs do not all fit into memory. Large ones stay in the log. Others that come with
a snapshot stay in its file, which is pinned as long as one of them is needed; the rest goes to
scratch files beyond a hot window. Every state has its own spill, so that it can be dropped as a
whole.
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
    """Creates the states of one member, one after another."""

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
        """The state of a verified snapshot. Raises DiskError SNAPSHOT_CORRUPT if its contents are
        invalid."""
        disk = self._disk
        spill = self._spill()
        name, start, layout = self._snapshots.pin(meta)
        spill.attach(name, start, layout, partial(self._snapshots.unpin, name))
        size = head_bytes(disk.read(name, start, PREFACE_BYTES))
        state = decode_snapshot(disk.read(name, start, size), spill, spill.adopt)
        spill.adopted()
        return state

    def hold(self, state: GridState) -> list[int]:
        """Hold the log segments with bodies of this state, for a snapshot that will refer to them.
        The caller must release them."""
        if not isinstance(state.bodies, Spill):
            return []
        state.bodies.tidy()
        segments = state.bodies.segments()
        self._log.files.state.hold(segments)
        return segments

    def release(self, segments: list[int]) -> None:
        """Release held segments: the snapshot is published and holds them itself, or it failed."""
        self._log.files.state.release(segments)

    def retire(self, state: GridState) -> None:
        """Drop a state that another has replaced."""
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
