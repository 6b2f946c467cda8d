"""Streaming queries for tests: each runs as far as it goes, and can be asked what it wrote."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

ALL = {"startingOffsets": "earliest", "columns": "_group,_index,_ordinal"}


class Query:
    """A query that appends to a folder of Parquet, run as far as it goes."""

    def __init__(self, spark: SparkSession, place: Path) -> None:
        self._spark = spark
        self._out = str(place / "out")
        self._checkpoint = str(place / "checkpoint")

    def run(self, **options: str) -> list[tuple[int, dict[str, int]]]:
        """Read all that there is now; the rows of each batch that had any, and where it ended."""
        query = (
            self._spark.readStream.format("rollq")
            .options(**(ALL | options))
            .load()
            .writeStream.option("checkpointLocation", self._checkpoint)
            .trigger(availableNow=True)
            .start(self._out)
        )
        query.awaitTermination()
        sources = [each.sources[0] for each in query.recentProgress]
        return [
            (each.numInputRows, _parsed(each.endOffset)) for each in sources if each.numInputRows
        ]

    def rows(self) -> Counter[tuple[str, int, int]]:
        """What was read so far."""
        return Counter(tuple(row) for row in self._spark.read.parquet(self._out).collect())


def _parsed(offset: Any) -> dict[str, int]:
    """By Connect it is JSON already, and of Spark before 4.2 the text of a dict."""
    parsed: dict[str, int] = ast.literal_eval(offset) if isinstance(offset, str) else offset
    return parsed
