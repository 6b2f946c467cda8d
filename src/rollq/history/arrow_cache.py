"""Arrow copies of sealed segments, so that readers need not parse lines.

`columns/<first>-<last>.arrow`: an Arrow IPC stream with one record batch for every piece of whole
log indexes, then a footer of ours that says where each batch is and which indexes it holds. So
any run of batches can be sent as a stream of its own, as bytes, by a process without Arrow.

    schema message | batch message … | end of stream | footer (JSON) | length of it 4 | checksum 4

A copy is a cache. Lines are authoritative: a copy that does not verify, has another version or is
missing is created again, and readers get lines meanwhile. So nothing here is synced. Format
changes: columns are appended (`columns.EVENTS`) and raise VERSION, which makes all anew.
"""

from __future__ import annotations

from typing import Final
from zlib import crc32

import msgspec

from rollq.base.errors import DiskError
from rollq.history.segments import COLUMNS_FOLDER, COLUMNS_SUFFIX, columns_name, range_of
from rollq.store.disk import Disk

TEMPORARY: Final = ".tmp"
VERSION: Final = 3
END_OF_STREAM: Final = b"\xff\xff\xff\xff\x00\x00\x00\x00"
TAIL_BYTES: Final = 8
FOOTER_BYTES_MAX: Final = 1024 * 1024


class RowBatch(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """A record batch with all rows of some log indexes."""

    first: int
    last: int
    offset: int
    size: int
    rows: int
    crc: int


class ArrowCopy(msgspec.Struct, frozen=True):
    """The footer."""

    version: int
    group: str
    first: int
    last: int
    schema_bytes: int
    schema_crc: int
    batches: list[RowBatch]


def copy_range(name: str) -> tuple[int, int] | None:
    """The range of a file, given without its folder; None: it is not a copy."""
    return (
        range_of(f"{name.removesuffix(COLUMNS_SUFFIX)}.jsonl")
        if name.endswith(COLUMNS_SUFFIX)
        else None
    )


def encode_footer(copy: ArrowCopy) -> bytes:
    """The footer after the stream."""
    footer = msgspec.json.encode(copy)
    return footer + len(footer).to_bytes(4, "little") + crc32(footer).to_bytes(4, "little")


def copies_there(disk: Disk) -> frozenset[tuple[int, int]]:
    """The ranges of all copies, readable or not."""
    try:
        ranges = map(copy_range, disk.names(COLUMNS_FOLDER))
        return frozenset(each for each in ranges if each is not None)
    except DiskError:
        return frozenset()


def read_copy(disk: Disk, first: int, last: int, group: str) -> ArrowCopy | None:
    """The footer of a copy, if there is one of this version that can be read."""
    try:
        return _read_copy(disk, first, last, group)
    except DiskError:
        return None


def _read_copy(disk: Disk, first: int, last: int, group: str) -> ArrowCopy | None:
    name = columns_name(first, last)
    size = disk.size(name)
    if size < TAIL_BYTES:
        return None
    tail = disk.read(name, size - TAIL_BYTES, TAIL_BYTES)
    length = int.from_bytes(tail[:4], "little")
    if not 0 < length <= min(FOOTER_BYTES_MAX, size - TAIL_BYTES):
        return None
    footer = disk.read(name, size - TAIL_BYTES - length, length)
    if crc32(footer) != int.from_bytes(tail[4:], "little"):
        return None
    try:
        copy = msgspec.json.decode(footer, type=ArrowCopy)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        return None
    expected = (VERSION, group, first, last)
    return copy if (copy.version, copy.group, copy.first, copy.last) == expected else None


def read_stream(disk: Disk, copy: ArrowCopy, batch: RowBatch) -> bytes | None:
    """One batch as an Arrow IPC stream; None if it does not verify."""
    name = columns_name(copy.first, copy.last)
    try:
        schema = disk.read(name, 0, copy.schema_bytes)
        data = disk.read(name, batch.offset, batch.size)
    except DiskError:
        return None
    if (crc32(schema), crc32(data)) != (copy.schema_crc, batch.crc):
        return None
    return b"".join((schema, data, END_OF_STREAM))
