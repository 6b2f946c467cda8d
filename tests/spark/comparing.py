"""Tables of the pipeline against a plain recomputation.

python -m tests.spark.comparing --events 50000
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from bench.pipeline.lives import Lives, seal_lives
from rollq.spark import session
from rollq.spark.pipeline.feed import Feed
from rollq.spark.pipeline.run import Pipeline
from rollq.spark.pipeline.tables import paths
from tests.spark.plain import read
from tests.spark.plain_gold import Plain

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
        found = differences(tables, [Plain("default", rows)])
        counts = {name: rows_of(tables, name).total() for name in MADE}
    spark.stop()
    print(f"{len(rows)} events; rows: {counts}")
    print("\n".join(found) or "no difference")
    return 1 if found else 0


def rows_of(out: Path, name: str) -> Rows:
    """The rows of a table by its files, as anybody may read them; moments as milliseconds."""
    found: Rows = Counter()
    for path in paths(out, name):
        found.update(counted(pq.read_table(path, partitioning=None)))
    return found


def counted(table: pa.Table) -> Rows:
    """Rows, with moments as milliseconds."""
    for place, column in enumerate(table.schema):
        if pa.types.is_timestamp(column.type):
            ms = pc.divide(table.column(place).cast(pa.int64()), 1000)
            table = table.set_column(place, column.name, ms)
    return Counter(tuple(sorted(row.items())) for row in table.to_pylist())


def expected(tables: list[Plain], name: str) -> Rows:
    rows = (row for each in tables for row in getattr(each, name)())
    return Counter(tuple(sorted(row.items())) for row in rows)


def differences(
    out: Path, tables: list[Plain], rows: Callable[[Path, str], Rows] = rows_of
) -> list[str]:
    """For every table that is not as it should be, a row that is wrong and one that is missing."""
    found = []
    for name in MADE:
        ours, theirs = rows(out, name), expected(tables, name)
        wrong, missing = sorted(ours - theirs, key=repr), sorted(theirs - ours, key=repr)
        if wrong or missing:
            found.append(f"{name}: {len(wrong)} wrong {wrong[:1]}, {len(missing)} {missing[:1]}")
    return found


if __name__ == "__main__":
    sys.exit(main())
