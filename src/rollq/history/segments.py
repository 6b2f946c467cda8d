"""Sealed history: immutable JSONL files named by the range of log indexes that they cover.

`history/<first>-<last>.jsonl`; every line starts with `{"index":N,` and the last line is a footer
with the count of lines and their checksum. A range without events is a file with a footer alone:
covered and empty is not the same as missing. A file that does not verify is moved under `broken/`,
so its range shows up in `gaps` and is fetched from a peer. Format changes: a new layout takes a new
`version` in the footer and this reader stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final
from zlib import crc32

import msgspec

from rollq.base.errors import DiskError, ErrorCode, LocalError
from rollq.base.limits import SYNC_BYTES
from rollq.store.disk import BROKEN, Disk, prune_broken

FOLDER: Final = "history"
SUFFIX: Final = ".jsonl"
TEMPORARY: Final = ".tmp"
SEALING: Final = f"{FOLDER}/sealing{TEMPORARY}"
VERSION: Final = 1
PIECE_BYTES: Final = 256 * 1024
FOOTER_BYTES_MAX: Final = 256
LAST_ROW_BYTES_MAX: Final = 16 * 1024  # a row is its columns and a detail, which is bounded
FLOOR_SUFFIX: Final = ".floor"
PREFIX: Final = b'{"index":'


class Footer(msgspec.Struct, frozen=True, tag_field="footer", tag="rollq-history"):
    """The last line of a segment."""

    version: int
    first: int
    last: int
    count: int
    crc: int


class _Stamp(msgspec.Struct):
    """Of a row, only when it was made."""

    ts: int


class Segments:
    """The sealed segments of one member."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._scrubbed = ""  # the name that was verified last
        self.damaged: list[str] = []  # names of what did not verify and is now under broken/

    def seal(self, first: int, last: int, lines: Iterable[bytes]) -> None:
        """Store the events of a range; durable when it returns. Again for the same range: no-op.

        Args:
            first: the first log index covered.
            last: the last one.
            lines: JSON objects without a line end, in order of index, each starting with
                `{"index":N`.
        """
        if self._is_sealed(first, last):
            return
        self.begin(SEALING)
        self.write(SEALING, first, last, lines)
        self.publish(SEALING, first, last)

    def begin(self, temporary: str) -> None:
        """Make an empty file for the first of three steps to a segment: begin, write, publish."""
        self._disk.remove(temporary)
        self._disk.write(temporary, 0, b"")

    def write(self, temporary: str, first: int, last: int, lines: Iterable[bytes]) -> None:
        """Write the lines of a range, as for `seal`, and sync them."""
        offset, count, crc, seen = 0, 0, 0, first
        piece = bytearray()
        alike = b"\n"  # how other lines of the index that was seen last begin
        for line in lines:
            if not line.startswith(alike):
                index = index_of(line)
                if not seen <= index <= last:
                    raise _misplaced(index, first, last)
                seen, alike = index, b"%b%d," % (PREFIX, index)
            if b"\n" in line:
                raise _misplaced(seen, first, last)
            count += 1
            piece += line
            piece += b"\n"
            if len(piece) >= PIECE_BYTES:
                offset, crc = self._put(temporary, offset, crc, piece)
        offset, crc = self._put(temporary, offset, crc, piece)
        crc = footer_crc(VERSION, first, last, count, crc)
        footer = msgspec.json.encode(Footer(VERSION, first, last=last, count=count, crc=crc))
        self._disk.write(temporary, offset, footer + b"\n")
        self._disk.sync(temporary)

    def publish(self, temporary: str, first: int, last: int) -> None:
        """Give what was written its name; durable when it returns."""
        if self._is_sealed(first, last):
            self._disk.remove(temporary)
            return
        self._disk.rename(temporary, name_of(first, last))
        self._disk.sync_dir(FOLDER)

    def clear_temporaries(self) -> None:
        """Remove what an earlier process began to write and did not publish."""
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
        """History up to here was kept long enough and is gone; 0: there is all of it."""
        return max((floor_of(name) for name in self._disk.names(FOLDER)), default=0)

    def forget(self, index: int) -> None:
        """Raise the floor; segments that end at or below it go. Durable when it returns."""
        floor = floor_name(index)
        self._disk.write(floor, 0, b"")
        self._disk.sync(floor)
        self._disk.sync_dir(FOLDER)
        # Only now: without the floor what is missing would be a gap.
        for name in self._disk.names(FOLDER):
            ends = range_of(name)
            if (ends is not None and ends[1] <= index) or 0 < floor_of(name) < index:
                self._disk.remove(self._path(name))
        self._disk.sync_dir(FOLDER)

    def sizes(self) -> list[tuple[int, int, int]]:
        """First index, last index and bytes of every segment, in order."""
        return [(*each, self._disk.size(name_of(*each))) for each in self.ranges()]

    def newest_ms(self, first: int, last: int) -> int | None:
        """The stamp of the last row of a segment, 0 if it has no rows; None if it is damaged."""
        name = name_of(first, last)
        size = self._disk.size(name)
        length = min(LAST_ROW_BYTES_MAX + FOOTER_BYTES_MAX, size)
        lines = self._disk.read(name, size - length, length).split(b"\n")
        if len(lines) < 2 or lines[-1]:
            return None
        if len(lines) == 2:  # the footer, and nothing after its end
            return 0
        try:
            return msgspec.json.decode(lines[-3], type=_Stamp).ts
        except msgspec.MsgspecError:
            return None

    def read(self, first: int, last: int) -> Iterator[bytes]:
        """Lines with first <= index <= last, in order, each once, without line ends. What no
        segment covers is left out: ask `gaps` first.

        Raises:
            DiskError: DISK_CORRUPT, before any line of a segment that does not verify. Its range
                is a gap from then on.
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
            name = name_of(begin, end)
            if not self.is_sound(begin, end):
                self._put_aside(name)
                raise _damaged(name, begin, end)
            wanted = max(wanted, begin)
            chunk: list[bytes] = []
            for line in self._lines(name):
                index = index_of(line)
                if index > last:
                    break
                while wanted < index:
                    yield wanted, chunk
                    wanted, chunk = wanted + 1, []
                if index == wanted:
                    chunk.append(line)
            while wanted <= min(end, last):
                yield wanted, chunk
                wanted, chunk = wanted + 1, []

    def is_sound(self, first: int, last: int) -> bool:
        """Whether a segment verifies; all of it is read for that."""
        return self._footer(name_of(first, last)) is not None

    def scrub(self) -> list[str]:
        """Verify everything; returns the names of what did not, whose ranges are now gaps."""
        bad = [name for name in map(self._path, self.names()) if self._footer(name) is None]
        for name in bad:
            self._put_aside(name)
        return bad

    def scrub_next(self) -> None:
        """Verify one segment, the next in turn: called from time to time it sees them all."""
        names = self.names()
        if names:
            name = self._path(next((each for each in names if each > self._scrubbed), names[0]))
            self._scrubbed = name.removeprefix(f"{FOLDER}/")
            if self._footer(name) is None:
                self._put_aside(name)

    def names(self) -> list[str]:
        """File names, in order of their ranges."""
        return [name for name in self._disk.names(FOLDER) if range_of(name) is not None]

    def ranges(self) -> list[tuple[int, int]]:
        """First and last index of every segment, in order."""
        ranges = (range_of(name) for name in self._disk.names(FOLDER))
        return [each for each in ranges if each is not None]

    @staticmethod
    def _path(name: str) -> str:
        return f"{FOLDER}/{name}"

    def _is_sealed(self, first: int, last: int) -> bool:
        name = name_of(first, last)
        if self._disk.size(name) < 0:
            return False
        if self._footer(name) is not None:
            return True
        self._put_aside(name)
        return False

    def _put(self, name: str, offset: int, crc: int, piece: bytearray) -> tuple[int, int]:
        """Write a piece and empty it; returns where the next goes and the checksum so far."""
        self._disk.write(name, offset, bytes(piece))
        if offset // SYNC_BYTES != (offset + len(piece)) // SYNC_BYTES:
            self._disk.sync(name)
        offset, crc = offset + len(piece), crc32(piece, crc)
        piece.clear()
        return offset, crc

    def _footer(self, name: str) -> Footer | None:
        """The footer if the whole file verifies."""
        size = self._disk.size(name)
        start = max(size - FOOTER_BYTES_MAX, 0)
        tail = self._disk.read(name, start, FOOTER_BYTES_MAX) if size > 0 else b""
        if not tail.endswith(b"\n"):
            return None
        begin = tail.rfind(b"\n", 0, -1) + 1
        try:
            footer = msgspec.json.decode(tail[begin:], type=Footer)
        except (msgspec.MsgspecError, UnicodeDecodeError):
            return None
        count, crc = self._sums(name, start + begin)
        crc = footer_crc(footer.version, footer.first, footer.last, count, crc)
        if (count, crc) != (footer.count, footer.crc):
            return None
        if footer.version != VERSION:
            raise DiskError(
                ErrorCode.DISK_VERSION,
                f"history segment {name} is of version {footer.version}, and this rollq reads "
                f"only {VERSION}",
                "start the rollq that wrote it, or a newer one",
            )
        exact = tail[begin:-1] == msgspec.json.encode(footer)
        return footer if exact and name == name_of(footer.first, footer.last) else None

    def _sums(self, name: str, end: int) -> tuple[int, int]:
        """Count of lines and checksum of everything before the footer."""
        count, crc = 0, 0
        for offset in range(0, end, PIECE_BYTES):
            piece = self._disk.read(name, offset, min(PIECE_BYTES, end - offset))
            count += piece.count(b"\n")
            crc = crc32(piece, crc)
        return count, crc

    def _lines(self, name: str) -> Iterator[bytes]:
        """All lines but the footer."""
        rest = b""
        for offset in range(0, self._disk.size(name), PIECE_BYTES):
            *lines, rest = (rest + self._disk.read(name, offset, PIECE_BYTES)).split(b"\n")
            yield from (line for line in lines if line.startswith(PREFIX))

    def _put_aside(self, name: str) -> None:
        self.damaged.append(name)
        self._disk.rename(name, f"{BROKEN}/history-{name.removeprefix(FOLDER + '/')}")
        prune_broken(self._disk, SUFFIX)
        self._disk.sync_dir(BROKEN)
        self._disk.sync_dir(FOLDER)


def name_of(first: int, last: int) -> str:
    """The file that covers a range; names sort by it."""
    return f"{FOLDER}/{first:020d}-{last:020d}{SUFFIX}"


def floor_name(index: int) -> str:
    """The empty file that tells that history up to an index is gone."""
    return f"{FOLDER}/{index:020d}{FLOOR_SUFFIX}"


def index_of(line: bytes) -> int:
    """The log index that a history line starts with."""
    digits = line[len(PREFIX) : len(PREFIX) + 20].split(b",")[0].split(b"}")[0]
    if not line.startswith(PREFIX) or not digits.isdigit():
        raise LocalError(ErrorCode.BUG, f"not a history line: {line[:40]!r}")
    return int(digits)


def _misplaced(index: int, first: int, last: int) -> LocalError:
    return LocalError(ErrorCode.BUG, f"history line {index} does not belong into {first}..{last}")


def footer_crc(version: int, first: int, last: int, count: int, lines_crc: int) -> int:
    """The checksum of the lines and of what the footer says of them, in every version."""
    return crc32(f"{version} {first} {last} {count}".encode(), lines_crc)


def range_of(name: str) -> tuple[int, int] | None:
    """The indexes that a file covers by its name; None if it is not a segment."""
    first, dash, last = name.removesuffix(SUFFIX).partition("-")
    if not (dash and name.endswith(SUFFIX) and first.isdecimal() and last.isdecimal()):
        return None
    return int(first), int(last)


def floor_of(name: str) -> int:
    """The index up to which history is gone, by the name of a file; 0 if it does not tell."""
    stem = name.removesuffix(FLOOR_SUFFIX)
    return int(stem) if name.endswith(FLOOR_SUFFIX) and stem.isdecimal() else 0


def _damaged(name: str, first: int, last: int) -> DiskError:
    return DiskError(
        ErrorCode.DISK_CORRUPT,
        f"history segment {name} does not match its checksum and was moved to broken/",
        f"fetch history {first}..{last} from another member",
    )
