"""The history of a running group: read from any member, with failover."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from rollq.history.arrow import from_lines, from_packed, from_stream
from rollq.history.columns import Column
from rollq.roles.reader.models import ARROW, LINES
from rollq.roles.reader.reader import Reader
from rollq.spark.source.offsets import with_estimate
from rollq.spark.source.options import SourceOrigin
from rollq.spark.source.places import Extent, Sealed, Slice


class GroupMembers:
    """The members of one group. Connections are closed between calls."""

    def __init__(self, origin: SourceOrigin, timeout_s: float) -> None:
        self._reader = Reader(
            origin.servers,
            group=origin.group,
            timeout_s=timeout_s,
            credentials=origin.credentials,
        )
        self.origin = origin
        self._group = origin.group

    def extent(self) -> Extent:
        """Everything that was committed before this call."""
        with self._reader as reader:
            span = reader.span(fresh=True)
        self._group = span.group
        return Extent(span.group, span.floor + 1, span.applied + 1)

    def gaps(self, first: int, last: int) -> list[tuple[int, int]]:
        """None: a member that lacks history leaves the read to another."""
        return []

    def sealed(self, first: int, last: int) -> list[Sealed]:
        """The sealed segments of one member."""
        with self._reader as reader:
            cuts = reader.cuts(first, last)
        return [Sealed(cut.first, cut.last, cut.size_bytes).within(first, last) for cut in cuts]

    def slices(self, first: int, last: int, count: int) -> list[Slice]:
        """Split along sealed segments, which is cheapest, into parts of similar size."""
        parts = along(self.sealed(first, last), first, last, count)
        return [Slice(self.origin, self._group, *ends) for ends in parts]

    def tables(self, wanted: Slice, columns: Sequence[Column]) -> Iterator[Any]:
        """Read piece by piece."""
        with self._reader as reader:
            for piece in reader.pieces(wanted.first, wanted.last):
                if piece.form == ARROW:
                    yield from_stream(piece.data, columns)
                elif piece.form == LINES:
                    yield from_lines(piece.data, columns, wanted.group)
                else:
                    yield from_packed(piece.indexes(), columns, wanted.group)

    def hold(self, name: str, index: int) -> None:
        """Send a hold to the leader."""
        with self._reader as reader:
            reader.hold(name, index)


def along(sealed: Sequence[Sealed], first: int, last: int, count: int) -> list[tuple[int, int]]:
    """Split a range of indexes into about `count` parts of similar size.

    Args:
        sealed: segments that are best read whole, in order.
        first: of the range.
        last: of the range.
        count: the number of parts.
    """
    pieces = with_estimate(sealed, first, last)
    share = sum(size for *_, size in pieces) / count
    parts: list[tuple[int, int]] = []
    begin, filled = first, 0.0
    for piece_first, piece_last, size in pieces:
        if filled and filled + size > 1.5 * share:
            parts.append((begin, piece_first - 1))
            begin, filled = piece_first, 0.0
        splits = min(round(size / share), piece_last - piece_first + 1) if not filled else 1
        for n in range(1, splits):
            end = piece_first + (piece_last - piece_first + 1) * n // splits - 1
            parts.append((begin, end))
            begin = end + 1
        filled += size / max(splits, 1)
        if filled >= share:
            parts.append((begin, piece_last))
            begin, filled = piece_last + 1, 0.0
    if begin <= last:
        parts.append((begin, last))
    return parts
