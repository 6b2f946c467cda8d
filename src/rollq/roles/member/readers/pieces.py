"""Sends the history of a range of log indexes: sealed parts from files, newer ones from memory.
Every file is verified before any of it is sent."""

from __future__ import annotations

from bisect import bisect_right

import zstandard

from rollq.base.errors import ErrorCode, RemoteError, StateError
from rollq.base.ids import MessageId
from rollq.base.limits import INFLATED_BYTES_MAX, READER_INDEXES_MAX, READER_PIECE_BYTES
from rollq.history.arrow_cache import read_copy, read_stream
from rollq.history.cutting import SegmentFile
from rollq.history.packed import PackedIndex, encode_indexes
from rollq.history.packed_file import Block, indexes_in, plain_of, read_block
from rollq.history.segments import columns_name, packed_name
from rollq.roles.member.readers.reader_context import ELSEWHERE
from rollq.roles.member.readers.session import ReaderSession
from rollq.wire.reader_messages import ARROW, EVENTS, LINES, RUNS, PiecesAsk

ZSTD_LEVEL = 1  # as fast as a network, with little CPU
PACK_BYTES_MIN = 1024


def send_pieces(session: ReaderSession, ask: PiecesAsk) -> None:
    """Answer `PiecesAsk`: pieces from the first index to the last, without a gap.

    Raises:
        StateError: HISTORY_GONE; NOT_READY if this member lacks some of it now.
    """
    if not 0 < ask.first <= ask.last:
        raise RemoteError(ErrorCode.BAD_PAYLOAD, f"no range: {ask.first} to {ask.last}")
    session.member.wait_applied(ask.last)
    _Sending(session, ask).run()


def send_packed(
    session: ReaderSession, request_id: MessageId, ends: tuple[int, int], form: str, data: bytes
) -> None:
    """Send a piece, compressed if that pays."""
    # Larger ones exceed what a reader may decompress at once.
    packed = PACK_BYTES_MIN <= len(data) <= INFLATED_BYTES_MAX
    if packed:
        data = zstandard.ZstdCompressor(level=ZSTD_LEVEL).compress(data)
    session.send_piece(request_id, *ends, form, data, packed=packed)


class _Sending:
    """Sends one answer."""

    def __init__(self, session: ReaderSession, ask: PiecesAsk) -> None:
        self._session = session
        self._view = session.member
        self._ask = ask
        self._at = ask.first  # the next index to send
        self._ranges: list[tuple[int, int]] = []

    def run(self) -> None:
        while self._at <= self._ask.last:
            if self._send_sealed() or self._send_recent():
                continue
            # What was in memory before may be sealed by now.
            self._ranges = self._view.segments.ranges()
            if not self._send_sealed():
                raise self._lacking()

    def _send_sealed(self) -> bool:
        """Send the part of the segment that has the next index; false if none has."""
        place = bisect_right(self._ranges, self._at, key=lambda ends: ends[0]) - 1
        if place < 0 or self._ranges[place][1] < self._at:
            return False
        ends = self._ranges[place]
        last = min(ends[1], self._ask.last)
        if ARROW in self._ask.forms:
            self._send_columns(ends, last)
        self._send_rest(ends, last)
        return True

    def _send_columns(self, ends: tuple[int, int], last: int) -> None:
        """Send the Arrow batches of a segment, and the gaps between them in another form."""
        copy = read_copy(self._view.disk, *ends, self._view.group)
        for batch in [] if copy is None else copy.batches:
            if batch.first < self._at or batch.last > last:
                continue
            assert copy is not None
            stream = read_stream(self._view.disk, copy, batch)
            if stream is None:  # damaged; it will be made again
                self._view.disk.remove(columns_name(*ends))
                return
            self._send_rest(ends, batch.first - 1)
            self._send(batch.last, ARROW, stream)

    def _send_rest(self, ends: tuple[int, int], last: int) -> None:
        """Send a segment from the next index to `last`, unless that is sent already."""
        if self._at > last:
            return
        footer = self._view.segments.packed(*ends)
        if footer is None:
            self._send_lines(ends, last)
            return
        for block in footer.blocks:
            if block.last >= self._at and block.first <= last:
                self._send_block(ends, block, last)
        if self._at <= last:  # the last indexes of a segment had no events
            self._send(last, LINES, b"")

    def _send_block(self, ends: tuple[int, int], block: Block, last: int) -> None:
        """Send the wanted part of a block; a whole block unchanged, if the reader supports runs."""
        data = read_block(self._view.disk, packed_name(*ends), block)
        if data is None:
            raise is_damaged(ends)
        knows_runs = RUNS in self._ask.forms
        reached = min(block.last, last)
        if knows_runs and self._at == block.first and reached == block.last:
            if block.plain_bytes <= INFLATED_BYTES_MAX:
                self._send(reached, RUNS, data, packed=True)
            else:
                self._send(reached, RUNS, plain_of(data))
            return
        part = [one for one in indexes_in(data) if self._at <= one.index <= reached]
        self._send_part(part, reached)

    def _send_part(self, part: list[PackedIndex], reached: int) -> None:
        if RUNS in self._ask.forms:
            self._send(reached, RUNS, encode_indexes(part))
        else:
            plain = [one.without_runs() for one in part]
            self._send(reached, EVENTS, encode_indexes(plain))

    def _send_lines(self, ends: tuple[int, int], last: int) -> None:
        """Send the lines of a segment from the next index to `last`."""
        if not self._view.is_sound(*ends):
            raise is_damaged(ends)
        segment = SegmentFile(self._view.disk, *ends)
        for _, reached, lines in segment.pieces(self._at, last, READER_PIECE_BYTES):
            self._send(reached, LINES, lines)

    def _send_recent(self) -> bool:
        """Send from memory, from the next index on; false if memory lacks it."""
        recent = self._view.on_loop(
            lambda driver: driver.replica.history.recent(self._at, READER_INDEXES_MAX)
        )
        part: list[PackedIndex] = []
        size = 0
        for each in recent:
            if each.index > self._ask.last or each.index != self._at + len(part):
                break
            part.append(each)
            size += each.packed_bytes
            if size >= READER_PIECE_BYTES:
                break
        if not part:
            return False
        self._send_part(part, part[-1].index)
        return True

    def _send(self, last: int, form: str, data: bytes, *, packed: bool = False) -> None:
        ends = (self._at, last)
        if packed or form == ARROW:  # compressed already
            self._session.send_piece(self._ask.request_id, *ends, form, data, packed=packed)
        else:
            send_packed(self._session, self._ask.request_id, ends, form, data)
        self._at = last + 1

    def _lacking(self) -> StateError:
        floor = self._view.segments.floor()
        if self._at <= floor:
            return StateError(
                ErrorCode.HISTORY_GONE,
                f"history up to index {floor} is gone; {self._at} was asked for",
                f"begin at {floor + 1}, keep history for longer, or read under a name that holds "
                "it",
            )
        return lacking(self._at)


def lacking(index: int) -> StateError:
    """The error for an index that this member lacks; it requests it from its peers."""
    return StateError(ErrorCode.NOT_READY, f"history {index} is missing here", ELSEWHERE)


def is_damaged(ends: tuple[int, int]) -> StateError:
    """The error for a segment that does not verify: its range is fetched from a peer."""
    return StateError(
        ErrorCode.NOT_READY, f"history {ends[0]} to {ends[1]} is damaged here", ELSEWHERE
    )
