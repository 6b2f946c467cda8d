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

from rollq.base.errors import DeadlineError, DialError, ErrorCode, RollqError, StateError
from rollq.spark.schemas import columns_in
from rollq.spark.source.holding import Holding
from rollq.spark.source.moments import ends_of, starts_of
from rollq.spark.source.offsets import share, share_bytes, with_the_rest
from rollq.spark.source.options import ReadOptions, SourceOrigin
from rollq.spark.source.origins import Origins
from rollq.spark.source.places import Located, Place, Sealed, Slice
from rollq.spark.source.planning import place_of, plan, rows
from rollq.spark.source.versions import FixesItsEnd, is_bounded, read_limit


class EventStream(DataSourceStreamReader, FixesItsEnd):
    """Reads the events of one or several groups as they come."""

    def __init__(self, schema: StructType, options: ReadOptions) -> None:
        self._options = options
        self._columns = columns_in(schema, options.table)
        self._origins = Origins(options)
        self._places: dict[SourceOrigin, Place] = {}
        self._goal: dict[str, int] | None = None  # where AvailableNow ends
        self._reached: dict[str, int] | None = None  # where the next batch begins, if we know
        self._has_begun = False  # whether a batch was planned, or is the first of its query
        self._planned_s: float | None = None  # when a batch was found to be worth it; None: never
        self._holding = Holding()

    def initialOffset(self) -> dict[str, int]:
        """Where a query without a checkpoint begins."""
        start = starts_of(self._options, self._located())
        self._hold(start)
        self._reached = start
        self._has_begun = True
        return start

    def latestOffset(
        self, start: Mapping[str, int] | None = None, limit: Any = None
    ) -> dict[str, int]:
        """Where the next batch ends; Spark before 4.2 tells neither start nor limit."""
        begin = self._reached if start is None else start
        groups = self._located()
        ends = self._ends(groups)
        if begin is not None:
            # A member that is behind may say less than another has said before. A group that is
            # left out stays where it was: when it comes back, it is read from there.
            ends = dict(begin) | {
                group: max(end, begin.get(group, 0)) for group, end in ends.items()
            }
            if is_bounded(limit, self._has_begun):
                firsts = {one.extent.group: one.extent.first for one in groups}
                begins = firsts | dict(begin)
                is_enough = self._is_enough(begins, ends)
                ends = self._bounded(groups, begins, ends) if is_enough else dict(begin)
        self._reached = ends
        return ends

    def getDefaultReadLimit(self) -> Any:
        """The bounds of a batch, in a form that Spark gives back to `latestOffset`."""
        options = self._options
        return read_limit(
            offsets_max=options.offsets_max,
            bytes_max=options.bytes_max,
            offsets_min=options.offsets_min,
        )

    def prepareForTriggerAvailableNow(self) -> None:
        """A query with this trigger ends where the history ends now."""
        self._goal = self._ends(self._located())

    def reportLatestOffset(self) -> dict[str, int]:
        """What there is, for those who watch the query's progress."""
        return {one.extent.group: one.extent.end for one in self._located()}

    def partitions(
        self, start: Mapping[str, int], end: Mapping[str, int]
    ) -> Sequence[InputPartition]:
        """Slices of a batch; of a batch that is repeated too."""
        promised = {group for group in end if end[group] > start.get(group, 0)}
        groups = self._located(promised)
        self._check_groups(start, groups)
        slices = plan(self._options, groups, start, end)
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
            for place, extent in self._located():
                if extent.group in offsets:
                    place.hold(self._options.reader_name, offsets[extent.group])

    # --- groups

    def _located(self, promised: set[str] | frozenset[str] = frozenset()) -> list[Located]:
        """The groups that are there. One that cannot be reached is an error, or, if loss is none,
        is left out for now.

        Args:
            promised: groups that must be there: a batch says so.
        """
        found: list[Located] = []
        missing: RollqError | None = None
        for origin in self._origins.now():
            place = self._places.get(origin)
            if place is None:
                place = self._places[origin] = place_of(self._options, origin)
            try:
                found.append(Located(place, place.extent()))
            except (DialError, DeadlineError) as error:
                missing = error
        is_promised = not promised <= {one.extent.group for one in found}
        if missing is not None and (self._options.fail_on_data_loss or is_promised or not found):
            raise missing
        return found

    def _check_groups(self, start: Mapping[str, int], groups: Sequence[Located]) -> None:
        """A group that is new is read from its beginning; one that is gone is missed."""
        gone = sorted(start.keys() - {one.extent.group for one in groups})
        if gone and self._options.fail_on_data_loss:
            raise StateError(
                ErrorCode.WRONG_STATE,
                f"the checkpoint has offsets of group {gone[0]!r}, which is not read any more",
                "give its servers again; failOnDataLoss=false goes on without it",
            )

    # --- how far

    def _ends(self, groups: Sequence[Located]) -> dict[str, int]:
        """Where one could read to now, within `endingOffsets` and the goal of AvailableNow."""
        if self._goal is not None:
            return dict(self._goal)
        wanted = ends_of(self._options, groups)
        return {one.extent.group: min(one.extent.end, wanted[one.extent.group]) for one in groups}

    def _is_enough(self, begins: Mapping[str, int], ends: Mapping[str, int]) -> bool:
        """Whether so much waits, or waits for so long, that it is worth a batch."""
        options = self._options
        now_s = time.monotonic()
        waiting = sum(max(end - begins.get(group, 0), 0) for group, end in ends.items())
        if waiting < options.offsets_min and self._goal is None and self._planned_s is not None:
            return now_s - self._planned_s >= options.trigger_delay_s
        self._planned_s = now_s
        return True

    def _bounded(
        self, groups: Sequence[Located], begins: Mapping[str, int], ends: dict[str, int]
    ) -> dict[str, int]:
        """As far as one batch may go."""
        if self._options.offsets_max:
            ends = share(begins, ends, self._options.offsets_max)
        if self._options.bytes_max:
            pieces: dict[str, list[Sealed]] = {}
            for place, extent in groups:
                first = max(begins[extent.group], extent.first)
                last = ends.get(extent.group, 0) - 1
                if first <= last:
                    pieces[extent.group] = with_the_rest(place.sealed(first, last), first, last)
            ends = share_bytes(pieces, ends, self._options.bytes_max)
        return ends
