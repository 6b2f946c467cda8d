"""One day of silver and gold made anew from the events, as a batch of its own.

Of tables that are split by day, the rows of the day are replaced: jobs and attempts that ended on
it, acts, figures of its hours. They follow from the events of the jobs and arrays to which
something happened on that day, whenever else something happened to them. What is a sum over time is
added up anew: depth from that day on, the levels of queues and the estimates of execs. Rows that
belong to no day stay: open jobs and attempts, arrays and sessions of workers.
"""

from __future__ import annotations

import time
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Final

import msgspec

from rollq.base.errors import ErrorCode, LocalError
from rollq.spark.pipeline import checks, crowds, gold, levels, silver
from rollq.spark.pipeline.batch import OnStage
from rollq.spark.pipeline.catalog import (
    ARRAYS,
    ATTEMPTS,
    AUDIT,
    BRONZE,
    BUSY,
    CHECKS,
    COUNTS,
    DEAD,
    EXECS,
    HOURLY,
    JOBS,
    SCHEMA_VERSION,
    STEPS,
    UTILISATION,
    WORKERS,
    TableSpec,
)
from rollq.spark.pipeline.checks import CheckResult
from rollq.spark.pipeline.dialect import SPARK
from rollq.spark.pipeline.manifest import TableManifest
from rollq.spark.pipeline.settings import SMALL_ROWS, small_work
from rollq.spark.pipeline.storage import OPEN_ONLY, Only, TableBatch
from rollq.spark.pipeline.tables import DAY_MS, HOUR_MS, day_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_CHECKED: Final = ("busy", "hourly", "dead")  # what a day alone can tell


class DayBatch:
    """The making of the manifest after this one, of which only one day is new."""

    def __init__(
        self,
        spark: SparkSession,
        tables: TableBatch,
        before: TableManifest,
        day: date,
        told: OnStage,
    ) -> None:
        self._spark = spark
        self._tables = tables
        self._before = before
        self._told = told
        self._first_ms = int(datetime(day.year, day.month, day.day, tzinfo=UTC).timestamp()) * 1000
        self._day = day.isoformat()
        self._only = Only(days={self._day})
        around = self._first_ms, self._first_ms + DAY_MS
        self._is_small = tables.rows_about(BRONZE, *around) <= SMALL_ROWS / 2
        self.checked: list[CheckResult] = []

    def remake(self) -> TableManifest:
        """The manifest, without tables."""
        made_ms = int(time.time() * 1000)
        self._told("silver")
        self._read_events()
        with small_work(self._spark, self._is_small):
            self._make_silver()
            self._told("gold")
            self._make_gold()
            self._make_levels()
            self._told("checks")
            self._make_checks(made_ms)
        return msgspec.structs.replace(
            self._before, number=self._before.number + 1, made_ms=made_ms, tables={}
        )

    def _read_events(self) -> None:
        self._tables.found(BRONZE).createOrReplaceTempView("all_events")
        self._tables.found(BRONZE, self._only).createOrReplaceTempView("events")
        hint = "/*+ BROADCAST(u) */" if self._is_small else ""
        news = self._spark.sql(f"""
            SELECT {hint} e.* FROM all_events e
            LEFT SEMI JOIN (
                SELECT DISTINCT _group, coalesce(job_id, array_id) AS unit FROM events) u
            ON e._group = u._group AND coalesce(e.job_id, e.array_id) = u.unit
        """)
        staged = self._tables.stage(news, "news", is_small=self._is_small)
        staged.createOrReplaceTempView("news")

    def _make_silver(self) -> None:
        self._tables.found(ARRAYS).createOrReplaceTempView("arrays_now")
        self._query("array_lives", crowds.array_lives(SPARK))
        self._query("array_marks", crowds.array_marks(SPARK, has_open=False))
        moves = self._spark.sql(silver.moves(SPARK, has_arrays=True, has_open=False))
        staged = self._tables.stage(moves, "moves", is_small=self._is_small)
        staged.createOrReplaceTempView("moves")
        self._renew(ATTEMPTS, f"{silver.ended_attempts(SPARK)} SORT BY ended_at")
        self._renew(JOBS, f"SELECT * FROM ({silver.jobs(SPARK)}) WHERE NOT is_open")
        self._renew(AUDIT, crowds.acts(SPARK, news="events"))
        self._renew(STEPS, crowds.steps(SPARK, has_arrays=True))

    def _make_gold(self) -> None:
        since = Only(first_ms=self._first_ms)
        self._tables.now(ATTEMPTS, since).createOrReplaceTempView("attempts")
        ended = self._tables.now(ATTEMPTS, Only(is_open=False, first_ms=self._first_ms))
        end = SPARK.moment(str(self._first_ms + DAY_MS))
        ended.where(f"started_at < {end}").createOrReplaceTempView("ended")
        self._renew(BUSY, gold.busy(SPARK))
        self._tables.now(BUSY, self._only).createOrReplaceTempView("busy")
        self._tables.found(ATTEMPTS, OPEN_ONLY).createOrReplaceTempView("open_attempts")
        self._tables.found(WORKERS).createOrReplaceTempView("sessions")
        self._query("touched", self._hours_sql())
        self._query("passed", self._passed_sql())
        self._renew(HOURLY, gold.hourly(SPARK))
        self._renew(DEAD, gold.dead(SPARK))
        self._renew(UTILISATION, gold.utilisation(SPARK))

    def _make_levels(self) -> None:
        """What is added up over time."""
        steps = self._tables.now(STEPS)
        self._tables.now(STEPS, Only(first_day=self._day)).createOrReplaceTempView("day_steps")
        steps.limit(0).createOrReplaceTempView("new_steps")
        added = steps.withColumnsRenamed({"waits": "waiting", "runs": "running"})
        added.createOrReplaceTempView("levels_before")
        depth = self._spark.sql(levels.depth(SPARK))
        self._tables.replace_depth(self._single(depth), self._day)
        self._tables.now(ATTEMPTS, Only(is_open=False)).createOrReplaceTempView("ended")
        counts = self._spark.sql(levels.counts(SPARK, news="all_events"))
        self._tables.replace(COUNTS, self._single(counts))
        self._tables.now(COUNTS).createOrReplaceTempView("counts")
        self._tables.replace(EXECS, self._single(self._spark.sql(levels.execs(SPARK))))

    def _make_checks(self, made_ms: int) -> None:
        self._tables.now(HOURLY, self._only).createOrReplaceTempView("new_hourly")
        self._tables.now(DEAD, self._only).createOrReplaceTempView("new_dead")
        found = self._spark.sql(checks.day_facts(SPARK)).collect()
        told = dict.fromkeys(self._before.marks, checks.ReadStats())
        facts = {(row[0], row[1]): row[2] for row in found}
        self.checked = [one for one in checks.judge(facts, told) if one.name in _CHECKED]
        self._tables.append(
            CHECKS, checks.rows_of(self._spark, self.checked, self._before.number + 1, made_ms)
        )

    def _renew(self, table: TableSpec, query: str) -> None:
        """Put what a query gives of the day in place of the rows of the day."""
        rows = self._spark.sql(query).where(f"to_date({table.by}) = DATE '{self._day}'")
        self._tables.replace_days(table, self._single(rows), {self._day})

    def _hours_sql(self) -> str:
        rows = ", ".join(
            f"({SPARK.text(group)}, {SPARK.moment(str(self._first_ms + hour * HOUR_MS))})"
            for group in self._before.marks
            for hour in range(DAY_MS // HOUR_MS)
        )
        return f"SELECT * FROM VALUES {rows} AS t(grp, hour)"

    def _passed_sql(self) -> str:
        """By group the hours of the day, and the last moment that is known."""
        last_ms = self._first_ms + DAY_MS - HOUR_MS
        rows = ", ".join(
            f"({SPARK.text(group)}, {self._first_ms}L, "
            f"{min(last_ms, mark.last_ms // HOUR_MS * HOUR_MS)}L, {mark.last_ms}L)"
            for group, mark in self._before.marks.items()
        )
        return f"SELECT * FROM VALUES {rows} AS t(grp, first_ms, last_ms, until_ms)"

    def _query(self, name: str, text: str) -> None:
        self._spark.sql(text).createOrReplaceTempView(name)

    def _single(self, rows: DataFrame) -> DataFrame:
        """As one file, if the day is small."""
        return rows.coalesce(1) if self._is_small else rows


def expect_day(manifest: TableManifest, day: date) -> None:
    """Check that tables can have one day made anew.

    Raises:
        LocalError: BAD_OPTIONS if they have nothing of that day, or an older rollq made them.
    """
    if manifest.schema_version < SCHEMA_VERSION:
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            "the tables were made by an older rollq, so one day of them cannot be made anew",
            "make all of them anew: rollq pipeline rebuild",
        )
    marks = manifest.marks.values()
    first = min((day_of(mark.first_ms) for mark in marks), default="")
    last = max((day_of(mark.last_ms) for mark in marks), default="")
    if not first <= day.isoformat() <= last:
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            f"the tables have nothing of {day}",
            f"name a day from {first} to {last}" if first else "run the pipeline first",
        )


def day_from(text: str) -> date:
    """A day as it is written: 2026-11-18, today or yesterday, all of UTC.

    Raises:
        LocalError: BAD_OPTIONS if it is none.
    """
    today = datetime.now(UTC).date()
    known = {"today": today, "yesterday": today - timedelta(days=1)}
    try:
        return known.get(text) or date.fromisoformat(text)
    except ValueError:
        raise LocalError(
            ErrorCode.BAD_OPTIONS, f"{text!r} is no day", "write it as 2026-11-18, in UTC"
        ) from None
