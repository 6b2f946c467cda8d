"""Segments of the log with large bodies, also after the log was compacted.

A large body is written once: into the log. Its segment is held: by the state while the job waits,
by a snapshot as long as it exists. A held segment that the log no longer needs is moved to a
separate folder, and deleted when the last hold is released. It is identified by its number in both
places.

The loop holds and releases for the state and reads; the persist thread holds and releases for
snapshots and moves segments. Each has its own counts, so that neither waits for the other. No new
hold begins on a segment that the log is about to release: all of its entries are applied, and the
holds of their bodies exist.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

from rollq.base.errors import DiskError
from rollq.store.disk import Disk
from rollq.store.places import SUFFIX, segment_name

FOLDER: Final = "bodies"


class SegmentHolds:
    """Reference counts of segments, for one thread: none of them may be deleted."""

    def __init__(self, files: BodyFiles) -> None:
        self._files = files
        self._counts: Counter[int] = Counter()

    def __contains__(self, segment: int) -> bool:
        return segment in self._counts

    def hold(self, segments: Iterable[int]) -> None:
        """Hold these segments until `release`."""
        self._counts.update(segments)

    def release(self, segments: Iterable[int]) -> None:
        """Release one hold of each."""
        for segment in segments:
            self._counts[segment] -= 1
            if not self._counts[segment]:
                # Before checking the other thread's count: of two that release the last holds one
                # deletes it.
                del self._counts[segment]
                self._files.maybe_remove(segment)


class BodyFiles:
    """The holds of all segments. Initially none: snapshots on disk claim their segments, then
    `sweep` deletes the rest.

    Attributes:
        state: Held for the state, by the loop.
        snapshots: Held for snapshots, by the persist thread.
    """

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self.state = SegmentHolds(self)
        self.snapshots = SegmentHolds(self)
        stems = [name.removesuffix(SUFFIX) for name in disk.names(FOLDER)]
        self._given_up = {int(stem) for stem in stems if stem.isdecimal()}

    def is_held(self, segment: int) -> bool:
        """Whether the segment is held."""
        return segment in self.state or segment in self.snapshots

    def maybe_remove(self, segment: int) -> None:
        """After a release: delete the segment if that was the last hold and the log has released
        it."""
        if segment in self._given_up and not self.is_held(segment):
            self._given_up.discard(segment)
            self._disk.remove(_name(segment))

    def is_given_up(self, segment: int) -> bool:
        """Whether the log has released the segment."""
        return segment in self._given_up

    def has_all(self, segments: Iterable[int]) -> bool:
        """Whether all of these exist."""
        return all(
            segment in self._given_up or self._disk.size(segment_name(segment)) >= 0
            for segment in segments
        )

    def take(self, segment: int) -> None:
        """The log releases a held segment. Durable when the folder of the log is synced
        afterwards."""
        self._disk.rename(segment_name(segment), _name(segment))
        self._given_up.add(segment)
        self._disk.sync_dir(FOLDER)
        self.maybe_remove(segment)  # its last body may have been dropped meanwhile

    def read(self, segment: int, offset: int, length: int) -> bytes:
        """Bytes of a held segment. Raises DiskError if it does not exist."""
        if segment not in self._given_up:
            try:
                return self._disk.read(segment_name(segment), offset, length)
            except DiskError:  # it may have been moved just now
                if self._disk.size(_name(segment)) < 0:
                    raise
        return self._disk.read(_name(segment), offset, length)

    def sweep(self) -> None:
        """Delete segments without holds, left over by a crash."""
        for segment in sorted(self._given_up):
            self.maybe_remove(segment)


def _name(segment: int) -> str:
    return f"{FOLDER}/{segment:012d}{SUFFIX}"
