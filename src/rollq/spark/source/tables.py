"""State tables: each group's are exported at one log index by one of its members when the read is
planned, and read by tasks part by part."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from rollq.roles.reader.reader import Reader
from rollq.roles.reader.tables import TableHandle
from rollq.spark import arrow
from rollq.spark.schemas import columns_in
from rollq.spark.source.conditions import keep, needed
from rollq.spark.source.options import ReadOptions
from rollq.spark.state_rows import from_state_lines


@dataclass(frozen=True)
class TableSlice(InputPartition):
    """A partition: a part of a table of one group."""

    handle: TableHandle
    number: int


class TablesReader(DataSourceReader):
    """Reads a state table of every group."""

    def __init__(self, schema: StructType, options: ReadOptions) -> None:
        self._options = options
        self._columns = columns_in(schema, options.table)
        self._needed = needed(self._columns, options.conditions)

    def partitions(self) -> Sequence[InputPartition]:
        """Export the tables now, and plan their parts."""
        slices: list[InputPartition] = []
        for origin in self._options.origins:
            with self._reader(origin.servers, origin.group) as reader:
                handle = reader.table(self._options.table)
            slices += [TableSlice(handle, number) for number in range(len(handle.parts))]
        return slices

    def read(self, partition: InputPartition) -> Iterator[Any]:
        """Read the rows of a part."""
        if not isinstance(partition, TableSlice):
            return  # Spark creates an empty one if there are none
        handle = partition.handle
        with self._reader(handle.address) as reader:
            for lines in reader.part(handle, partition.number):
                table = from_state_lines(
                    handle.table, lines, self._needed, handle.group, handle.index
                )
                yield from arrow.batches(keep(table, self._options.conditions), self._columns)

    def _reader(self, servers: str, group: str = "") -> Reader:
        credentials = self._options.origins[0].credentials  # the same for all
        timeout_s = self._options.timeout_s
        return Reader(servers, group=group, timeout_s=timeout_s, credentials=credentials)
