"""Tables of the pipeline against a plain recomputation.

python -m tests.spark.comparing --events 50000
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from bench.pipeline.lives import Lives, seal_lives
from rollq.spark import session
from rollq.spark.pipeline.feed import Feed
from rollq.spark.pipeline.run import Pipeline
from rollq.spark.pipeline.tables import load
from tests.spark.plain import read
from tests.spark.plain_gold import Plain

EPOCH = datetime(1970, 1, 1)
MADE = (
    *("silver_jobs", "silver_attempts", "gold_hourly", "gold_dead", "gold_depth"),
    *("gold_utilisation", "gold_execs"),
)
Rows = Counter[tuple[tuple[str, Any], ...]]


def main() -> int:
    """Run the pipeline twice over a history of which the last tenth came later, and compare."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=50_000)
    events = parser.parse_args().events
    lives = Lives(7, turn_ms=4_000)
    spark = session("local[2]")
    with tempfile.TemporaryDirectory() as folder:
        state, tables = Path(folder, "state"), Path(folder, "tables")
        for part in (events * 9 // 10, events // 10):
            seal_lives(state, lives, part)
            Pipeline(spark, Feed(path=str(state)), tables).run()
        rows = read(state)
        found = differences(spark, tables, [Plain("default", rows)])
        counts = {name: load(spark, tables, name).count() for name in MADE}
    spark.stop()
    print(f"{len(rows)} events; rows: {counts}")
    print("\n".join(found) or "no difference")
    return 1 if found else 0


@contextmanager
def in_utc(spark: SparkSession) -> Iterator[None]:
    """Spark hands out moments in the zone of this process."""
    spark.conf.set("spark.sql.session.timeZone", "UTC")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TZ", "UTC")
        time.tzset()
        yield
    time.tzset()


def rows_of(spark: SparkSession, out: Path, name: str) -> Rows:
    return Counter(
        tuple(sorted((key, plain(value)) for key, value in row.asDict().items()))
        for row in load(spark, out, name).collect()
    )


def plain(value: Any) -> Any:
    """Moments as milliseconds."""
    if isinstance(value, datetime):
        return (value.replace(tzinfo=None) - EPOCH) // timedelta(milliseconds=1)
    return value


def expected(tables: list[Plain], name: str) -> Rows:
    rows = (row for each in tables for row in getattr(each, name)())
    return Counter(tuple(sorted(row.items())) for row in rows)


def differences(spark: SparkSession, out: Path, tables: list[Plain]) -> list[str]:
    """For every table that is not as it should be, a row that is wrong and one that is missing."""
    found = []
    for name in MADE:
        ours, theirs = rows_of(spark, out, name), expected(tables, name)
        wrong, missing = sorted(ours - theirs, key=repr), sorted(theirs - ours, key=repr)
        if wrong or missing:
            found.append(f"{name}: {len(wrong)} wrong {wrong[:1]}, {len(missing)} {missing[:1]}")
    return found


if __name__ == "__main__":
    sys.exit(main())
