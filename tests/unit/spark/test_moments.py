"""The first index at or after a moment, wherever rows are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from rollq.history.columns import Column
from rollq.spark.source import moments
from rollq.spark.source.options import SourceOrigin
from rollq.spark.source.places import Extent, Sealed, Slice

COUNT = 40


class Stamped:
    """A group in memory: the stamps of the rows of each index; some have none."""

    origin = SourceOrigin()

    def __init__(self, stamps: dict[int, int], cut: int) -> None:
        self.stamps = stamps
        self._cut = cut

    def extent(self) -> Extent:
        return Extent("g", 1, COUNT + 1)

    def gaps(self, first: int, last: int) -> list[tuple[int, int]]:
        return []

    def sealed(self, first: int, last: int) -> list[Sealed]:
        return []

    def slices(self, first: int, last: int, count: int) -> list[Slice]:
        ends = range(first, last + 1, self._cut)
        return [Slice(self.origin, "g", at, min(at + self._cut - 1, last)) for at in ends]

    def tables(self, wanted: Slice, columns: Sequence[Column]) -> Iterator[Any]:
        rows = [at for at in range(wanted.first, wanted.last + 1) if at in self.stamps]
        stamps = pa.array([self.stamps[at] * 1000 for at in rows], pa.timestamp("us", "UTC"))
        yield pa.table({"_index": pa.array(rows, pa.int64()), "_ts": stamps})

    def hold(self, name: str, index: int) -> None:
        raise AssertionError


@given(
    st.dictionaries(st.integers(1, COUNT), st.integers(0, 3), max_size=COUNT),
    st.integers(1, 9),
    st.integers(0, COUNT * 4),
)
def test_it_is_the_first_that_is_not_earlier(
    steps: dict[int, int], cut: int, moment_ms: int
) -> None:
    stamps: dict[int, int] = {}
    now = 0
    for index in sorted(steps):  # stamps never go back
        now += steps[index]
        stamps[index] = now
    place = Stamped(stamps, cut)
    wanted = min((index for index, stamp in stamps.items() if stamp >= moment_ms), default=None)
    assert moments.index_at(place, place.extent(), moment_ms) == wanted
