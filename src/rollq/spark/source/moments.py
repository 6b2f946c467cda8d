"""Start and end of reads, by index or by time.

The timestamps of a group never decrease, so the first index at or after a time is found by binary
search: the first rows of some slices are read, and one slice in full.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Final

from rollq.base.errors import ErrorCode, StateError
from rollq.spark.source.conditions import INDEX, MOMENT
from rollq.spark.source.offsets import check_groups, check_named, resolve
from rollq.spark.source.options import EVENTS_TABLE, Moments, ReadOptions
from rollq.spark.source.places import Extent, HistoryPlace, Located, Slice
from rollq.spark.source.planning import place_of

SLICES: Final = 1_000  # granularity of the search; one slice is read in full


def starts_of(options: ReadOptions, groups: Sequence[Located]) -> dict[str, int]:
    """The start offset of every group.

    Raises:
        LocalError: BAD_OPTIONS.
        StateError: NOT_READY; there are no events since the start time.
    """
    extents = [one.extent for one in groups]
    if options.starting_at is None:
        return resolve("startingOffsets", options.starting, extents)
    moments = _by_group("startingOffsetsByTimestamp", options.starting_at, extents)
    found = _found(options, groups, moments)
    for extent in extents:
        if options.is_early_an_error and found[extent.group] is None:
            raise _early(extent.group, moments[extent.group])
    return {one.group: one.end if (at := found[one.group]) is None else at for one in extents}


def ends_of(options: ReadOptions, groups: Sequence[Located]) -> dict[str, int]:
    """The end offset of every group; without events since an end time it is the latest.

    Raises:
        LocalError: BAD_OPTIONS.
    """
    extents = [one.extent for one in groups]
    if options.ending_at is None:
        return resolve("endingOffsets", options.ending, extents)
    moments = _by_group("endingOffsetsByTimestamp", options.ending_at, extents)
    found = _found(options, groups, moments)
    return {one.group: one.end if (at := found[one.group]) is None else at for one in extents}


def index_at(place: HistoryPlace, extent: Extent, moment_ms: int) -> int | None:
    """The first index at or after a time; None if there is none."""
    if extent.first >= extent.end:
        return None
    slices = place.slices(extent.first, extent.end - 1, SLICES)
    low, high = 0, len(slices)
    while low < high:  # invariant: slices before `low` begin earlier, those from `high` on do not
        middle = probe = (low + high) // 2
        row = None
        while probe < high and (row := next(_rows(place, slices[probe]), None)) is None:
            probe += 1  # a slice without rows
        if row is not None and row[1] < moment_ms:
            low = probe + 1
        else:
            high = middle
    for part in slices[max(low - 1, 0) :]:
        for index, stamp_ms in _rows(place, part):
            if stamp_ms >= moment_ms:
                return index
    return None


def _rows(place: HistoryPlace, part: Slice) -> Iterator[tuple[int, int]]:
    """Index and timestamp of all rows."""
    import pyarrow as pa

    for table in place.tables(part, (INDEX, MOMENT)):
        stamps = table.column(MOMENT.name).cast(pa.timestamp("ms", "UTC")).cast(pa.int64())
        yield from zip(table.column(INDEX.name).to_pylist(), stamps.to_pylist(), strict=True)


def _found(
    options: ReadOptions, groups: Sequence[Located], moments: dict[str, int]
) -> dict[str, int | None]:
    """Search in the events, also for other tables."""
    events = replace(options, table=EVENTS_TABLE)
    found: dict[str, int | None] = {}
    for one in groups:
        place = one.place if options.table == EVENTS_TABLE else place_of(events, one.place.origin)
        found[one.extent.group] = index_at(place, one.extent, moments[one.extent.group])
    return found


def _by_group(option: str, wanted: Moments, extents: Sequence[Extent]) -> dict[str, int]:
    assert wanted is not None, "a time is asked for"
    check_groups(extents)
    if isinstance(wanted, int):
        return {extent.group: wanted for extent in extents}
    check_named(option, wanted, extents)
    return wanted


def _early(group: str, moment_ms: int) -> StateError:
    moment = datetime.fromtimestamp(moment_ms / 1000, UTC).isoformat()
    return StateError(
        ErrorCode.NOT_READY,
        f"nothing has happened in group {group!r} since {moment}",
        "startingOffsetsByTimestampStrategy=latest waits for what comes",
    )
