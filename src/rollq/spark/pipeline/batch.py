"""One batch: new events in, the next manifest out. Nothing of it is visible before that.

Everything follows from the manifest before and the new events alone, so that a batch that was
broken off is simply made again. Only what new events touch is read and written: open jobs in files
that hold some of theirs, hours in which they happened, the days since the last of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

from rollq.spark.pipeline import crowds, gold, levels, silver
from rollq.spark.pipeline.catalog import (
    ARRAYS,
    ATTEMPTS,
    BRONZE,
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
    Table,
)
from rollq.spark.pipeline.dialect import SPARK
from rollq.spark.pipeline.manifest import File, Manifest
from rollq.spark.pipeline.profile import Profile, profile_of
from rollq.spark.pipeline.settings import small_work
from rollq.spark.pipeline.tables import OPEN, Store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SMALL_ROWS: Final = 100_000  # files of open jobs up to this size are written anew in every batch
HOUR_MS: Final = 3_600_000
THREADS: Final = 2

Told = Callable[[str], None]


class Batch:
    """The making of one manifest."""

    def __init__(
        self, spark: SparkSession, store: Store, before: Manifest, stamp: str, told: Told
    ) -> None:
        self._spark = spark
        self._store = store
        self._before = before
        self._stamp = stamp
        self._told = told
        self._tables = dict(before.tables)
        self._new_bronze: list[File] = []
        self._profile = Profile({}, [], {})
        self._kept_jobs: list[File] = []
        self._new_steps: list[File] = []

    def make(self, events: DataFrame) -> Manifest | None:
        """The manifest after these events; None if all of them are in the tables already."""
        self._told("bronze")
        self._new_bronze = self._store.write(self._unread(events), BRONZE, self._stamp)
        if not self._new_bronze:
            return None
        self._tables[BRONZE.name] = [*self._before.files(BRONZE.name), *self._new_bronze]
        self._view("news", BRONZE, self._new_bronze)
        self._profile = profile_of(self._spark, self._before.marks)
        with small_work(self._spark, sum(file.rows for file in self._new_bronze)):
            self._told("silver")
            self._make_silver()
            self._told("gold")
            self._make_gold()
        return Manifest(
            number=self._before.number + 1,
            schema_version=SCHEMA_VERSION,
            source=self._before.source,
            made_ms=int(time.time() * 1000),
            events=self._before.events + sum(file.rows for file in self._new_bronze),
            marks=self._profile.marks,
            tables=self._tables,
        )

    def _unread(self, events: DataFrame) -> DataFrame:
        """Without events that are in the tables: they may come again after a restart."""
        for group, mark in self._before.marks.items():
            is_other = events["_group"] != group
            events = events.where(is_other | (events["_index"] > mark.index))
        return events

    # Silver

    def _make_silver(self) -> None:
        if self._profile.has_arrays:
            self._make_arrays()
        self._make_moves()
        work = [self._make_attempts, self._make_jobs, self._make_steps]
        self._together([*work, *([self._make_sessions] if self._profile.has_workers else [])])

    def _make_arrays(self) -> None:
        """Arrays before jobs, because tasks ask for them."""
        self._view("open_arrays", ARRAYS, self._open(ARRAYS))
        self._query("array_marks", crowds.array_marks(SPARK))
        new = self._add(ARRAYS, crowds.arrays(SPARK), "ended_at IS NULL")
        self._view("arrays_now", ARRAYS, new)
        self._query("array_lives", crowds.array_lives(SPARK))

    def _make_sessions(self) -> None:
        self._view("open_workers", WORKERS, self._open(WORKERS))
        self._add(WORKERS, crowds.sessions(SPARK), "down_at IS NULL")

    def _make_moves(self) -> None:
        touched = self._touched_jobs()
        self._kept_jobs = [file for file in self._open(JOBS) if file not in touched]
        if touched:
            self._view("open_jobs", JOBS, touched)
        query = silver.moves(SPARK, has_arrays=self._profile.has_arrays, has_open=bool(touched))
        moves = self._store.stage(self._spark.sql(query), "moves", self._stamp)
        moves.createOrReplaceTempView("moves")

    def _touched_jobs(self) -> list[File]:
        """The files of open jobs that must be written anew: all small ones, and of the large ones
        those that hold a job with new events."""
        files = self._open(JOBS)
        large = [file for file in files if file.rows > SMALL_ROWS]
        if not large:
            return files
        rows = self._store.read(JOBS, large).select("group", "job_id", "_metadata.file_path")
        found = rows.join(
            self._spark.sql("SELECT DISTINCT _group AS `group`, job_id FROM news"),
            ["group", "job_id"],
            "left_semi",
        )
        ends = tuple(str(row[0]) for row in found.select("file_path").distinct().collect())
        return [
            file
            for file in files
            if file.rows <= SMALL_ROWS or any(end.endswith(file.path) for end in ends)
        ]

    def _make_attempts(self) -> None:
        """Those that ended, and those that run: the latter are few, and written again each time."""
        query = f"{silver.ended_attempts(SPARK)} UNION ALL {silver.begun_attempts(SPARK)}"
        if before := self._open(ATTEMPTS):
            self._view("running_before", ATTEMPTS, before)
            query += f" UNION ALL {silver.running_attempts(SPARK)}"
        new = self._add(ATTEMPTS, query, "ended_at IS NULL")
        self._view("ended", ATTEMPTS, [file for file in new if file.kind != OPEN])

    def _make_jobs(self) -> None:
        final = self._spark.sql(silver.jobs(SPARK, is_open=False))
        # In the order in which they came: old ones end together, so that few files change.
        still = self._spark.sql(silver.jobs(SPARK, is_open=True)).sortWithinPartitions(
            "submitted_at"
        )
        self._tables[JOBS.name] = [
            *self._final(JOBS),
            *self._store.write(final, JOBS, self._stamp),
            *self._kept_jobs,
            *self._store.write(still, JOBS, f"{self._stamp}-open", open_if="true"),
        ]

    def _make_steps(self) -> None:
        steps = crowds.steps(SPARK, has_arrays=self._profile.has_arrays)
        self._new_steps = self._store.write(self._spark.sql(steps), STEPS, self._stamp)
        self._tables[STEPS.name] = [*self._before.files(STEPS.name), *self._new_steps]

    def _add(self, table: Table, query: str, open_if: str) -> list[File]:
        """Rows that are final are added, those that are not replace what was open."""
        new = self._store.write(self._spark.sql(query), table, self._stamp, open_if)
        self._tables[table.name] = [*self._final(table), *new]
        return new

    # Gold

    def _make_gold(self) -> None:
        self._query("touched", self._profile.touched_sql())
        self._query("passed", self._profile.passed_sql())
        hours = [ms for _, ms in self._profile.hours]
        # The hours of the events lie within those that passed since the batch before.
        self._view("attempts", ATTEMPTS, self._attempts_since(self._profile.first_ms))
        self._view("events", BRONZE, self._events_within(min(hours), max(hours) + HOUR_MS))
        self._view("sessions", WORKERS, self._tables.get(WORKERS.name, []))
        touched = {day_of(ms) for ms in hours}, self._profile.touched_if()
        passed = {day_of(ms) for ms in self._profile.passed_days()}, self._profile.passed_if()
        self._together(
            [
                lambda: self._renew(HOURLY, gold.hourly(SPARK), *touched),
                self._make_execs,
                lambda: self._renew(UTILISATION, gold.utilisation(SPARK), *passed),
                self._make_depth,
                lambda: self._renew(DEAD, gold.dead(SPARK), *touched),
            ]
        )

    def _make_depth(self) -> None:
        day, before = day_of(self._profile.first_ms), self._before.files(DEPTH.name)
        self._view("day_steps", STEPS, [f for f in self._tables[STEPS.name] if f.day >= day])
        self._view("new_steps", STEPS, self._new_steps)
        if LEVELS.name in self._before.tables:
            self._view("levels_before", LEVELS, self._before.files(LEVELS.name))
        else:  # a batch of an older version, or none: what all steps add up to
            steps = self._store.read(STEPS, self._before.files(STEPS.name))
            renamed = steps.withColumnsRenamed({"waits": "waiting", "runs": "running"})
            renamed.createOrReplaceTempView("levels_before")
        depth = self._spark.sql(levels.depth(SPARK)).repartition(1)
        new = self._store.write(depth, DEPTH, self._stamp, "minute IS NULL")
        kept = [file for file in before if file.day < day]
        self._tables[DEPTH.name] = [*kept, *(file for file in new if file.kind != OPEN)]
        self._tables[LEVELS.name] = [file for file in new if file.kind == OPEN]

    def _make_execs(self) -> None:
        counts = self._spark.sql(levels.counts(SPARK)).repartition(1)
        new = self._store.write(counts, COUNTS, self._stamp)
        self._tables[COUNTS.name] = [*self._before.files(COUNTS.name), *new]
        self._view("counts", COUNTS, self._tables[COUNTS.name])
        execs = self._spark.sql(levels.execs(SPARK)).repartition(1)
        self._tables[EXECS.name] = self._store.write(execs, EXECS, self._stamp)

    def _attempts_since(self, ms: int) -> list[File]:
        """Files of attempts that ran at that moment or later."""
        return [
            file for file in self._tables[ATTEMPTS.name] if file.kind == OPEN or file.last_ms >= ms
        ]

    def _events_within(self, first_ms: int, end_ms: int) -> list[File]:
        return [
            file
            for file in self._tables[BRONZE.name]
            if file.last_ms >= first_ms and file.first_ms < end_ms
        ]

    def _renew(self, table: Table, query: str, days: set[str], is_anew: str) -> None:
        """Replace some hours of a table; the other hours of their days are written again."""
        rows = self._spark.sql(query).select(*table.names)
        before = self._before.files(table.name)
        if same_days := [file for file in before if file.day in days]:
            rest = self._store.read(table, same_days).where(f"NOT ({is_anew})")
            rows = rows.unionByName(rest.select(*table.names))
        new = self._store.write(rows.repartition(1), table, self._stamp)
        self._tables[table.name] = [*(file for file in before if file.day not in days), *new]

    def _together(self, works: Sequence[Callable[[], None]]) -> None:
        """Do what does not depend on each other at once: most of a small job is planning, and that
        leaves cores idle."""
        with ThreadPoolExecutor(THREADS) as threads:
            for done in [threads.submit(work) for work in works]:
                done.result()

    def _query(self, name: str, text: str) -> None:
        self._spark.sql(text).createOrReplaceTempView(name)

    # Files

    def _view(self, name: str, table: Table, files: Sequence[File]) -> None:
        self._store.read(table, files).createOrReplaceTempView(name)

    def _open(self, table: Table) -> list[File]:
        return [file for file in self._before.files(table.name) if file.kind == OPEN]

    def _final(self, table: Table) -> list[File]:
        return [file for file in self._before.files(table.name) if file.kind != OPEN]


def day_of(ms: int) -> str:
    """The day of a moment, as files are named by it."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d")
