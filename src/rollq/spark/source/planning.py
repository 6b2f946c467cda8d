"""What batch and streaming reads share: which slices to read, and how a slice becomes rows."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from rollq.base.errors import ErrorCode, StateError
from rollq.history.columns import Column
from rollq.spark import arrow
from rollq.spark.source.conditions import index_range, keep, needed
from rollq.spark.source.folder import Folder
from rollq.spark.source.members import Group
from rollq.spark.source.options import ReadOptions, SourceOrigin
from rollq.spark.source.places import Extent, Located, Place, Slice, lost
from rollq.spark.source.results import GroupResults

SLICES_PER_CORE: Final = 2  # so that one that is slow does not keep the others waiting


def place_of(options: ReadOptions, origin: SourceOrigin) -> Place:
    """Where one of the groups is read."""
    if options.table == "results":
        return GroupResults(origin, options.timeout_s)
    return Folder(origin) if origin.path else Group(origin, options.timeout_s)


def plan(
    options: ReadOptions,
    groups: Sequence[Located],
    starts: Mapping[str, int],
    ends: Mapping[str, int],
) -> list[Slice]:
    """Slices of what is asked for: in all about as many as are wanted, by how much each group has.

    Args:
        options: of the read.
        groups: where to read.
        starts: a group that is not named is read from its beginning.
        ends: a group that is not named is not read.

    Raises:
        StateError: some of it is gone, and that matters.
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
    """The rows of a slice, in batches of the columns that Spark expects."""
    every = needed(columns, options.conditions)
    for table in place_of(options, wanted.origin).tables(wanted, every):
        yield from arrow.batches(keep(table, options.conditions), columns)


def _of_group(
    options: ReadOptions, place: Place, there: Extent, asked: Extent, count: int
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
