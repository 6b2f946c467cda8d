"""One batch: processes new events and returns the next manifest. Nothing is visible before commit.

A batch depends only on the previous manifest and the new events, so an interrupted batch is simply
run again. Only what new events touch is read and written: open jobs, the hours of the events, the
days since the last batch. The table format is hidden behind `TableBatch`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

import msgspec

from rollq.spark.pipeline import checks, crowds, gold, levels, silver
from rollq.spark.pipeline.bronze import Reading
from rollq.spark.pipeline.catalog import (
    ARRAYS,
    ATTEMPTS,
    AUDIT,
    BRONZE,
    BUSY,
    CHECKS,
    COUNTS,
    DEAD,
    DEPTH,
    EXECS,
    HOURLY,
    JOBS,
    LEVELS,
    SCHEMA_VERSION,
    STEPS,
    UTILISATION,
    WORKERS,
    TableSpec,
)
from rollq.spark.pipeline.checks import CheckResult, stats_of
from rollq.spark.pipeline.dialect import SPARK
from rollq.spark.pipeline.manifest import Mark, TableManifest
from rollq.spark.pipeline.profile import Profile, profile_of
from rollq.spark.pipeline.settings import SMALL_ROWS, note_work, small_work
from rollq.spark.pipeline.storage import OPEN_ONLY, NewEvents, Only, TableBatch
from rollq.spark.pipeline.tables import DAY_MS, HOUR_MS, day_of, days_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SMALL_HOURS_ROWS: Final = 1_000_000
ROWS_PER_INDEX: Final = 100  # estimate for the first batch
THREADS: Final = 3

OnStage = Callable[[str], None]


class PipelineBatch:
    """Makes one manifest."""

    def __init__(
        self, spark: SparkSession, tables: TableBatch, before: TableManifest, told: OnStage
    ) -> None:
        self._spark = spark
        self._tables = tables
        self._before = before
        self._on_stage = told
        self._profile = Profile({}, [], {}, {})
        self._is_small = False
        self._has_open_jobs = False
        self._read_stats: Mapping[str, checks.ReadStats] = {}
        self.checked: list[CheckResult] = []

    def make(self, reading: Reading) -> TableManifest | None:
        """The manifest after these events, without tables; None if all of them are in the tables
        already."""
        self._on_stage("bronze")
        known = {group: mark.index for group, mark in self._before.marks.items()}
        is_small = reading.rows_about(self._rows_per_index()) <= SMALL_ROWS / 2
        new = self._tables.write_events(reading, known, is_small=is_small)
        if not new.rows:
            return None
        marks = self._before.marks
        self._read_stats = stats_of(new.hours, marks, reading.starts, reading.missing)
        return self._make_of(new, marks)

    def remake(self) -> TableManifest:
        """The manifest after rebuilding all tables from bronze. The offsets of groups are
        unchanged, even if events were removed."""
        number, source = self._before.number, self._before.source
        marks = {
            group: msgspec.structs.replace(mark, first_ms=mark.last_ms)
            for group, mark in self._before.marks.items()
        }
        self._before = TableManifest(number, SCHEMA_VERSION, source, 0, 0, {}, {})
        new = self._tables.begin_rebuild()
        self._read_stats = stats_of(new.hours, marks, {}, {})
        return self._make_of(new, marks)

    def _make_of(self, new: NewEvents, reached: Mapping[str, Mark]) -> TableManifest:
        made_ms = int(time.time() * 1000)
        self._profile = profile_of(new.hours, reached)
        if new.rows:
            self._make_tables(new, made_ms)
        return TableManifest(
            number=self._before.number + 1,
            schema_version=SCHEMA_VERSION,
            source=self._before.source,
            made_ms=made_ms,
            events=self._before.events + new.rows,
            marks=self._marks(),
            tables={},
        )

    def _make_tables(self, new: NewEvents, made_ms: int) -> None:
        self._is_small = new.rows <= SMALL_ROWS
        with small_work(self._spark, self._is_small):
            self._view("news", self._tables.new(BRONZE))
            self._on_stage("silver")
            self._make_silver()
        self._is_small = self._is_small and self._rows_of_hours() <= SMALL_HOURS_ROWS
        with small_work(self._spark, self._is_small):
            self._on_stage("gold")
            self._make_gold()
            self._on_stage("checks")
            self._make_checks(made_ms)
        note_work(self._spark, new.rows)

    def _marks(self) -> dict[str, Mark]:
        whole = {group: told.is_whole for group, told in self._read_stats.items()}
        return {
            group: msgspec.structs.replace(mark, is_whole=whole.get(group, mark.is_whole))
            for group, mark in self._profile.marks.items()
        }

    def _rows_per_index(self) -> float:
        """The mean number of events per index so far."""
        indexes = sum(mark.index for mark in self._before.marks.values())
        return self._before.events / indexes if indexes else ROWS_PER_INDEX

    # Silver

    def _make_silver(self) -> None:
        if self._profile.has_arrays:
            self._make_arrays()
        self._make_moves()
        work = [self._make_attempts, self._make_jobs, self._make_steps]
        if self._profile.has_workers:
            work.append(self._make_sessions)
        if self._profile.has_acts:
            work.append(self._make_audit)
        self._concurrently(work)

    def _make_arrays(self) -> None:
        """Arrays before jobs, as tasks refer to them."""
        self._view("open_arrays", self._tables.found(ARRAYS, OPEN_ONLY))
        self._query("array_marks", crowds.array_marks(SPARK))
        rows = self._spark.sql(crowds.arrays(SPARK))
        self._tables.replace_open(ARRAYS, rows, "ended_at IS NULL")
        self._view("arrays_now", self._tables.new(ARRAYS))
        self._query("array_lives", crowds.array_lives(SPARK))

    def _make_sessions(self) -> None:
        self._view("open_workers", self._tables.found(WORKERS, OPEN_ONLY))
        rows = self._spark.sql(crowds.sessions(SPARK))
        self._tables.replace_open(WORKERS, rows, "down_at IS NULL")

    def _make_audit(self) -> None:
        self._tables.append(AUDIT, self._single(self._spark.sql(crowds.acts(SPARK))))

    def _make_moves(self) -> None:
        open_jobs = self._tables.take_open_jobs()
        self._has_open_jobs = open_jobs is not None
        if open_jobs is not None:
            self._view("open_jobs", open_jobs)
        has_arrays = self._profile.has_arrays
        query = silver.moves(SPARK, has_arrays=has_arrays, has_open=open_jobs is not None)
        staged = self._tables.stage(self._spark.sql(query), "moves", is_small=self._is_small)
        staged.createOrReplaceTempView("moves")

    def _make_attempts(self) -> None:
        """Ended attempts are appended; running ones are few, and are rewritten in each batch."""
        query = f"{silver.ended_attempts(SPARK)} UNION ALL {silver.begun_attempts(SPARK)}"
        if self._tables.has(ATTEMPTS, OPEN_ONLY):
            self._view("running_before", self._tables.found(ATTEMPTS, OPEN_ONLY))
            query += f" UNION ALL {silver.running_attempts(SPARK)}"
        rows = self._spark.sql(f"{query} SORT BY ended_at")
        self._tables.replace_open(ATTEMPTS, rows, "ended_at IS NULL")
        ended = Only(is_open=False)
        # The hours in which they ran had counted them differently, or not at all.
        for first_ms, _ in self._tables.new_spans(ATTEMPTS, ended):
            self._profile.reach_back(first_ms)
        self._view("ended", self._tables.new(ATTEMPTS, ended))
        self._tables.append(BUSY, self._single(self._spark.sql(gold.busy(SPARK))))

    def _make_jobs(self) -> None:
        self._tables.replace_open_jobs(self._spark.sql(silver.jobs(SPARK)))

    def _make_steps(self) -> None:
        steps = crowds.steps(SPARK, has_arrays=self._profile.has_arrays)
        self._tables.append(STEPS, self._spark.sql(steps))

    # Gold

    def _make_gold(self) -> None:
        self._query("touched", self._profile.touched_sql())
        self._query("passed", self._profile.ran_sql())
        hours = [ms for _, ms in self._profile.hours]
        self._view("attempts", self._tables.now(ATTEMPTS, Only(first_ms=min(hours))))
        self._view("open_attempts", self._tables.now(ATTEMPTS, OPEN_ONLY))
        first_day = day_of(self._profile.ran_first_ms)
        self._view("busy", self._tables.now(BUSY, Only(first_day=first_day)))
        within = Only(first_ms=min(hours), end_ms=max(hours) + HOUR_MS)
        self._view("events", self._tables.now(BRONZE, within))
        # Of all sessions only those that reach into the days whose hours may change.
        since = SPARK.moment(str(self._profile.ran_first_ms // DAY_MS * DAY_MS))
        sessions = self._tables.now(WORKERS).where(f"down_at IS NULL OR down_at >= {since}")
        self._view("sessions", sessions)
        touched = {day_of(ms) for ms in hours}, self._profile.touched_if()
        ran = {day_of(ms) for ms in self._profile.ran_days()}, self._profile.ran_if()
        self._concurrently(
            [
                lambda: self._make_hourly(*touched),
                self._make_execs,
                lambda: self._replace_hours(UTILISATION, gold.utilisation(SPARK), *ran),
                self._make_depth,
                lambda: self._replace_hours(DEAD, gold.dead(SPARK), *touched),
            ]
        )

    def _make_hourly(self, days: set[str], is_anew: str) -> None:
        """Recompute the hours of new events; run time in earlier hours is added to those."""
        spans = self._tables.new_spans(BUSY)
        if not self._profile.is_within(spans):
            self._view("new_busy", self._tables.new(BUSY))
            late = self._spark.sql(gold.late_hourly(SPARK))
            days = days | days_of(spans)
        else:
            late = None
        self._replace_hours(HOURLY, gold.hourly(SPARK), days, is_anew, late)

    def _rows_of_hours(self) -> float:
        """The estimated number of rows to read for the touched hours: few new rows may touch hours
        with many."""
        first_ms, last_ms = self._profile.first_ms, max(ms for _, ms in self._profile.hours)
        return sum(
            self._tables.rows_about(table, first_ms, last_ms + HOUR_MS)
            for table in (ATTEMPTS, BRONZE)
        )

    def _make_depth(self) -> None:
        day = day_of(self._profile.first_ms)
        self._view("day_steps", self._tables.now(STEPS, Only(first_day=day)))
        self._view("new_steps", self._tables.new(STEPS))
        if self._tables.has(LEVELS):
            self._view("levels_before", self._tables.found(LEVELS))
        else:  # no levels yet, or an older version: sum up all steps
            steps = self._tables.found(STEPS)
            renamed = steps.withColumnsRenamed({"waits": "waiting", "runs": "running"})
            renamed.createOrReplaceTempView("levels_before")
        depth = self._spark.sql(levels.depth(SPARK))
        self._tables.replace_depth(self._single(depth), day)

    def _make_execs(self) -> None:
        counts = self._spark.sql(levels.counts(SPARK))
        self._tables.append(COUNTS, self._single(counts))
        self._view("counts", self._tables.now(COUNTS))
        execs = self._spark.sql(levels.execs(SPARK))
        self._tables.replace(EXECS, self._single(execs))

    def _make_checks(self, made_ms: int) -> None:
        """Compute the facts for the checks, and append the results."""
        for table in (JOBS, ATTEMPTS, DEPTH, HOURLY, DEAD):
            self._view(f"new_{table.name.partition('_')[2]}", self._tables.new(table))
        self._view("levels_now", self._tables.now(LEVELS))
        query = checks.facts(
            SPARK,
            known={group: mark.index for group, mark in self._before.marks.items()},
            has_open=self._has_open_jobs,
            has_running=self._tables.has(ATTEMPTS, OPEN_ONLY),
            since_ms=self._profile.first_ms,
        )
        found = {(row[0], row[1]): row[2] for row in self._spark.sql(query).collect()}
        self.checked = checks.judge(found, self._read_stats)
        rows = checks.rows_of(self._spark, self.checked, self._before.number + 1, made_ms)
        self._tables.append(CHECKS, rows)

    def _replace_hours(
        self,
        table: TableSpec,
        query: str,
        days: set[str],
        is_anew: str,
        late: DataFrame | None = None,
    ) -> None:
        """Replace some hours of a table. Files are by day, so the other hours of the touched days
        are rewritten, with late additions."""
        rows = self._spark.sql(query).select(*table.names)
        of_days = Only(days=days)
        rest = None if late is None else late.limit(0)
        if self._tables.has(table, of_days):
            rest = self._tables.found(table, of_days).where(f"NOT ({is_anew})")
        if rest is not None and late is not None:
            parts = rest.select(*table.names).unionByName(late.select(*table.names))
            parts.createOrReplaceTempView("hours_in_parts")
            rest = self._spark.sql(gold.added_hourly(SPARK))
        if rest is not None:
            rows = rows.unionByName(rest.select(*table.names))
        self._tables.replace_days(table, self._single(rows), days)

    def _concurrently(self, works: Sequence[Callable[[], None]]) -> None:
        """Run independent work concurrently: most of the time of a small job is planning, which
        leaves cores idle."""
        with ThreadPoolExecutor(THREADS) as threads:
            for done in [threads.submit(work) for work in works]:
                done.result()

    def _query(self, name: str, text: str) -> None:
        self._spark.sql(text).createOrReplaceTempView(name)

    def _view(self, name: str, rows: DataFrame) -> None:
        """Register a view; of a small batch with one partition, which avoids shuffles."""
        (rows.coalesce(1) if self._is_small else rows).createOrReplaceTempView(name)

    def _single(self, rows: DataFrame) -> DataFrame:
        """Few rows, written as one file."""
        return rows.coalesce(1) if self._is_small else rows.repartition(1)
