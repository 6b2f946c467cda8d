"""A sealed segment of JSON lines: `history/<first>-<last>.jsonl`.

Every line starts with `{"index":N,` and the last line is a footer with the count of lines and their
checksum. Older members wrote all history like this; now it is the form of history received from a
peer, and of copies of packed segments for people and `jq`. Format changes: a new layout takes a new
`version` in the footer and this reader stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final
from zlib import crc32

import msgspec

from rollq.base.errors import DiskError, ErrorCode, LocalError
from rollq.base.limits import SYNC_BYTES
from rollq.store.disk import Disk

VERSION: Final = 1
PIECE_BYTES: Final = 256 * 1024
FOOTER_BYTES_MAX: Final = 256
LAST_ROW_BYTES_MAX: Final = 16 * 1024  # a row is its columns and a detail, which is bounded
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


def write_lines(disk: Disk, name: str, first: int, last: int, lines: Iterable[bytes]) -> None:
    """Write a segment and sync it.

    Args:
        disk: where.
        name: of the file.
        first: the first log index covered.
        last: the last one.
        lines: JSON objects without a line end, in order of index, each starting with `{"index":N`.
    """
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
            offset, crc = _put(disk, name, offset, crc, piece)
    offset, crc = _put(disk, name, offset, crc, piece)
    disk.write(name, offset, footer_line(first, last, count, crc))
    disk.sync(name)


def _put(disk: Disk, name: str, offset: int, crc: int, piece: bytearray) -> tuple[int, int]:
    """Write a piece and empty it; returns where the next goes and the checksum so far."""
    disk.write(name, offset, bytes(piece))
    if offset // SYNC_BYTES != (offset + len(piece)) // SYNC_BYTES:
        disk.sync(name)
    offset, crc = offset + len(piece), crc32(piece, crc)
    piece.clear()
    return offset, crc


def footer_line(first: int, last: int, count: int, lines_crc: int) -> bytes:
    """The footer after so many lines with this checksum."""
    crc = footer_crc(VERSION, first, last, count, lines_crc)
    return msgspec.json.encode(Footer(VERSION, first, last=last, count=count, crc=crc)) + b"\n"


def verified(disk: Disk, name: str) -> Footer | None:
    """The footer if the whole file verifies.

    Raises:
        DiskError: DISK_VERSION if a newer rollq wrote it.
    """
    size = disk.size(name)
    start = max(size - FOOTER_BYTES_MAX, 0)
    tail = disk.read(name, start, FOOTER_BYTES_MAX) if size > 0 else b""
    if not tail.endswith(b"\n"):
        return None
    begin = tail.rfind(b"\n", 0, -1) + 1
    try:
        footer = msgspec.json.decode(tail[begin:], type=Footer)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    count, crc = _sums(disk, name, start + begin)
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
    return footer if tail[begin:-1] == msgspec.json.encode(footer) else None


def _sums(disk: Disk, name: str, end: int) -> tuple[int, int]:
    """Count of lines and checksum of everything before the footer."""
    count, crc = 0, 0
    for offset in range(0, end, PIECE_BYTES):
        piece = disk.read(name, offset, min(PIECE_BYTES, end - offset))
        count += piece.count(b"\n")
        crc = crc32(piece, crc)
    return count, crc


def lines_in(disk: Disk, name: str) -> Iterator[bytes]:
    """All lines but the footer."""
    rest = b""
    for offset in range(0, disk.size(name), PIECE_BYTES):
        *lines, rest = (rest + disk.read(name, offset, PIECE_BYTES)).split(b"\n")
        yield from (line for line in lines if line.startswith(PREFIX))


def newest_ms(disk: Disk, name: str) -> int | None:
    """The stamp of the last row, 0 if there are no rows; None if the file is damaged."""
    size = disk.size(name)
    length = min(LAST_ROW_BYTES_MAX + FOOTER_BYTES_MAX, size)
    lines = disk.read(name, size - length, length).split(b"\n")
    if len(lines) < 2 or lines[-1]:
        return None
    if len(lines) == 2:  # the footer, and nothing after its end
        return 0
    try:
        return msgspec.json.decode(lines[-3], type=_Stamp).ts
    except msgspec.MsgspecError:
        return None


def index_of(line: bytes) -> int:
    """The log index that a history line starts with."""
    digits = line[len(PREFIX) : len(PREFIX) + 20].split(b",")[0].split(b"}")[0]
    if not line.startswith(PREFIX) or not digits.isdigit():
        raise LocalError(ErrorCode.BUG, f"not a history line: {line[:40]!r}")
    return int(digits)


def footer_crc(version: int, first: int, last: int, count: int, lines_crc: int) -> int:
    """The checksum of the lines and of what the footer says of them, in every version."""
    return crc32(f"{version} {first} {last} {count}".encode(), lines_crc)


def _misplaced(index: int, first: int, last: int) -> LocalError:
    return LocalError(ErrorCode.BUG, f"history line {index} does not belong into {first}..{last}")
