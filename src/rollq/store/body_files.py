"""Segments of the log that large bodies are read from, also after the log has given them up.

A large body is written once: into the log. Whoever needs it there holds its segment: the state
while the job waits, a snapshot as long as it is kept. A segment that the log no longer needs goes
to a folder of its own if it is held, and from there when the last hold is released. Its number
names it, wherever it is.

The loop holds and releases for the state and reads; the persist thread holds and releases for
snapshots and moves segments. Each counts for itself, so that neither waits for the other. Nobody
begins to hold a segment that the log is about to give up: all of its entries are applied, and
whoever needs a body of theirs holds it already.
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
    """Which segments one thread refers to, counted: none of them may be removed."""

    def __init__(self, files: BodyFiles) -> None:
        self._files = files
        self._counts: Counter[int] = Counter()

    def __contains__(self, segment: int) -> bool:
        return segment in self._counts

    def hold(self, segments: Iterable[int]) -> None:
        """Keep these until `release`."""
        self._counts.update(segments)

    def release(self, segments: Iterable[int]) -> None:
        """They are not needed any more by one who held them."""
        for segment in segments:
            self._counts[segment] -= 1
            if not self._counts[segment]:
                # Before a look at the others: of two who release the last holds one removes it.
                del self._counts[segment]
                self._files.maybe_remove(segment)


class BodyFiles:
    """Who needs which segment. Nothing is held at first: snapshots on disk claim what they need,
    then `sweep` removes the rest.

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
        """Whether anybody needs it."""
        return segment in self.state or segment in self.snapshots

    def maybe_remove(self, segment: int) -> None:
        """A hold is gone: so is the segment, if it was the last and the log has given it up."""
        if segment in self._given_up and not self.is_held(segment):
            self._given_up.discard(segment)
            self._disk.remove(_name(segment))

    def is_given_up(self, segment: int) -> bool:
        """Whether it is kept for its bodies alone."""
        return segment in self._given_up

    def has_all(self, segments: Iterable[int]) -> bool:
        """Whether all of these are there."""
        return all(
            segment in self._given_up or self._disk.size(segment_name(segment)) >= 0
            for segment in segments
        )

    def take(self, segment: int) -> None:
        """The log gives up a segment that is held. Durable when the folder of the log is synced
        after this."""
        self._disk.rename(segment_name(segment), _name(segment))
        self._given_up.add(segment)
        self._disk.sync_dir(FOLDER)
        self.maybe_remove(segment)  # its last body may have been dropped meanwhile

    def read(self, segment: int, offset: int, length: int) -> bytes:
        """Bytes of a segment that is held. Raises DiskError if it is not there."""
        if segment not in self._given_up:
            try:
                return self._disk.read(segment_name(segment), offset, length)
            except DiskError:  # unless it was moved just now
                if self._disk.size(_name(segment)) < 0:
                    raise
        return self._disk.read(_name(segment), offset, length)

    def sweep(self) -> None:
        """Remove what nobody holds: a crash came before it was removed, or undid that."""
        for segment in sorted(self._given_up):
            self.maybe_remove(segment)


def _name(segment: int) -> str:
    return f"{FOLDER}/{segment:012d}{SUFFIX}"
