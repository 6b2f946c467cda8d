"""The interface of a place of history: its extent, and slices of it for tasks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from pyspark.sql.datasource import InputPartition

from rollq.base.errors import ErrorCode, StateError
from rollq.history.columns import Column
from rollq.spark.source.options import SourceOrigin


@dataclass(slots=True, frozen=True)
class Extent:
    """The available history of a group: indexes from `first` (inclusive) to `end` (exclusive)."""

    group: str
    first: int
    end: int

    @property
    def length(self) -> int:
        """In indexes."""
        return max(self.end - self.first, 0)


class Sealed(NamedTuple):
    """A sealed segment, or a part of one; both indexes are included."""

    first: int
    last: int
    size_bytes: int

    def within(self, first: int, last: int) -> Sealed:
        """The part within a range, with its estimated size."""
        first, last = max(self.first, first), min(self.last, last)
        share = (last - first + 1) / (self.last - self.first + 1)
        return Sealed(first, last, max(round(self.size_bytes * share), 1))


@dataclass(frozen=True)
class Slice(InputPartition):
    """A partition: the indexes from `first` to `last` of a group, both included."""

    origin: SourceOrigin
    group: str
    first: int
    last: int
    part: Any = None  # further data of the place


class HistoryPlace(Protocol):
    """A group's history: at its members, or in a folder. Created anew in every task."""

    @property
    def origin(self) -> SourceOrigin:
        """The location it was created from."""

    def extent(self) -> Extent:
        """The current extent; later calls refer to it."""

    def gaps(self, first: int, last: int) -> list[tuple[int, int]]:
        """Missing ranges within these indexes."""

    def sealed(self, first: int, last: int) -> list[Sealed]:
        """The sealed segments of a range, in order, clipped to it."""

    def slices(self, first: int, last: int, count: int) -> list[Slice]:
        """Split a range into about `count` slices of similar size."""

    def tables(self, wanted: Slice, columns: Sequence[Column]) -> Iterator[Any]:
        """The rows of a slice as Arrow tables, in order, each row once."""

    def hold(self, name: str, index: int) -> None:
        """Retain history from `index` on for a named reader."""


class Located(NamedTuple):
    """A group to read, with its extent."""

    place: HistoryPlace
    extent: Extent


def lost(group: str, first: int, last: int) -> StateError:
    """The error that requested history was deleted."""
    return StateError(
        ErrorCode.HISTORY_GONE,
        f"history {first}..{last} of group {group!r} is gone: it was removed before it was read",
        "a readerName keeps history until it is read; failOnDataLoss=false goes on without it",
    )
