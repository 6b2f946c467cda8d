"""Sealed history: immutable files named by the range of log indexes that they cover.

A segment is `history/<first>-<last>.runs` (`packed_file`), which has the events as they were
applied, or `.jsonl` (`lines_file`), one JSON line a fact, or both: then the lines are a copy, for
people, and only read if the packed file is damaged. A range without events is a file without any:
covered and empty is not the same as missing. A file that does not verify is moved under `broken/`,
so its range shows up in `gaps`, unless the other one is there, and is fetched from a peer.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from rollq.base.errors import DiskError, ErrorCode
from rollq.history import lines_file, packed_file
from rollq.history.lines_file import index_of
from rollq.history.packed import PackedIndex
from rollq.history.packed_file import PackedFooter
from rollq.store.disk import BROKEN, Disk, prune_broken

FOLDER: Final = "history"
LINES_SUFFIX: Final = ".jsonl"
PACKED_SUFFIX: Final = ".runs"
TEMPORARY: Final = ".tmp"
SEALING: Final = f"{FOLDER}/sealing{TEMPORARY}"
FLOOR_SUFFIX: Final = ".floor"
COLUMNS_FOLDER: Final = "columns"
COLUMNS_SUFFIX: Final = ".arrow"


class Segments:
    """The sealed segments of one member."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._scrubbed = ""  # the name that was verified last
        self.damaged: list[str] = []  # names of files that did not verify and are now under broken/

    def seal(self, first: int, last: int, lines: Iterable[bytes]) -> None:
        """Store the events of a range as lines, as `write_lines` takes them; durable when it
        returns. Again for the same range: no-op."""
        self._seal(
            name_of(first, last),
            lambda: lines_file.write_lines(self._disk, SEALING, first, last, lines),
        )

    def seal_packed(self, first: int, last: int, indexes: Iterable[PackedIndex]) -> None:
        """As `seal`, with events as they were applied."""
        self._seal(
            packed_name(first, last), lambda: self.write_packed(SEALING, first, last, indexes)
        )

    def _seal(self, name: str, write: Callable[[], None]) -> None:
        if self._is_sealed(name):
            return
        self.begin(SEALING)
        write()
        self._publish(SEALING, name)

    def begin(self, temporary: str) -> None:
        """Make an empty file for the first of three steps to a segment: begin, write, publish."""
        self._disk.remove(temporary)
        self._disk.write(temporary, 0, b"")

    def write_packed(
        self, temporary: str, first: int, last: int, indexes: Iterable[PackedIndex]
    ) -> None:
        """Write the events of a range, and sync them."""
        packed_file.write_packed(self._disk, temporary, first, last, indexes)

    def publish_packed(self, temporary: str, first: int, last: int) -> None:
        """Rename a written segment to its final name; durable when it returns."""
        name = packed_name(first, last)
        if self._is_sealed(name):
            self._disk.remove(temporary)
            return
        self._publish(temporary, name)

    def _publish(self, temporary: str, name: str) -> None:
        self._disk.rename(temporary, name)
        self._disk.sync_dir(FOLDER)

    def clear_temporaries(self) -> None:
        """Remove unpublished files of an earlier process."""
        for name in self._disk.names(FOLDER):
            if name.endswith(TEMPORARY):
                self._disk.remove(f"{FOLDER}/{name}")

    def gaps(self, upto: int) -> list[tuple[int, int]]:
        """Ranges above the floor, up to `upto`, that no segment covers."""
        gaps = []
        wanted = self.floor() + 1
        for first, last in self.ranges():
            if first > wanted and wanted <= upto:
                gaps.append((wanted, min(first - 1, upto)))
            wanted = max(wanted, last + 1)
            if wanted > upto:
                break
        if wanted <= upto:
            gaps.append((wanted, upto))
        return gaps

    def covered_to(self) -> int:
        """The last index of the gap-free part that starts above the floor."""
        covered = self.floor()
        for first, last in self.ranges():
            if first > covered + 1:
                break
            covered = max(covered, last)
        return covered

    def floor(self) -> int:
        """History up to here was deleted by retention; 0: none was."""
        return max((floor_of(name) for name in self._disk.names(FOLDER)), default=0)

    def forget(self, index: int) -> None:
        """Raise the floor; segments that end at or below it are deleted. Durable when it
        returns."""
        floor = floor_name(index)
        self._disk.write(floor, 0, b"")
        self._disk.sync(floor)
        self._disk.sync_dir(FOLDER)
        # Only now: without the floor, missing ranges would be gaps.
        for name in self._disk.names(FOLDER):
            ends = range_of(name)
            if (ends is not None and ends[1] <= index) or 0 < floor_of(name) < index:
                self._disk.remove(_path(name))
        self._disk.sync_dir(FOLDER)

    def sizes(self) -> list[tuple[int, int, int]]:
        """First index, last index and bytes of every segment, all copies included, in order."""
        return [
            (*ends, sum(max(self._disk.size(make(*ends)), 0) for make in NAMES))
            for ends in self.ranges()
        ]

    def newest_ms(self, first: int, last: int) -> int | None:
        """The stamp of the last row of a segment, 0 if it has no rows; None if it is damaged."""
        footer = self.packed(first, last)
        if footer is not None:
            return footer.newest_ms
        name = name_of(first, last)
        return None if self._disk.size(name) < 0 else lines_file.newest_ms(self._disk, name)

    def packed(self, first: int, last: int) -> PackedFooter | None:
        """The footer of the packed file of a segment; None: there is none that is valid."""
        name = packed_name(first, last)
        found = packed_file.read_footer(self._disk, name) if self._disk.size(name) >= 0 else None
        return None if found is None else found[0]

    def read(self, first: int, last: int) -> Iterator[bytes]:
        """Lines with first <= index <= last, in order, each once, without line ends. What no
        segment covers is left out: ask `gaps` first.

        Raises:
            DiskError: DISK_CORRUPT, before any line of a segment that does not verify. Its range is
                a gap from then on.
        """
        for _, lines in self.chunks(first, last):
            yield from lines

    def chunks(self, first: int, last: int) -> Iterator[tuple[int, list[bytes]]]:
        """As `read`, by index: every covered index of the range comes once, with its lines, also
        if it has none."""
        wanted = first
        for begin, end in self.ranges():
            if end < wanted or begin > last:
                continue
            name = self._sound_name(begin, end)
            wanted = max(wanted, begin)
            chunks = self._packed_chunks if name.endswith(PACKED_SUFFIX) else self._line_chunks
            for index, chunk in chunks(name, wanted, last):
                while wanted < index:
                    yield wanted, []
                    wanted += 1
                yield index, chunk
                wanted += 1
            while wanted <= min(end, last):
                yield wanted, []
                wanted += 1

    def _packed_chunks(self, name: str, first: int, last: int) -> Iterator[tuple[int, list[bytes]]]:
        """What there is of a packed file, which has verified, within a range."""
        found = packed_file.read_footer(self._disk, name)
        assert found is not None, "it has verified"
        for block in found[0].blocks:
            if block.last < first or block.first > last:
                continue
            data = self._disk.read(name, block.offset, block.size)
            for packed in packed_file.indexes_in(data):
                if first <= packed.index <= last:
                    yield packed.index, packed.lines()

    def _line_chunks(self, name: str, first: int, last: int) -> Iterator[tuple[int, list[bytes]]]:
        chunk: list[bytes] = []
        at = 0
        for line in lines_file.lines_in(self._disk, name):
            index = index_of(line)
            if index > last:
                break
            if index < first:
                continue
            if index != at and chunk:
                yield at, chunk
                chunk = []
            at = index
            chunk.append(line)
        if chunk:
            yield at, chunk

    def is_sound(self, first: int, last: int) -> bool:
        """Whether a segment verifies; all of it is read for that."""
        names = (packed_name(first, last), name_of(first, last))
        return any(self._disk.size(name) >= 0 and self._verifies(name) for name in names)

    def _sound_name(self, first: int, last: int) -> str:
        """The file of a segment to read. What does not verify is put aside."""
        for name in (packed_name(first, last), name_of(first, last)):
            if self._is_sealed(name):
                return name
        raise _damaged(name_of(first, last), first, last)

    def scrub(self) -> list[str]:
        """Verify everything; returns the names of what did not, whose ranges are now gaps."""
        bad = [name for name in map(_path, self.names()) if not self._verifies(name)]
        for name in bad:
            self._put_aside(name)
        return bad

    def scrub_next(self) -> None:
        """Verify one file, the next in turn: called from time to time it sees them all."""
        names = self.names()
        if names:
            name = next((each for each in names if each > self._scrubbed), names[0])
            self._scrubbed = name
            self._is_sealed(_path(name))

    def names(self) -> list[str]:
        """File names, in order of their ranges."""
        return [name for name in self._disk.names(FOLDER) if range_of(name) is not None]

    def ranges(self) -> list[tuple[int, int]]:
        """First and last index of every segment, in order."""
        ranges = (range_of(name) for name in self._disk.names(FOLDER))
        return list(dict.fromkeys(each for each in ranges if each is not None))

    def _is_sealed(self, name: str) -> bool:
        """Whether a file is there and verifies; one that does not is put aside."""
        if self._disk.size(name) < 0:
            return False
        if self._verifies(name):
            return True
        self._put_aside(name)
        return False

    def _verifies(self, name: str) -> bool:
        """Whether a file is whole and is what its name says."""
        verify = packed_file.verified if name.endswith(PACKED_SUFFIX) else lines_file.verified
        footer = verify(self._disk, name)
        return footer is not None and range_of(name.removeprefix(f"{FOLDER}/")) == (
            footer.first,
            footer.last,
        )

    def _put_aside(self, name: str) -> None:
        self.damaged.append(name)
        self._disk.rename(name, f"{BROKEN}/history-{name.removeprefix(FOLDER + '/')}")
        prune_broken(self._disk, LINES_SUFFIX)
        prune_broken(self._disk, PACKED_SUFFIX)
        self._disk.sync_dir(BROKEN)
        self._disk.sync_dir(FOLDER)


def name_of(first: int, last: int) -> str:
    """The file with the lines of a range; names sort by it."""
    return f"{FOLDER}/{first:020d}-{last:020d}{LINES_SUFFIX}"


def packed_name(first: int, last: int) -> str:
    """The file with the packed events of a range; names sort by it."""
    return f"{FOLDER}/{first:020d}-{last:020d}{PACKED_SUFFIX}"


def columns_name(first: int, last: int) -> str:
    """The file with the rows of a range as Arrow (`arrow_cache`)."""
    return f"{COLUMNS_FOLDER}/{first:020d}-{last:020d}{COLUMNS_SUFFIX}"


NAMES: Final = (packed_name, name_of, columns_name)


def floor_name(index: int) -> str:
    """The empty file that records that history up to an index is deleted."""
    return f"{FOLDER}/{index:020d}{FLOOR_SUFFIX}"


def range_of(name: str) -> tuple[int, int] | None:
    """The indexes that a file covers by its name; None if it is not a segment."""
    stem, dot, suffix = name.partition(".")
    first, dash, last = stem.partition("-")
    is_segment = dot + suffix in (LINES_SUFFIX, PACKED_SUFFIX)
    if not (dash and is_segment and first.isdecimal() and last.isdecimal()):
        return None
    return int(first), int(last)


def floor_of(name: str) -> int:
    """The floor in the name of a file; 0 if it has none."""
    stem = name.removesuffix(FLOOR_SUFFIX)
    return int(stem) if name.endswith(FLOOR_SUFFIX) and stem.isdecimal() else 0


def _path(name: str) -> str:
    return f"{FOLDER}/{name}"


def _damaged(name: str, first: int, last: int) -> DiskError:
    return DiskError(
        ErrorCode.DISK_CORRUPT,
        f"history segment {name} does not match its checksum and was moved to broken/",
        f"fetch history {first}..{last} from another member",
    )
