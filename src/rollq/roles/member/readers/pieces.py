"""Sends the history of a range of log indexes: sealed parts from their files, newer ones from
memory as they are there. What a segment holds is verified before the first of its lines is sent."""

from __future__ import annotations

import msgspec
import zstandard

from rollq.base.errors import ErrorCode, RemoteError, StateError
from rollq.base.ids import MessageId
from rollq.base.limits import INFLATED_BYTES_MAX, READER_INDEXES_MAX, READER_PIECE_BYTES
from rollq.history.cutting import SegmentFile
from rollq.roles.member.history_log import Recent
from rollq.roles.member.readers.desk import ELSEWHERE
from rollq.roles.member.readers.session import ReaderSession
from rollq.wire.reader_messages import EVENTS, LINES, PackedIndex, PiecesAsk

ZSTD_LEVEL = 1  # it keeps up with a network, and takes little from those who run jobs
PACK_BYTES_MIN = 1024


def send_pieces(session: ReaderSession, ask: PiecesAsk) -> None:
    """Answer `PiecesAsk`: pieces from the first index to the last, without a gap.

    Raises:
        StateError: HISTORY_GONE; NOT_READY if this member lacks some of it now.
    """
    if not 0 < ask.first <= ask.last:
        raise RemoteError(ErrorCode.BAD_PAYLOAD, f"no range: {ask.first} to {ask.last}")
    session.desk.wait_applied(ask.last)
    at = ask.first
    while at <= ask.last:
        reached = _send_sealed(session, ask, at) or _send_recent(session, ask, at)
        # What was in memory a moment ago may be sealed by now.
        reached = reached or _send_sealed(session, ask, at)
        if not reached:
            raise _lacking(session, at)
        at = reached + 1


def _send_sealed(session: ReaderSession, ask: PiecesAsk, at: int) -> int:
    """Send what the segment that covers an index has from there on; the last index sent, or 0."""
    segments = session.desk.segments
    found = next((each for each in segments.ranges() if each[0] <= at <= each[1]), None)
    if found is None:
        return 0
    if not session.desk.is_sound(*found):
        raise StateError(
            ErrorCode.NOT_READY, f"history {found[0]} to {found[1]} is damaged here", ELSEWHERE
        )
    segment = SegmentFile(session.desk.disk, *found)
    for first, last, lines in segment.pieces(at, ask.last, READER_PIECE_BYTES):
        say_packed(session, ask.request_id, (first, last), LINES, lines)
    return min(found[1], ask.last)


def _send_recent(session: ReaderSession, ask: PiecesAsk, at: int) -> int:
    """Send what is in memory from an index on; the last index sent, or 0."""
    recent = session.desk.on_loop(
        lambda driver: driver.replica.history.recent(at, READER_INDEXES_MAX)
    )
    part: list[Recent] = []
    size = 0
    for each in recent:
        if each.index > ask.last or each.index != at + len(part):
            break
        part.append(each)
        size += len(each.packed)
        if size >= READER_PIECE_BYTES:
            break
    if not part:
        return 0
    rows = [PackedIndex(e.index, e.stamp_ms, e.packed, e.packed_bytes) for e in part]
    say_packed(session, ask.request_id, (at, part[-1].index), EVENTS, _encode(rows))
    return part[-1].index


def say_packed(
    session: ReaderSession, request_id: MessageId, ends: tuple[int, int], form: str, data: bytes
) -> None:
    """Send a piece, compressed if that is worth it."""
    # What is larger could not be inflated at once by the reader.
    packed = PACK_BYTES_MIN <= len(data) <= INFLATED_BYTES_MAX
    if packed:
        data = zstandard.ZstdCompressor(level=ZSTD_LEVEL).compress(data)
    session.say_piece(request_id, *ends, form, data, packed=packed)


def _lacking(session: ReaderSession, index: int) -> StateError:
    floor = session.desk.segments.floor()
    if index <= floor:
        return StateError(
            ErrorCode.HISTORY_GONE,
            f"history up to index {floor} is gone; {index} was asked for",
            f"begin at {floor + 1}, keep history for longer, or read under a name that holds it",
        )
    return StateError(ErrorCode.NOT_READY, f"history {index} is missing here", ELSEWHERE)


_encode = msgspec.msgpack.Encoder().encode
