"""The data source `format("rollq")`.

Spark makes one of these for every read or write, on the driver, and sends what it returns to the
tasks. Only what is made here and pickles well crosses over. Each of these steps is a process of its
own, so each method imports what it needs and no more.

- Reads: `options`, `conditions`, `origins`; `batch` and `stream` by `planning`, `offsets` and
  `moments`, from `places`: `members` or a `folder`; `holding` keeps history for a reader; `results`
  and `tables` of the state.
- Writes: `write_options`, `write`; rows as `jobs` or `redrives`, in `segments`, accepted by
  `commits`.
- `versions`: what differs between versions of Spark.
"""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType


class DefaultSource(DataSource):
    """Reads the history and the tables of a grid, and writes jobs to it."""

    @classmethod
    def name(cls) -> str:
        """What `format()` takes."""
        return "rollq"

    def schema(self) -> str:
        """The columns of the table that the options name."""
        from rollq.spark.schemas import ddl
        from rollq.spark.source.options import read_options

        return ddl(read_options(self.options, is_stream=False).columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """A batch read."""
        from rollq.spark.source.batch import EventsReader
        from rollq.spark.source.options import check_table, read_options
        from rollq.spark.source.tables import TablesReader

        check_table(self.options, is_stream=False)
        options = read_options(self.options, is_stream=False)
        if options.table == "events":
            return EventsReader(schema, options)
        return TablesReader(schema, options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """A streaming read."""
        from rollq.spark.source.options import check_table, read_options
        from rollq.spark.source.stream import EventStream

        check_table(self.options, is_stream=True)
        return EventStream(schema, read_options(self.options, is_stream=True))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """A batch write."""
        from rollq.spark.source.write import JobsWriter
        from rollq.spark.source.write_options import write_options

        return JobsWriter(schema, write_options(self.options), overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """A streaming write."""
        from rollq.spark.source.write import JobsStream
        from rollq.spark.source.write_options import write_options

        return JobsStream(schema, write_options(self.options), overwrite=overwrite)
