"""What reads have in common, wherever the history is: its extent, and slices of it for tasks."""

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
    """The history that a group has: all indexes from `first` up to but without `end`."""

    group: str
    first: int
    end: int

    @property
    def length(self) -> int:
        """In indexes."""
        return max(self.end - self.first, 0)


class Sealed(NamedTuple):
    """History that lies together on disk, or a part of that: both indexes are in it."""

    first: int
    last: int
    size_bytes: int

    def within(self, first: int, last: int) -> Sealed:
        """The part of it that lies in a range, and its share of the bytes."""
        first, last = max(self.first, first), min(self.last, last)
        share = (last - first + 1) / (self.last - self.first + 1)
        return Sealed(first, last, max(round(self.size_bytes * share), 1))


@dataclass(frozen=True)
class Slice(InputPartition):
    """What one task reads: the indexes from `first` to `last` of a group, both read."""

    origin: SourceOrigin
    group: str
    first: int
    last: int
    part: Any = None  # what else the place needs to find it


class Place(Protocol):
    """A group's history: with its members, or in a folder. It is made anew in every task."""

    @property
    def origin(self) -> SourceOrigin:
        """Of which it is made."""

    def extent(self) -> Extent:
        """What there is now; what follows is about this moment."""

    def gaps(self, first: int, last: int) -> list[tuple[int, int]]:
        """Ranges within these indexes that should be there and are not."""

    def sealed(self, first: int, last: int) -> list[Sealed]:
        """What is sealed of a range, in order, as far as it lies in the range."""

    def slices(self, first: int, last: int, count: int) -> list[Slice]:
        """About `count` slices of much the same size that are the whole range."""

    def tables(self, wanted: Slice, columns: Sequence[Column]) -> Iterator[Any]:
        """The rows of a slice as Arrow tables, in order, each row once."""

    def hold(self, name: str, index: int) -> None:
        """A reader of this name wants everything from `index` on to be kept."""


class Located(NamedTuple):
    """A group that is read, and what it had when it was asked."""

    place: Place
    extent: Extent


def lost(group: str, first: int, last: int) -> StateError:
    """History that was asked for is gone."""
    return StateError(
        ErrorCode.HISTORY_GONE,
        f"history {first}..{last} of group {group!r} is gone: it was removed before it was read",
        "a readerName keeps history until it is read; failOnDataLoss=false goes on without it",
    )
