"""The data source `format("rollq")`.

Spark creates one for every read or write on the driver, and pickles the readers and writers that it
returns to the tasks. Each step runs in a process of its own, so each method imports only what it
needs.

- Reads: `options`, `conditions`, `origins`; `batch` and `stream` use `planning`, `offsets` and
  `moments`, and read from `places`: `members` or a `folder`; `holding` retains history for a named
  reader; `results`, and `tables` of the state.
- Writes: `write_options`, `write`; rows become `jobs` or `redrives`, sent in `segments` and
accepted
  by `commits`.
- `versions`: the differences between Spark versions.
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
    """Reads the history and the tables of a grid, and writes jobs."""

    @classmethod
    def name(cls) -> str:
        """The name for `format()`."""
        return "rollq"

    def schema(self) -> str:
        """The columns of the table selected by the options."""
        from rollq.spark.schemas import ddl
        from rollq.spark.source.options import read_options

        return ddl(read_options(self.options, is_stream=False).columns)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Create a batch reader."""
        from rollq.spark.source.batch import EventsReader
        from rollq.spark.source.options import check_table, read_options
        from rollq.spark.source.tables import TablesReader

        check_table(self.options, is_stream=False)
        options = read_options(self.options, is_stream=False)
        if options.table == "events":
            return EventsReader(schema, options)
        return TablesReader(schema, options)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        """Create a stream reader."""
        from rollq.spark.source.options import check_table, read_options
        from rollq.spark.source.stream import EventStreamReader

        check_table(self.options, is_stream=True)
        return EventStreamReader(schema, read_options(self.options, is_stream=True))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Create a batch writer."""
        from rollq.spark.source.write import JobsWriter
        from rollq.spark.source.write_options import write_options

        return JobsWriter(schema, write_options(self.options), overwrite=overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        """Create a stream writer."""
        from rollq.spark.source.write import JobsStream
        from rollq.spark.source.write_options import write_options

        return JobsStream(schema, write_options(self.options), overwrite=overwrite)
