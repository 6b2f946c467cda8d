"""One record of the write-ahead log: layout, checksums, and how to find one in damaged bytes.

Pure: bytes in, values out; no file is touched here. A *record* is one batch of one persist:

    magic 4 | version 1 | kind 1 | copy 1 | zero 1
    segment 8 | seq 8 | synced_seq 8              which file, which batch, what is surely on disk
    term 8 | vote 8 | commit 8                    the hard state after this batch
    first_index 8 | last_index 8 | last_term 8    the entries it holds, the log's end after it
    prev_crc 4 | body_bytes 4 | body_crc 4 | header_crc 4        all little-endian, 96 bytes
    body

- `synced_seq`: every batch up to this one was fsynced before this one was written. A damaged batch
  that a later header calls synced is corruption; any other damaged batch is a torn write.
- `prev_crc` is the header checksum of the batch before: a record left over from an earlier use of
  the file cannot enter the chain.
- The hard state is in every header, so any later header supersedes a corrupt one's vote.
- Header and body have checksums of their own: a corrupt body still tells which entries it held.
- A body never holds the magic (see `stuff`): no payload can pretend to be a header.

Format changes: a new layout takes a new VERSION and this reader stays; a new kind, a new number.
Records of an unknown version or kind stop the member: skipping one would be a silent loss.
"""

from __future__ import annotations

import enum
import re
import struct
from collections.abc import Iterator, Sequence
from typing import Final
from zlib import crc32

import msgspec

from rollq.base.errors import DiskError, ErrorCode, LocalError
from rollq.base.limits import RECORD_BYTES_MAX
from rollq.raft.types import Entry, HardState, Position

VERSION: Final = 1
MAGIC: Final = b"RQW\x01"
# The first three bytes of the magic share no byte, so they cannot overlap with themselves, and in
# a stuffed body they are always followed by a zero, which the magic is not.
_STEM: Final = MAGIC[:3]
_STUFFED: Final = _STEM + b"\x00"
_find_stem: Final = re.compile(_STEM).search  # twice as fast as `in`, and bodies may be large

_LAYOUT: Final = struct.Struct("<4s4B9Q3I")
_CRC: Final = struct.Struct("<I")
HEADER_BYTES: Final = _LAYOUT.size + _CRC.size
BLANK: Final = bytes(HEADER_BYTES)  # bytes where no record was written


class Kind(enum.IntEnum):
    """The meaning of a record's body."""

    HEAD = 1  # the IdentityHead; opens a segment; always written twice (copy 0, copy 1)
    ENTRIES = 2  # entries, or an empty body: only the hard state or the marker moved
    RESET = 3  # a snapshot was installed: the log is void up to (last_term, last_index)
    BASE = 4  # a HEAD that also voids every earlier segment; opens a rewritten log


KINDS: Final = frozenset(int(kind) for kind in Kind)
HEADS: Final = frozenset({int(Kind.HEAD), int(Kind.BASE)})


class RecordHeader(msgspec.Struct, frozen=True, gc=False):
    """The fixed part of a record, checked."""

    kind: int
    copy: int
    segment: int
    seq: int
    synced_seq: int
    hard_state: HardState
    first_index: int
    last: Position
    prev_crc: int
    body_bytes: int
    body_crc: int
    crc: int

    @property
    def record_bytes(self) -> int:
        """Length of header and body."""
        return HEADER_BYTES + self.body_bytes


def encode_header(
    *,
    kind: int,
    segment: int,
    seq: int,
    synced_seq: int,
    prev_crc: int,
    hard_state: HardState,
    first_index: int,
    last: Position,
    body: bytes,
    copy: int = 0,
) -> tuple[bytes, int]:
    """The bytes before the body of a record, and their checksum (the next record's `prev_crc`)."""
    if len(body) > RECORD_BYTES_MAX:
        raise LocalError(ErrorCode.BUG, f"a record body of {len(body)} bytes is over the limit")
    fixed = _LAYOUT.pack(
        MAGIC,
        VERSION,
        kind,
        copy,
        0,
        segment,
        seq,
        synced_seq,
        hard_state.term,
        hard_state.vote,
        hard_state.commit,
        first_index,
        last.index,
        last.term,
        prev_crc,
        len(body),
        crc32(body),
    )
    crc = crc32(fixed)
    return fixed + _CRC.pack(crc), crc


def decode_header(data: bytes, offset: int, segment: int) -> RecordHeader | None:
    """The header at `offset`, or None if there is no valid one that belongs to `segment`.

    Raises:
        DiskError: DISK_VERSION, if a newer rollq wrote it.
    """
    if not data.startswith(MAGIC, offset) or len(data) - offset < HEADER_BYTES:
        return None
    split = offset + _LAYOUT.size
    (crc,) = _CRC.unpack_from(data, split)
    if crc32(memoryview(data)[offset:split]) != crc:
        return None
    (_, version, kind, copy, _, number, seq, synced_seq, *rest) = _LAYOUT.unpack_from(data, offset)
    if number != segment:
        return None
    if version != VERSION or kind not in KINDS:
        raise DiskError(
            ErrorCode.DISK_VERSION,
            f"log segment {segment} holds a record of version {version}, kind {kind}, and this "
            f"rollq reads only version {VERSION}",
            "start the rollq that wrote it, or a newer one",
        )
    term, vote, commit, first_index, last_index, last_term, prev_crc, body_bytes, body_crc = rest
    if body_bytes > RECORD_BYTES_MAX:
        return None
    return RecordHeader(
        kind,
        copy,
        segment=number,
        seq=seq,
        synced_seq=synced_seq,
        hard_state=HardState(term, vote, commit),
        first_index=first_index,
        last=Position(last_term, last_index),
        prev_crc=prev_crc,
        body_bytes=body_bytes,
        body_crc=body_crc,
        crc=crc,
    )


def decode_body(header: RecordHeader, data: bytes, offset: int) -> bytes | None:
    """The body of the record at `offset`, or None if it is cut or its checksum is wrong."""
    if not has_sound_body(header, data, offset):
        return None
    begin = offset + HEADER_BYTES
    return data[begin : begin + header.body_bytes]


def has_sound_body(header: RecordHeader, data: bytes, offset: int) -> bool:
    """Whether the body of the record at `offset` is complete and its checksum right."""
    begin = offset + HEADER_BYTES
    body = memoryview(data)[begin : begin + header.body_bytes]
    return len(body) == header.body_bytes and crc32(body) == header.body_crc


def find_headers(data: bytes, start: int, segment: int) -> Iterator[tuple[int, RecordHeader]]:
    """Every valid header of this segment at or after `start`, at any offset."""
    offset = data.find(MAGIC, start)
    while offset >= 0:
        header = decode_header(data, offset, segment)
        if header is not None:
            yield offset, header
        offset = data.find(MAGIC, offset + 1)


_encoder = msgspec.msgpack.Encoder()
_entries_decoder = msgspec.msgpack.Decoder(list[Entry])


def encode_entries(entries: Sequence[Entry]) -> bytes:
    """The body of an ENTRIES record; empty for no entries."""
    return stuff(_encoder.encode(entries)) if entries else b""


def data_offsets(entries: Sequence[Entry], body_bytes: int) -> list[int]:
    """The offset of the data of each entry in a body; none if it was stuffed, so that it may not
    hold them verbatim.

    Args:
        entries: that are encoded in it.
        body_bytes: its length.
    """
    at = 1 if len(entries) < 16 else 3 if len(entries) < 1 << 16 else 5
    offsets: list[int] = []
    for entry in entries:
        size = len(entry.data)
        at += 1 + _int_bytes(entry.term) + _int_bytes(entry.index) + _int_bytes(entry.kind)
        at += 2 if size < 1 << 8 else 3 if size < 1 << 16 else 5
        offsets.append(at)
        at += size
    return offsets if at == body_bytes else []


def _int_bytes(value: int) -> int:
    """Of a number in msgpack."""
    if value < 1 << 16:
        return 1 if value < 1 << 7 else 2 if value < 1 << 8 else 3
    return 5 if value < 1 << 32 else 9


def decode_entries(header: RecordHeader, body: bytes) -> list[Entry] | None:
    """The entries of a checked body; None if they are not those that the header names."""
    if not body:
        return []
    try:
        entries = _entries_decoder.decode(unstuff(body))
    except msgspec.MsgspecError:
        return None
    first = header.first_index
    if len(entries) != header.last.index - first + 1:
        return None
    if any(entry.index != first + place for place, entry in enumerate(entries)):
        return None
    return entries if entries and entries[-1].term == header.last.term else None


def stuff(body: bytes) -> bytes:
    """Escape the magic in the body; `unstuff` is the inverse."""
    return body.replace(_STEM, _STUFFED) if _find_stem(body) else body


def unstuff(body: bytes) -> bytes:
    """The body as it was before `stuff`."""
    return body.replace(_STUFFED, _STEM) if _find_stem(body) else body
