"""DuckDB makes the same gold by the same SQL: what a benchmark compares with does the same work."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from bench.histories import make
from bench.pipeline import duck
from rollq.spark.pipeline.feed import Feed
from rollq.spark.pipeline.run import Pipeline
from rollq.spark.pipeline.tables import paths

pytestmark = pytest.mark.any_spark


def test_gold_by_duckdb_is_the_same(spark: SparkSession, tmp_path: Path) -> None:
    make(tmp_path / "state", 20_000)
    Pipeline(spark, Feed(path=str(tmp_path / "state")), tmp_path / "tables").run()
    duck.run(paths(tmp_path / "tables", "bronze_events"), tmp_path / "duck")
    for name in duck.GOLD:
        ours, theirs = paths(tmp_path / "tables", name), tmp_path / "duck" / f"{name}.parquet"
        assert ours, name
        assert duck.unlike(ours, theirs) == 0, name
