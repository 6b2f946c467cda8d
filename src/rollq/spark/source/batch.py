"""Batch reads: planned on the driver, read by tasks as Arrow batches."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from rollq.spark.schemas import columns_in
from rollq.spark.source.moments import ends_of, starts_of
from rollq.spark.source.options import ReadOptions
from rollq.spark.source.origins import Origins
from rollq.spark.source.places import Located, Slice
from rollq.spark.source.planning import place_of, plan, rows


class EventsReader(DataSourceReader):
    """Reads events between two offsets of every group."""

    def __init__(self, schema: StructType, options: ReadOptions) -> None:
        self._options = options
        self._columns = columns_in(schema, options.table)

    def partitions(self) -> Sequence[InputPartition]:
        """Plan the slices of all groups."""
        return slices_of(self._options)

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Read the rows of a slice."""
        if not isinstance(partition, Slice):
            return iter(())  # Spark creates an empty one if there are none
        return rows(self._options, self._columns, partition)


def slices_of(options: ReadOptions) -> list[Slice]:
    """The partitions of a batch read, of all groups."""
    places = [place_of(options, origin) for origin in Origins(options).now()]
    groups = [Located(place, place.extent()) for place in places]
    return plan(options, groups, starts_of(options, groups), ends_of(options, groups))
