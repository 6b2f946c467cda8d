"""Streaming reads: from offset to offset; each range can be read again, from any member.

An offset is a dict with the next index by group. Spark stores offsets in its checkpoint, so every
version must be able to read those of earlier ones.
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
from rollq.spark.source.offsets import share, share_bytes, with_estimate
from rollq.spark.source.options import ReadOptions, SourceOrigin
from rollq.spark.source.origins import Origins
from rollq.spark.source.places import HistoryPlace, Located, Sealed, Slice
from rollq.spark.source.planning import place_of, plan, rows
from rollq.spark.source.versions import FixesItsEnd, is_bounded, read_limit


class EventStreamReader(DataSourceStreamReader, FixesItsEnd):
    """Reads the events of one or several groups as a stream."""

    def __init__(self, schema: StructType, options: ReadOptions) -> None:
        self._options = options
        self._columns = columns_in(schema, options.table)
        self._origins = Origins(options)
        self._places: dict[SourceOrigin, HistoryPlace] = {}
        self._goal: dict[str, int] | None = None  # the end offsets of AvailableNow
        self._reached: dict[str, int] | None = None  # start of the next micro-batch; None: unknown
        self._has_begun = False  # a micro-batch was planned, or this is a new query
        self._planned_s: float | None = None  # when the last micro-batch was due; None: never
        self._holding = Holding()

    def initialOffset(self) -> dict[str, int]:
        """The start offsets of a query without a checkpoint."""
        start = starts_of(self._options, self._located())
        self._hold(start)
        self._reached = start
        self._has_begun = True
        return start

    def latestOffset(
        self, start: Mapping[str, int] | None = None, limit: Any = None
    ) -> dict[str, int]:
        """The end of the next micro-batch; Spark before 4.2 passes neither start nor limit."""
        begin = self._reached if start is None else start
        groups = self._located()
        ends = self._ends(groups)
        if begin is not None:
            # A lagging member may report less than another has before: offsets never decrease. A
            # group that is unavailable keeps its offset, and is read from there when it is back.
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
        """The limits of a micro-batch, as an object that Spark passes back to `latestOffset`."""
        options = self._options
        return read_limit(
            offsets_max=options.offsets_max,
            bytes_max=options.bytes_max,
            offsets_min=options.offsets_min,
        )

    def prepareForTriggerAvailableNow(self) -> None:
        """With this trigger a query ends at the current end of the history."""
        self._goal = self._ends(self._located())

    def reportLatestOffset(self) -> dict[str, int]:
        """The latest offsets, for the query's progress."""
        return {one.extent.group: one.extent.end for one in self._located()}

    def partitions(
        self, start: Mapping[str, int], end: Mapping[str, int]
    ) -> Sequence[InputPartition]:
        """Plan the slices of a micro-batch, perhaps a repeated one."""
        promised = {group for group in end if end[group] > start.get(group, 0)}
        groups = self._located(promised)
        self._check_groups(start, groups)
        slices = plan(self._options, groups, start, end)
        self._reached = dict(end)
        self._has_begun |= start != end
        return slices

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Read the rows of a slice."""
        if not isinstance(partition, Slice):
            return iter(())
        return rows(self._options, self._columns, partition)

    def commit(self, end: Mapping[str, int]) -> None:
        """Everything before `end` was processed: release the history held for this reader. Reported
        only from time to time, because each report is a log entry, which is read again. If no
        member can be reached, history is held longer, until a later report."""
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
        """The available groups. An unreachable one is an error, or is left out if failOnDataLoss is
        off.

        Args:
            promised: groups that the planned micro-batch needs.
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
        """A new group is read from its beginning; a missing one is an error with failOnDataLoss."""
        gone = sorted(start.keys() - {one.extent.group for one in groups})
        if gone and self._options.fail_on_data_loss:
            raise StateError(
                ErrorCode.WRONG_STATE,
                f"the checkpoint has offsets of group {gone[0]!r}, which is not read any more",
                "give its servers again; failOnDataLoss=false goes on without it",
            )

    # --- ends of micro-batches

    def _ends(self, groups: Sequence[Located]) -> dict[str, int]:
        """The end offsets, within `endingOffsets` and the end of AvailableNow."""
        if self._goal is not None:
            return dict(self._goal)
        wanted = ends_of(self._options, groups)
        return {one.extent.group: min(one.extent.end, wanted[one.extent.group]) for one in groups}

    def _is_enough(self, begins: Mapping[str, int], ends: Mapping[str, int]) -> bool:
        """Whether the backlog is large enough, or old enough, for a micro-batch."""
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
        """Apply the limits of a micro-batch."""
        if self._options.offsets_max:
            ends = share(begins, ends, self._options.offsets_max)
        if self._options.bytes_max:
            pieces: dict[str, list[Sealed]] = {}
            for place, extent in groups:
                first = max(begins[extent.group], extent.first)
                last = ends.get(extent.group, 0) - 1
                if first <= last:
                    pieces[extent.group] = with_estimate(place.sealed(first, last), first, last)
            ends = share_bytes(pieces, ends, self._options.bytes_max)
        return ends
