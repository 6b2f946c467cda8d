"""A sealed segment of packed events: `history/<first>-<last>.runs`.

    magic 8 | block … | footer (msgpack) | length of the footer 4 | checksum of it 4

A block is the zstd frame of a msgpack array of `PackedIndex`: some whole log indexes. The footer
tells where each block is, which indexes it holds and its checksum, so one can be read, or sent to a
reader as it is, without the others. Numbers are little-endian. Every byte is covered: by a
checksum, or by what must stand there. Format changes: fields are appended to `Block`, `PackedIndex`
or `Event` with a default; a new layout takes a new version, and this reader stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final
from zlib import crc32

import msgspec
import zstandard

from rollq.base.errors import DiskError, ErrorCode
from rollq.base.limits import SYNC_BYTES
from rollq.history.packed import ZSTD_LEVEL, PackedIndex, decode_indexes, encode_indexes
from rollq.store.disk import Disk

MAGIC: Final = b"rollqrun"
VERSION: Final = 1
BLOCK_BYTES: Final = 512 * 1024  # of packed events, unless one index has more
TAIL_BYTES: Final = 8
FOOTER_BYTES_MAX: Final = 16 * 1024 * 1024


class Block(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Where the events of some log indexes are: all of `first` to `last`."""

    first: int
    last: int
    offset: int
    size: int
    plain_bytes: int  # of what the frame holds
    newest_ms: int  # the latest stamp
    crc: int


class PackedFooter(msgspec.Struct, frozen=True, array_like=True):
    """What a segment holds."""

    version: int
    first: int
    last: int
    blocks: list[Block]

    @property
    def newest_ms(self) -> int:
        """The latest stamp; 0: there is none."""
        return max((block.newest_ms for block in self.blocks), default=0)


def write_packed(
    disk: Disk, name: str, first: int, last: int, indexes: Iterable[PackedIndex]
) -> None:
    """Write a segment and sync it. Indexes ascend; missing ones have no events."""
    disk.write(name, 0, MAGIC)
    compress = zstandard.ZstdCompressor(level=ZSTD_LEVEL).compress
    blocks: list[Block] = []
    offset, begin = len(MAGIC), first
    for part in _parts(indexes):
        plain = encode_indexes(part)
        data = compress(plain)
        ends = (begin, part[-1].index)
        newest_ms = max(index.stamp_ms for index in part)
        blocks.append(Block(*ends, offset, len(data), len(plain), newest_ms, crc32(data)))
        disk.write(name, offset, data)
        if offset // SYNC_BYTES != (offset + len(data)) // SYNC_BYTES:
            disk.sync(name)
        offset, begin = offset + len(data), part[-1].index + 1
    footer = _encode(PackedFooter(VERSION, first, last, blocks))
    tail = len(footer).to_bytes(4, "little") + crc32(footer).to_bytes(4, "little")
    disk.write(name, offset, footer + tail)
    disk.sync(name)


def _parts(indexes: Iterable[PackedIndex]) -> Iterator[list[PackedIndex]]:
    """The content of each block."""
    part: list[PackedIndex] = []
    size = 0
    for index in indexes:
        if part and size + index.packed_bytes > BLOCK_BYTES:
            yield part
            part, size = [], 0
        part.append(index.plain())
        size += index.packed_bytes
    if part:
        yield part


def read_footer(disk: Disk, name: str) -> tuple[PackedFooter, int] | None:
    """The footer and where it begins; None if it is damaged, or the file is cut.

    Raises:
        DiskError: DISK_VERSION if a newer rollq wrote it.
    """
    size = disk.size(name)
    if size < len(MAGIC) + TAIL_BYTES:
        return None
    length = int.from_bytes(disk.read(name, size - TAIL_BYTES, 4), "little")
    if not 0 < length <= min(FOOTER_BYTES_MAX, size - TAIL_BYTES - len(MAGIC)):
        return None
    begin = size - TAIL_BYTES - length
    footer = footer_in(disk.read(name, begin, TAIL_BYTES + length), name)
    return None if footer is None else (footer, begin)


def footer_in(end: bytes, name: str) -> PackedFooter | None:
    """The footer in the last bytes of a file, or in all of them. Raises as `read_footer`."""
    length = int.from_bytes(end[-TAIL_BYTES:-4], "little")
    footer = end[-TAIL_BYTES - length : -TAIL_BYTES]
    if len(footer) != length or crc32(footer) != int.from_bytes(end[-4:], "little"):
        return None
    try:
        version, *_ = msgspec.msgpack.decode(footer, type=list[Any])
        if version != VERSION:
            raise _newer(name, version)
        return _decode(footer)
    except (msgspec.MsgspecError, ValueError):
        return None


def verified(disk: Disk, name: str) -> PackedFooter | None:
    """The footer if the whole file verifies: all of it is read. Raises as `read_footer`."""
    found = read_footer(disk, name)
    if found is None or disk.read(name, 0, len(MAGIC)) != MAGIC:
        return None
    footer, begin = found
    end, index = len(MAGIC), footer.first
    for block in footer.blocks:
        if (block.offset, block.first) != (end, index) or read_block(disk, name, block) is None:
            return None
        end, index = end + block.size, block.last + 1
    return footer if end == begin and index <= footer.last + 1 else None


def read_block(disk: Disk, name: str, block: Block) -> bytes | None:
    """The frame of a block as it is in the file; None if it does not verify."""
    data = disk.read(name, block.offset, block.size)
    return data if len(data) == block.size and crc32(data) == block.crc else None


def indexes_in(data: bytes) -> list[PackedIndex]:
    """The content of the frame of a verified block."""
    return decode_indexes(plain_of(data))


def plain_of(data: bytes) -> bytes:
    """The frame of a block, inflated."""
    return zstandard.ZstdDecompressor().decompress(data, allow_extra_data=False)


def _newer(name: str, version: object) -> DiskError:
    return DiskError(
        ErrorCode.DISK_VERSION,
        f"history segment {name} is of version {version}, and this rollq reads only {VERSION}",
        "start the rollq that wrote it, or a newer one",
    )


_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder(PackedFooter).decode
