"""The synced position of the log, stored outside the log.

The marker of the log itself (`synced_seq`) is in the record that follows, so corruption of the last
page can destroy a record together with its marker, and would pass for a torn write. This file
covers the last records too. It is written when the member is idle and when it stops, never in the
path of a job: records newer than the mark are judged by the log alone.

Two slots, a page each, written in turn: whatever a crash does to one, the other is valid.

    magic 4 | version 1 | zero 3
    seq 8 | term 8 | vote 8 | last_term 8 | last_index 8 | crc 4        all little-endian

Format changes: a new layout takes a new VERSION and this reader stays.
"""

from __future__ import annotations

import struct
from typing import Final
from zlib import crc32

import msgspec

from rollq.base.errors import DiskError, ErrorCode
from rollq.base.ids import MemberId
from rollq.raft.types import NO_MEMBER, Position
from rollq.store.disk import Disk

FOLDER: Final = "mark"
NAME: Final = f"{FOLDER}/synced"
VERSION: Final = 1
MAGIC: Final = b"RQS\x01"
SLOT_BYTES: Final = 4096
SLOTS: Final = 2
_LAYOUT: Final = struct.Struct("<4sB3x5Q")
_CRC: Final = struct.Struct("<I")


class Vouched(msgspec.Struct, frozen=True, gc=False):
    """Every record up to `seq` was synced; term, vote and end of the log at that time."""

    seq: int = 0  # 0: nothing is known
    term: int = 0
    vote: MemberId = NO_MEMBER
    last: Position = Position()  # where the log ended


def read_vouched(disk: Disk) -> Vouched:
    """The newest valid mark. Read it before the log if a member may be writing.

    Raises:
        DiskError: DISK_VERSION, if a newer rollq wrote it.
    """
    return max(_slots(disk), key=lambda vouched: vouched.seq)


def write_vouched(disk: Disk, vouched: Vouched) -> None:
    """Write the next mark, over the older one; durable when it returns. The log must be synced."""
    slots = _slots(disk)
    older = min(range(SLOTS), key=lambda slot: slots[slot].seq)
    is_new = disk.size(NAME) < 0
    fixed = _LAYOUT.pack(
        MAGIC,
        VERSION,
        vouched.seq,
        vouched.term,
        vouched.vote,
        vouched.last.term,
        vouched.last.index,
    )
    try:
        disk.write(NAME, older * SLOT_BYTES, fixed + _CRC.pack(crc32(fixed)))
    except DiskError as error:
        if error.code is not ErrorCode.DISK_FULL:
            raise
        return  # the marker in the log alone counts then, as it does while jobs come
    disk.sync(NAME)
    if is_new:
        disk.sync_dir(FOLDER)


def _slots(disk: Disk) -> list[Vouched]:
    if disk.size(NAME) < 0:
        return [Vouched()] * SLOTS
    length = _LAYOUT.size + _CRC.size
    return [_decode(disk.read(NAME, slot * SLOT_BYTES, length)) for slot in range(SLOTS)]


def _decode(data: bytes) -> Vouched:
    if len(data) < _LAYOUT.size + _CRC.size or not data.startswith(MAGIC):
        return Vouched()
    if crc32(data[: _LAYOUT.size]) != _CRC.unpack_from(data, _LAYOUT.size)[0]:
        return Vouched()
    _, version, seq, term, vote, last_term, last_index = _LAYOUT.unpack_from(data)
    if version != VERSION:
        raise DiskError(
            ErrorCode.DISK_VERSION,
            f"{NAME} has version {version}; this rollq knows {VERSION}",
            "start the rollq that wrote it, or a newer one",
        )
    return Vouched(seq, term, vote, Position(last_term, last_index))
