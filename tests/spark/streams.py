"""Streaming queries for tests: each runs as far as it goes, or until it is left."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from tests.integration.procs import until

ALL = {"startingOffsets": "earliest", "columns": "_group,_index,_ordinal"}


class Query:
    """A query that appends to a folder of Parquet, run as far as it goes."""

    def __init__(
        self,
        spark: SparkSession,
        place: Path,
        change: Callable[[DataFrame], DataFrame] = lambda events: events,
    ) -> None:
        self._spark = spark
        self._change = change  # what becomes of events before they are written
        self._out = place / "out"
        self._checkpoint = str(place / "checkpoint")
        self.progress: list[Any] = []  # of the last run

    def run(self, **options: str) -> list[tuple[int, dict[str, int]]]:
        """Read all that there is now; the rows of each batch that had any, and where it ended."""
        query = (
            self._change(self._spark.readStream.format("rollq").options(**(ALL | options)).load())
            .writeStream.option("checkpointLocation", self._checkpoint)
            .trigger(availableNow=True)
            .start(str(self._out))
        )
        query.awaitTermination()
        self.progress = query.recentProgress
        sources = [each.sources[0] for each in self.progress]
        return [
            (each.numInputRows, _parsed(each.endOffset)) for each in sources if each.numInputRows
        ]

    def table(self) -> DataFrame:
        """What was written so far."""
        return self._spark.read.parquet(str(self._out))

    def rows(self) -> Counter[tuple[str, int, int]]:
        """What was read so far."""
        return Counter(tuple(row) for row in self.table().collect())

    def files(self) -> int:
        """How many tasks had rows."""
        return len(list(self._out.glob("*.parquet")))


class Following:
    """A query that goes on."""

    def __init__(self, query: Any) -> None:
        self._query = query

    def offset(self) -> dict[str, int]:
        """What it has read; nothing if it has not begun."""
        return self._said("endOffset")

    def until_offset(self, wanted: dict[str, int]) -> None:
        """Wait until it has read so far."""
        until(lambda: self.offset() == wanted)

    def until_latest(self, wanted: dict[str, int]) -> None:
        """Wait until it knows of so much."""
        until(lambda: self._said("latestOffset") == wanted)

    def _said(self, name: str) -> dict[str, int]:
        if (error := self._query.exception()) is not None:
            raise error
        progress = self._query.lastProgress
        said = progress["sources"][0][name] if progress else None
        return _parsed(said) or {}


@contextmanager
def follow(spark: SparkSession, place: Path, **options: str) -> Iterator[Following]:
    """A query that is asked all the time whether there is more; it ends with this."""
    query = (
        spark.readStream.format("rollq")
        .options(**(ALL | options))
        .load()
        .writeStream.option("checkpointLocation", str(place / "checkpoint"))
        .trigger(processingTime="200 milliseconds")
        .start(str(place / "out"))
    )
    try:
        yield Following(query)
    finally:
        query.stop()


def _parsed(offset: Any) -> dict[str, int]:
    """By Connect it is JSON already, and of Spark before 4.2 the text of a dict."""
    parsed: dict[str, int] = ast.literal_eval(offset) if isinstance(offset, str) else offset
    return parsed
