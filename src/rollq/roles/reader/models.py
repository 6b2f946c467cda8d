"""The records that a reader returns."""

from __future__ import annotations

import msgspec

from rollq.history.packed import PackedIndex, decode_indexes
from rollq.wire.reader_messages import ARROW, EVENTS, LINES, RUNS, Cut

__all__ = ["ARROW", "EVENTS", "LINES", "RUNS", "Cut", "Piece", "Span"]


class Span(msgspec.Struct, frozen=True):
    """The range of a group's history: from `floor + 1` to `applied`."""

    group: str
    floor: int
    applied: int


class Holder(msgspec.Struct, frozen=True, array_like=True):
    """A named reader for which history is retained from `index` on."""

    name: str
    index: int
    stamp_ms: int  # of its last `hold`


class Piece(msgspec.Struct, frozen=True):
    """The complete history of a range of log indexes, in one of four forms."""

    first: int
    last: int
    form: str  # "lines", "events", "runs" or "arrow"
    data: bytes

    def lines(self) -> bytes:
        """The events as JSON lines, each with its line end; not for the form "arrow"."""
        if self.form == LINES:
            return self.data
        return b"".join([index.text() for index in self.indexes()])

    def indexes(self) -> list[PackedIndex]:
        """The events by index; for the forms "events" and "runs"."""
        if self.form not in (EVENTS, RUNS):
            raise ValueError(f"a piece of the form {self.form} has no events")
        return decode_indexes(self.data)
