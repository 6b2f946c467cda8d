"""The differences between the supported Spark versions; no other module checks for them.

- Before 4.1 a streaming writer gets rows. They are converted to Arrow batches here.
- Before 4.2 Spark passes neither the start of a micro-batch nor a limit: the reader remembers the
  last end. After a restart Spark reveals it by planning an empty batch.
- Before 4.2 a reader cannot fix the end of `AvailableNow`: Spark asks for the latest offset once,
  first, and reads up to it in one batch. After a restart this looks like any other trigger, so the
  first answer is unlimited: a query that stops too early is worse than a large batch.

Features are detected, not version numbers.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import datasource
from pyspark.sql.types import Row, StructType

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceStreamArrowWriter as StreamWriter
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow as FixesItsEnd
else:
    StreamWriter = getattr(
        datasource, "DataSourceStreamArrowWriter", datasource.DataSourceStreamWriter
    )
    try:
        from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow as FixesItsEnd
    except ImportError:
        FixesItsEnd = object

__all__ = [
    "FixesItsEnd",
    "StreamWriter",
    "batches_of_rows",
    "is_bounded",
    "read_limit",
    "streamed_batches",
]

PAGE_ROWS: Final = 10_000
_STREAMS_GET_ARROW: Final = StreamWriter is not datasource.DataSourceStreamWriter


def streamed_batches(given: Iterator[Any], schema: StructType) -> Iterator[Any]:
    """The input of a streaming writer as Arrow batches."""
    return given if _STREAMS_GET_ARROW else batches_of_rows(given, schema)


def batches_of_rows(rows: Iterator[Row], schema: StructType) -> Iterator[Any]:
    """Rows as the Arrow batches that newer Spark versions pass."""
    from pyspark.sql.conversion import LocalDataToArrowConversion

    while page := list(islice(rows, PAGE_ROWS)):
        # It converts times from the machine's time zone.
        yield from LocalDataToArrowConversion.convert(page, schema, False).to_batches()


def read_limit(*, offsets_max: int, bytes_max: int, offsets_min: int) -> Any:
    """The limit object for Spark 4.2 and newer. Spark supports one limit; it only matters whether
    it passes this back or asks for everything. 0: no such limit."""
    from pyspark.sql.streaming import datasource as limits

    if offsets_max:
        return limits.ReadMaxRows(offsets_max)
    if bytes_max:
        return limits.ReadMaxBytes(bytes_max)
    return limits.ReadMinRows(offsets_min) if offsets_min else limits.ReadAllAvailable()


def is_bounded(limit: Any, default: bool) -> bool:
    """Whether the limits apply to a micro-batch.

    Args:
        limit: passed by Spark; None before 4.2.
        default: the result without it.
    """
    return default if limit is None else type(limit).__name__ != "ReadAllAvailable"
