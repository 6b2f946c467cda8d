"""Streaming queries for tests: each runs as far as it goes, and can be asked what it wrote."""

from __future__ import annotations

import json
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

    def run(self, **options: str) -> list[dict[str, Any]]:
        """Read all that there is now; what Spark says of each batch with rows."""
        query = (
            self._spark.readStream.format("rollq")
            .options(**(ALL | options))
            .load()
            .writeStream.option("checkpointLocation", self._checkpoint)
            .trigger(availableNow=True)
            .start(self._out)
        )
        query.awaitTermination()
        told: list[dict[str, Any]] = [json.loads(each.json) for each in query.recentProgress]
        return [each for each in told if each["numInputRows"]]

    def rows(self) -> Counter[tuple[str, int, int]]:
        """What was read so far."""
        return Counter(tuple(row) for row in self._spark.read.parquet(self._out).collect())
