"""The header of a snapshot file. Pure.

    magic 4 | version 2 | padding 2 | meta_bytes 4 | crc 4 (of all before it and of the meta)
    meta (msgpack `SnapshotMeta`), padding

Version 1 has no large bodies, or none that are told apart; 2 refers to them in the log; 3 is one
that a peer sent, with all of them (`snapshot_layout`). Format changes: a new layout takes a new
version and this reader stays.
"""

from __future__ import annotations

import struct
from typing import Final
from zlib import crc32

import msgspec

from rollq.base.errors import DiskError, ErrorCode
from rollq.raft.types import SnapshotMeta

MAGIC: Final = b"RQS\x01"
PLAIN: Final = 1
REFERRING: Final = 2
WHOLE: Final = 3
VERSIONS: Final = (PLAIN, REFERRING, WHOLE)
PLAIN_FIELDS: Final = 5  # of the meta
PADDING_BYTES: Final = 16  # room for numbers of the meta that are known when all is written

_FIXED: Final = struct.Struct("<4sHHI")  # magic, version, padding, meta_bytes
_CRC: Final = struct.Struct("<I")
HEADER_BYTES: Final = _FIXED.size + _CRC.size

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(SnapshotMeta)


class SnapshotHeader(msgspec.Struct, frozen=True):
    """The decoded header."""

    meta: SnapshotMeta
    version: int
    length: int


def encode_header(meta: SnapshotMeta, version: int = PLAIN, *, length: int = 0) -> bytes:
    """Everything before the body.

    Args:
        meta: of the snapshot.
        version: of the file.
        length: that it must have; 0: any. One that refers to the log has padding for it, since
            numbers of its meta may become longer.
    """
    # Without large bodies it is what it was before there were any.
    fields = msgspec.structs.astuple(meta)
    body = _encoder.encode(fields if version != PLAIN else fields[:PLAIN_FIELDS])
    padding = PADDING_BYTES if version == REFERRING else 0
    if length:
        padding = length - HEADER_BYTES - len(body)
    fixed = _FIXED.pack(MAGIC, version, padding, len(body))
    return fixed + _CRC.pack(crc32(body, crc32(fixed))) + body + bytes(padding)


def needed_bytes(data: bytes) -> int:
    """The length of the header with this beginning, if it is one."""
    return HEADER_BYTES + int(_FIXED.unpack_from(data)[3])


def decode_header(data: bytes, name: str) -> SnapshotHeader | None:
    """What a file begins with; None if it is not valid.

    Raises:
        DiskError: DISK_VERSION, if a newer rollq wrote it.
    """
    magic, version, padding, size = _FIXED.unpack_from(data)
    (crc,) = _CRC.unpack_from(data, _FIXED.size)
    end = HEADER_BYTES + size
    body = data[HEADER_BYTES:end]
    is_valid = (
        magic == MAGIC and len(body) == size and crc32(body, crc32(data[: _FIXED.size])) == crc
    )
    if not is_valid:
        return None
    if version not in VERSIONS:
        raise DiskError(
            ErrorCode.DISK_VERSION,
            f"snapshot {name} is of version {version}, and this rollq reads only up to "
            f"{VERSIONS[-1]}",
            "start the rollq that wrote it, or a newer one",
        )
    try:
        return SnapshotHeader(_decoder.decode(body), version, end + padding)
    except msgspec.MsgspecError:
        return None
