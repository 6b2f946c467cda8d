"""What a reader is given."""

from __future__ import annotations

import msgspec

from rollq.history.packed import PackedIndex, decode_indexes
from rollq.wire.reader_messages import ARROW, EVENTS, LINES, RUNS, Cut

__all__ = ["ARROW", "EVENTS", "LINES", "RUNS", "Cut", "Piece", "Span"]


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
    """The history of some log indexes, all of each of them, in one of four forms."""

    first: int
    last: int
    form: str  # "lines", "events", "runs" or "arrow"
    data: bytes

    def lines(self) -> bytes:
        """JSON lines, each with its line end; not for the form "arrow"."""
        if self.form == LINES:
            return self.data
        return b"".join([index.text() for index in self.indexes()])

    def indexes(self) -> list[PackedIndex]:
        """The events of each index; for the forms "events" and "runs"."""
        if self.form not in (EVENTS, RUNS):
            raise ValueError(f"a piece of the form {self.form} has no events")
        return decode_indexes(self.data)
