"""Streaming reads: from offset to offset, each range re-readable as it was, on any member.

An offset is a dict with the index of every group that is read next. Spark keeps them in its
checkpoint, so one that was written by any version must be understood by the next.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.types import StructType

from rollq.base.errors import DeadlineError, DialError, ErrorCode, StateError
from rollq.spark.schemas import columns_in
from rollq.spark.source.holding import Holding
from rollq.spark.source.offsets import resolve, share
from rollq.spark.source.options import LATEST, ReadOptions
from rollq.spark.source.places import Extent, Slice
from rollq.spark.source.planning import place_of, plan, rows
from rollq.spark.source.versions import FixesItsEnd, length_of, read_limit


class EventStream(DataSourceStreamReader, FixesItsEnd):
    """Reads the events of one or several groups as they come."""

    def __init__(self, schema: StructType, options: ReadOptions) -> None:
        self._options = options
        self._columns = columns_in(schema, options.table)
        self._places = [place_of(options, n) for n in range(len(options.origins))]
        self._goal: dict[str, int] | None = None  # where AvailableNow ends
        self._reached: dict[str, int] | None = None  # where the next batch begins, if we know
        self._has_begun = False  # whether a batch was planned, or is the first of its query
        self._holding = Holding()

    def initialOffset(self) -> dict[str, int]:
        """Where a query without a checkpoint begins."""
        start = resolve("startingOffsets", self._options.starting, self._extents())
        self._hold(start)
        self._reached = start
        self._has_begun = True
        return start

    def latestOffset(
        self, start: Mapping[str, int] | None = None, limit: Any = None
    ) -> dict[str, int]:
        """Where the next batch ends; Spark before 4.2 tells neither start nor limit."""
        begin = self._reached if start is None else start
        ends = self._ends()
        if begin is not None:
            # A member that is behind may say less than another has said before. A group that is
            # left out stays where it was: when it comes back, it is read from there.
            ends = dict(begin) | {
                group: max(end, begin.get(group, 0)) for group, end in ends.items()
            }
            if most := length_of(limit, self._options.offsets_max if self._has_begun else 0):
                firsts = {each.group: each.first for each in self._extents()}
                ends = share(firsts | dict(begin), ends, most)
        self._reached = ends
        return ends

    def getDefaultReadLimit(self) -> Any:
        """`maxOffsetsPerTrigger`, in the form that Spark gives back to `latestOffset`."""
        return read_limit(self._options.offsets_max)

    def prepareForTriggerAvailableNow(self) -> None:
        """A query with this trigger ends where the history ends now."""
        self._goal = self._ends()

    def reportLatestOffset(self) -> dict[str, int]:
        """What there is, for those who watch the query's progress."""
        return {each.group: each.end for each in self._extents()}

    def partitions(
        self, start: Mapping[str, int], end: Mapping[str, int]
    ) -> Sequence[InputPartition]:
        """Slices of a batch; of a batch that is repeated too."""
        slices: list[InputPartition] = []
        extents = self._extents()
        self._check_groups(start, extents)
        for number, (place, there) in enumerate(zip(self._places, extents, strict=True)):
            group = there.group
            if group in end:  # otherwise it came after the batch was planned
                asked = Extent(group, start.get(group, there.first), end[group])
                slices += plan(self._options, number, place, there, asked)
        self._reached = dict(end)
        self._has_begun |= start != end
        return slices

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """The rows of a slice."""
        if not isinstance(partition, Slice):
            return iter(())
        return rows(self._options, self._columns, partition)

    def commit(self, end: Mapping[str, int]) -> None:
        """Everything before `end` was processed: what is held back for this reader may go. It is
        told from time to time only, because telling is an entry of the log, which is read again.
        If no member can be told now, more is kept than need be until a later batch tells it."""
        if self._options.reader_name and self._holding.is_due(end, time.monotonic()):
            with contextlib.suppress(DialError, DeadlineError):
                self._hold(end)

    def _hold(self, offsets: Mapping[str, int]) -> None:
        if self._options.reader_name:
            self._holding.tried(offsets, time.monotonic())
            for place, extent in zip(self._places, self._extents(), strict=True):
                if extent.group in offsets:
                    place.hold(self._options.reader_name, offsets[extent.group])

    def _extents(self) -> list[Extent]:
        return [place.extent() for place in self._places]

    def _ends(self) -> dict[str, int]:
        """Where one could read to now, within `endingOffsets` and the goal of AvailableNow."""
        if self._goal is not None:
            return dict(self._goal)
        extents = self._extents()
        there = resolve("endingOffsets", LATEST, extents)
        wanted = resolve("endingOffsets", self._options.ending, extents)
        return {group: min(end, wanted[group]) for group, end in there.items()}

    def _check_groups(self, start: Mapping[str, int], extents: Sequence[Extent]) -> None:
        """A group that is new is read from its beginning; one that is gone is missed."""
        gone = sorted(start.keys() - {each.group for each in extents})
        if gone and self._options.fail_on_data_loss:
            raise StateError(
                ErrorCode.WRONG_STATE,
                f"the checkpoint has offsets of group {gone[0]!r}, which is not read any more",
                "give its servers again; failOnDataLoss=false goes on without it",
            )
