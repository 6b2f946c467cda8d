"""The same transformations in DuckDB: one process, no cluster, the yardstick for small data."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import duckdb

from rollq.spark.pipeline import crowds, gold, levels, silver
from rollq.spark.pipeline.dialect import SqlDialect

GOLD = ("gold_hourly", "gold_dead", "gold_depth", "gold_utilisation", "gold_execs")
MEMORY = "4GB"  # as much as Spark has at most


class Duck(SqlDialect):
    """DuckDB's words."""

    group = '"group"'
    count = '"count"'

    def ms(self, moment: str) -> str:
        return f"epoch_ms({moment})"

    def latest(self, value: str, window: str) -> str:
        return f"last_value({value} IGNORE NULLS) OVER ({window})"

    def latest_before(self, value: str, window: str) -> str:
        frame = "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
        return f"last_value({value} IGNORE NULLS) OVER ({window} {frame})"

    def pack(self, **fields: str) -> str:
        return f"struct_pack({', '.join(f'{name} := {text}' for name, text in fields.items())})"

    def gather(self, value: str) -> str:
        return f"list({value}) FILTER ({value} IS NOT NULL)"

    def merge(self, gathered: str) -> str:
        return f"list_sort(flatten(list({gathered})))"

    def percentile(self, gathered: str, percent: int) -> str:
        return f"{gathered}[(len({gathered}) * {percent} + 99) // 100]"

    def series(self, first: str, last: str, step: int) -> str:
        return f"unnest(generate_series({first}, {last}, {step}))"

    def moment(self, ms: str) -> str:
        return f"make_timestamp(({ms}) * 1000)"

    def first_word(self, text: str) -> str:
        return f"split_part({text}, ' ', 1)"


def run(bronze: Sequence[Path], out: Path) -> dict[str, float]:
    """Make silver and gold from bronze files, as Parquet.

    Returns:
        The seconds that each table took.
    """
    out.mkdir(parents=True)
    d = Duck()
    seconds: dict[str, float] = {}
    connection = duckdb.connect()
    connection.execute("SET threads = 2")
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute(f"SET memory_limit = '{MEMORY}'")
    connection.execute(f"SET temp_directory = '{out / 'spilled'}'")
    listed = ", ".join(f"'{path}'" for path in bronze)
    connection.execute(
        f"CREATE VIEW news AS SELECT * REPLACE (CAST(_ts AS TIMESTAMP) AS _ts) "
        f"FROM read_parquet([{listed}])"
    )
    connection.execute("CREATE VIEW events AS SELECT * FROM news")

    def made(name: str, query: str, *, is_table: bool = False) -> None:
        begun = time.perf_counter()
        if is_table:
            connection.execute(f"CREATE TABLE {name} AS {query}")
        else:
            path = out / f"{name}.parquet"
            connection.execute(f"COPY ({query}) TO '{path}' (FORMAT parquet, COMPRESSION zstd)")
        seconds[name] = time.perf_counter() - begun

    made("moves", silver.moves(d, has_arrays=False, has_open=False), is_table=True)
    made(
        "attempts",
        f"{silver.ended_attempts(d)} UNION ALL {silver.begun_attempts(d)}",
        is_table=True,
    )
    made("silver_attempts", "SELECT * FROM attempts")
    made("silver_jobs", silver.jobs(d))
    connection.execute(
        'CREATE VIEW open_workers AS SELECT NULL::VARCHAR AS "group", NULL::VARCHAR AS worker_id, '
        "0::BIGINT AS last_index, 0 AS last_ordinal, NULL::TIMESTAMP AS up_at, "
        "NULL::VARCHAR AS name, 0::BIGINT AS slots WHERE false"
    )
    made("sessions", crowds.sessions(d), is_table=True)
    made("day_steps", crowds.steps(d, has_arrays=False), is_table=True)
    connection.execute("CREATE VIEW ended AS SELECT * FROM attempts WHERE ended_at IS NOT NULL")
    connection.execute("CREATE VIEW open_attempts AS SELECT * FROM attempts WHERE ended_at IS NULL")
    made("busy", gold.busy(d), is_table=True)
    _hours(connection)
    made("gold_hourly", gold.hourly(d))
    made("gold_dead", gold.dead(d))
    connection.execute("CREATE VIEW new_steps AS SELECT * FROM day_steps")
    connection.execute(
        'CREATE VIEW levels_before AS SELECT "group", queue, waits AS waiting, runs AS running '
        "FROM day_steps WHERE false"
    )
    made("gold_depth", f"SELECT * FROM ({levels.depth(d)}) WHERE minute IS NOT NULL")
    made("gold_utilisation", gold.utilisation(d))
    made("counts", levels.counts(d), is_table=True)
    made("gold_execs", levels.execs(d))
    connection.close()
    return seconds


def _hours(connection: duckdb.DuckDBPyConnection) -> None:
    """Everything is new: all hours are to be made."""
    connection.execute(
        "CREATE TABLE touched AS SELECT DISTINCT _group AS grp, date_trunc('hour', _ts) AS hour "
        "FROM news"
    )
    connection.execute(
        "CREATE TABLE passed AS SELECT _group AS grp, epoch_ms(date_trunc('hour', min(_ts))) "
        "AS first_ms, epoch_ms(max(_ts)) AS last_ms, last_ms AS until_ms FROM news GROUP BY 1"
    )


def unlike(ours: Sequence[Path], theirs: Path) -> int:
    """How many rows only one of two has, moments without their zone."""
    connection = duckdb.connect()
    connection.execute("SET TimeZone = 'UTC'")
    listed = ", ".join(f"'{path}'" for path in ours)
    names = connection.execute(f"DESCRIBE SELECT * FROM '{theirs}'").fetchall()
    columns = ", ".join(
        f'CAST("{name}" AS TIMESTAMP) AS "{name}"' if kind.startswith("TIMESTAMP") else f'"{name}"'
        for name, kind, *_ in names
    )
    one = f"SELECT {columns} FROM read_parquet([{listed}])"
    two = f"SELECT {columns} FROM '{theirs}'"
    rows = connection.execute(
        f"SELECT (SELECT count(*) FROM ({one} EXCEPT ALL {two}))"
        f" + (SELECT count(*) FROM ({two} EXCEPT ALL {one}))"
    ).fetchone()
    connection.close()
    return int(rows[0]) if rows else 0
