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
    "length_of",
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


def read_limit(most: int) -> Any:
    """The form in which Spark since 4.2 is told how long a batch may be, and says it.

    Args:
        most: indexes; 0: no bound.
    """
    from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

    return ReadMaxRows(most) if most else ReadAllAvailable()


def length_of(limit: Any, default: int) -> int:
    """The most that a batch may have; 0: no bound.

    Args:
        limit: what Spark says; nothing before 4.2.
        default: what holds if it says nothing.
    """
    return default if limit is None else int(getattr(limit, "max_rows", 0))
