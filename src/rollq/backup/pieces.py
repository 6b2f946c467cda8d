"""The history in a backup: pieces of whole log indexes without a gap, in the form that members
send to readers, compressed. A part is named by its form and its range of indexes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, NamedTuple

import msgspec
import zstandard

from rollq.base.errors import DiskError, ErrorCode
from rollq.base.limits import READER_PIECE_BYTES, SEALED_PACKED_BYTES_MAX
from rollq.history.cutting import SegmentFile
from rollq.history.packed import PackedIndex, decode_indexes, encode_indexes
from rollq.history.packed_file import plain_of, read_block
from rollq.history.segments import Segments, packed_name
from rollq.store.backup_file import HISTORY, BackupFile, BackupPart, BackupWriter
from rollq.store.disk import Disk
from rollq.wire.reader_messages import EVENTS, LINES, RUNS

FORMS: Final = (LINES, EVENTS, RUNS)
ZSTD_LEVEL: Final = 3


class HistoryPiece(NamedTuple):
    """The history of a range of log indexes."""

    first: int
    last: int
    form: str
    data: bytes


def put_piece(writer: BackupWriter, piece: HistoryPiece) -> None:
    """Write a piece into a backup."""
    with writer.part(HISTORY, f"{piece.form}:{piece.first}-{piece.last}") as put:
        put(zstandard.ZstdCompressor(level=ZSTD_LEVEL).compress(piece.data))


def sealed_pieces(disk: Disk, segments: Segments, first: int, last: int) -> Iterator[HistoryPiece]:
    """The pieces of a range without gaps, from the segments on a disk.

    Raises:
        DiskError: DISK_CORRUPT, if a segment does not verify.
    """
    for ends in segments.ranges():
        begin, end = max(ends[0], first), min(ends[1], last)
        if begin > end:
            continue
        if not segments.is_sound(*ends):
            raise DiskError(
                ErrorCode.DISK_CORRUPT,
                f"history {ends[0]} to {ends[1]} is damaged",
                "back up another member, or use --no-history",
            )
        footer = segments.packed(*ends)
        if footer is None:
            for piece in SegmentFile(disk, *ends).pieces(begin, end, READER_PIECE_BYTES):
                yield HistoryPiece(piece[0], piece[1], LINES, piece[2])
        else:
            for block in footer.blocks:
                data = read_block(disk, packed_name(*ends), block)
                if data is not None and block.last >= begin and block.first <= end:
                    kept = [one for one in decode_indexes(plain_of(data)) if begin <= one.index]
                    yield recent_piece(max(block.first, begin), min(block.last, end), kept)
            if not footer.blocks or footer.blocks[-1].last < end:  # the last indexes have no events
                rest = max(begin, footer.blocks[-1].last + 1 if footer.blocks else begin)
                yield HistoryPiece(rest, end, LINES, b"")
        first = end + 1


def recent_piece(first: int, last: int, indexes: list[PackedIndex]) -> HistoryPiece:
    """A piece of decoded indexes, from memory or from a block."""
    return HistoryPiece(first, last, RUNS, encode_indexes([i for i in indexes if i.index <= last]))


def history_in(file: BackupFile) -> Iterator[HistoryPiece]:
    """All pieces of a backup, in order.

    Raises:
        DiskError: BACKUP_CORRUPT.
    """
    expected = file.manifest.history_first
    for part in file.parts(HISTORY):
        piece = _decode(file, part)
        if piece is None or piece.first != expected or piece.form not in FORMS:
            raise _corrupt(file, part)
        expected = piece.last + 1
        yield piece
    if expected != file.manifest.history_last + 1:
        raise DiskError(
            ErrorCode.BACKUP_CORRUPT, f"the backup {file.path} lacks history from {expected} on"
        )


def seal_pieces(segments: Segments, file: BackupFile) -> None:
    """Seal the history of a backup into segments of the usual size."""
    first = reached = size = 0
    waiting: list[PackedIndex] = []
    for piece in history_in(file):
        is_lines = piece.form == LINES and bool(piece.data)
        if size and (is_lines or size > SEALED_PACKED_BYTES_MAX):
            segments.seal_packed(first, reached, waiting)
            waiting, size = [], 0
        if is_lines:
            segments.seal(piece.first, piece.last, piece.data.splitlines())
        else:
            first = first if size else piece.first
            found = decode_indexes(piece.data) if piece.data else []
            waiting += found
            size += 1 + sum(one.packed_bytes for one in found)
        reached = piece.last
    if size:
        segments.seal_packed(first, reached, waiting)


def _decode(file: BackupFile, part: BackupPart) -> HistoryPiece | None:
    form, _, ends = part.name.partition(":")
    first, _, last = ends.partition("-")
    packed = b"".join(file.pieces(part))
    try:
        data = zstandard.ZstdDecompressor().decompress(packed, allow_extra_data=False)
        if form != LINES:
            decode_indexes(data)
        return HistoryPiece(int(first), int(last), form, data)
    except (ValueError, zstandard.ZstdError, msgspec.MsgspecError):
        return None


def _corrupt(file: BackupFile, part: BackupPart) -> DiskError:
    return DiskError(
        ErrorCode.BACKUP_CORRUPT,
        f"the backup {file.path} is damaged: history {part.name[:64]!a} cannot be read",
        "use another backup",
    )
