"""What a reader is given."""

from __future__ import annotations

import msgspec

from rollq.grid.events import Event
from rollq.history.schema import to_lines
from rollq.wire.compression import ZSTD, inflate
from rollq.wire.reader_messages import ARROW, EVENTS, LINES, Cut, PackedIndex

__all__ = ["ARROW", "EVENTS", "LINES", "Cut", "Piece", "Span"]


class Span(msgspec.Struct, frozen=True):
    """How far the history of a group goes: from `floor + 1` to `applied`."""

    group: str
    floor: int
    applied: int


class Holder(msgspec.Struct, frozen=True, array_like=True):
    """A reader that is known by name: history is kept for it from `index` on."""

    name: str
    index: int
    stamp_ms: int  # when it was heard of last


class Piece(msgspec.Struct, frozen=True):
    """The history of some log indexes, all of each of them, in one of three forms."""

    first: int
    last: int
    form: str  # "lines", "events" or "arrow"
    data: bytes

    def lines(self) -> bytes:
        """JSON lines, each with its line end; not for the form "arrow"."""
        if self.form == LINES:
            return self.data
        if self.form != EVENTS:
            raise ValueError(f"a piece of the form {self.form} has no lines")
        lines: list[bytes] = []
        for index in _decode_indexes(self.data):
            if index.packed:
                lines += to_lines(index.index, index.stamp_ms, _events_of(index))
        lines.append(b"")
        return b"\n".join(lines)


def _events_of(index: PackedIndex) -> list[Event]:
    packed = index.packed
    if len(packed) != index.packed_bytes:
        packed = inflate(packed, ZSTD)
    return _decode_events(packed)


_decode_indexes = msgspec.msgpack.Decoder(list[PackedIndex]).decode
_decode_events = msgspec.msgpack.Decoder(list[Event]).decode
