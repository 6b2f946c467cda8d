"""What differs between the versions of Spark that the source runs on; elsewhere nothing asks.

- Before 4.1 a streaming write is given rows. They are made into Arrow batches here.
- Before 4.2 Spark says neither where a batch begins nor how long it may be: the reader remembers
  where the last one ended. After a restart Spark tells it by planning a batch of nothing.
- Before 4.2 a reader cannot fix where `AvailableNow` ends: Spark asks once, before all else, and
  reads up to there in one batch. After a restart that looks like any other trigger, so the first
  answer has no bound: a query that stops too early is worse than a long batch.

What is asked is whether Spark has a thing, not what its version is.
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
    """What a streaming write is given, as Arrow batches."""
    return given if _STREAMS_GET_ARROW else batches_of_rows(given, schema)


def batches_of_rows(rows: Iterator[Row], schema: StructType) -> Iterator[Any]:
    """Rows as the Arrow batches that newer Sparks would have given."""
    from pyspark.sql.conversion import LocalDataToArrowConversion

    while page := list(islice(rows, PAGE_ROWS)):
        # It knows that times in rows are those of the machine's zone.
        yield from LocalDataToArrowConversion.convert(page, schema, False).to_batches()


def read_limit(*, offsets_max: int, bytes_max: int, offsets_min: int) -> Any:
    """The form in which Spark since 4.2 is told that batches have bounds. It knows one bound; what
    counts for us is whether it gives that back, or asks for all. 0: there is no such bound."""
    from pyspark.sql.streaming import datasource as limits

    if offsets_max:
        return limits.ReadMaxRows(offsets_max)
    if bytes_max:
        return limits.ReadMaxBytes(bytes_max)
    return limits.ReadMinRows(offsets_min) if offsets_min else limits.ReadAllAvailable()


def is_bounded(limit: Any, default: bool) -> bool:
    """Whether a batch is to keep to the bounds.

    Args:
        limit: what Spark says; nothing before 4.2.
        default: what holds if it says nothing.
    """
    return default if limit is None else type(limit).__name__ != "ReadAllAvailable"
