"""Planning for batch and streaming reads: the slices to read, and the rows of a slice."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from rollq.base.errors import ErrorCode, StateError
from rollq.history.columns import Column
from rollq.spark import arrow
from rollq.spark.source.conditions import index_range, keep, needed
from rollq.spark.source.folder import Folder
from rollq.spark.source.members import GroupMembers
from rollq.spark.source.options import ReadOptions, SourceOrigin
from rollq.spark.source.places import Extent, HistoryPlace, Located, Slice, lost
from rollq.spark.source.results import GroupResults

SLICES_PER_CORE: Final = 2  # balances slices of different speed


def place_of(options: ReadOptions, origin: SourceOrigin) -> HistoryPlace:
    """The place of a group's history."""
    if options.table == "results":
        return GroupResults(origin, options.timeout_s)
    return Folder(origin) if origin.path else GroupMembers(origin, options.timeout_s)


def plan(
    options: ReadOptions,
    groups: Sequence[Located],
    starts: Mapping[str, int],
    ends: Mapping[str, int],
) -> list[Slice]:
    """Plan slices for a range of every group: about the configured number in total, in proportion
    to the length of each range.

    Args:
        options: of the read.
        groups: the places to read.
        starts: a group without a start is read from its beginning.
        ends: a group without an end is not read.

    Raises:
        StateError: HISTORY_GONE, if some of it was deleted and failOnDataLoss is set.
    """
    asked = {
        there.group: Extent(there.group, starts.get(there.group, there.first), ends[there.group])
        for _, there in groups
        if there.group in ends
    }
    wanted = options.partitions or SLICES_PER_CORE * (os.cpu_count() or 1)
    total = sum(each.length for each in asked.values()) or 1
    slices: list[Slice] = []
    for place, there in groups:
        if there.group in asked:
            part = asked[there.group]
            count = max(round(wanted * part.length / total), 1)
            slices += _of_group(options, place, there, part, count)
    return slices


def rows(options: ReadOptions, columns: Sequence[Column], wanted: Slice) -> Iterator[Any]:
    """The rows of a slice, in batches with the columns that Spark expects."""
    every = needed(columns, options.conditions)
    for table in place_of(options, wanted.origin).tables(wanted, every):
        yield from arrow.batches(keep(table, options.conditions), columns)


def _of_group(
    options: ReadOptions, place: HistoryPlace, there: Extent, asked: Extent, count: int
) -> list[Slice]:
    if asked.end > there.end:
        raise StateError(
            ErrorCode.NOT_READY,
            f"history of group {asked.group!r} ends at {there.end}, and went to {asked.end} before",
            "another group or folder is read than before",
        )
    if options.fail_on_data_loss and asked.first < min(there.first, asked.end):
        raise lost(asked.group, asked.first, min(there.first, asked.end) - 1)
    first, last = index_range(options.conditions, max(asked.first, there.first), asked.end - 1)
    if first > last:
        return []
    gaps = place.gaps(first, last)
    if gaps and options.fail_on_data_loss:
        raise lost(asked.group, *gaps[0])
    return place.slices(first, last, count)
