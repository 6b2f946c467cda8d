"""One batch: new events in, the next manifest out. Nothing of it is visible before that.

Everything follows from the manifest before and the new events alone, so that a batch that was
broken off is simply made again. Only what new events touch is read and written: open jobs in files
that hold some of theirs, hours in which they happened, the days since the last of them.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from rollq.spark.pipeline import bronze, crowds, gold, levels, silver
from rollq.spark.pipeline.bronze import Reading, Written
from rollq.spark.pipeline.catalog import (
    ARRAYS,
    ATTEMPTS,
    AUDIT,
    BRONZE,
    BUSY,
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
from rollq.spark.pipeline.settings import SMALL_ROWS, note_work, small_work
from rollq.spark.pipeline.tables import HOUR_MS, OPEN, TableStore, day_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SMALL_FILE_ROWS: Final = 100_000  # of open jobs: up to this size written anew in every batch
SMALL_HOURS_ROWS: Final = 1_000_000
ROWS_PER_INDEX: Final = 100  # before anything is known
THREADS: Final = 3

Told = Callable[[str], None]


class PipelineBatch:
    """The making of one manifest."""

    def __init__(
        self, spark: SparkSession, store: TableStore, before: Manifest, stamp: str, told: Told
    ) -> None:
        self._spark = spark
        self._store = store
        self._before = before
        self._stamp = stamp
        self._told = told
        self._tables = dict(before.tables)
        self._profile = Profile({}, [], {}, {})
        self._is_small = False
        self._kept_jobs: list[File] = []
        self._new_steps: list[File] = []
        self._new_busy: list[File] = []

    def make(self, reading: Reading) -> Manifest | None:
        """The manifest after these events; None if all of them are in the tables already."""
        self._told("bronze")
        known = {group: mark.index for group, mark in self._before.marks.items()}
        is_small = reading.rows_about(self._rows_per_index()) <= SMALL_ROWS / 2
        written = bronze.write(
            *(self._spark, reading, self._store.out, self._stamp, known), is_small=is_small
        )
        return self._make_of(written) if written.files else None

    def remake(self) -> Manifest:
        """The manifest after all events that are in the tables, of which an older version of this
        program has made the rest."""
        files = self._before.files(BRONZE.name)
        nothing = Manifest(self._before.number, SCHEMA_VERSION, self._before.source, 0, 0, {}, {})
        self._before, self._tables = nothing, {}
        return self._make_of(Written(files, bronze.hours_of(self._store.read(BRONZE, files))))

    def _make_of(self, written: Written) -> Manifest:
        self._tables[BRONZE.name] = [*self._before.files(BRONZE.name), *written.files]
        self._profile = profile_of(written.hours, self._before.marks)
        count = sum(file.rows for file in written.files)
        self._is_small = count <= SMALL_ROWS
        with small_work(self._spark, self._is_small):
            self._view("news", BRONZE, written.files)
            self._told("silver")
            self._make_silver()
        self._is_small = self._is_small and self._rows_of_hours() <= SMALL_HOURS_ROWS
        with small_work(self._spark, self._is_small):
            self._told("gold")
            self._make_gold()
        note_work(self._spark, count)
        return Manifest(
            number=self._before.number + 1,
            schema_version=SCHEMA_VERSION,
            source=self._before.source,
            made_ms=int(time.time() * 1000),
            events=self._before.events + count,
            marks=self._profile.marks,
            tables=self._tables,
        )

    def _rows_per_index(self) -> float:
        """How many events an index has had so far."""
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
        self._together(work)

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

    def _make_audit(self) -> None:
        acts = self._single(self._spark.sql(crowds.acts(SPARK)))
        new = self._store.write(acts, AUDIT, self._stamp)
        self._tables[AUDIT.name] = [*self._before.files(AUDIT.name), *new]

    def _make_moves(self) -> None:
        touched = self._touched_jobs()
        self._kept_jobs = [file for file in self._open(JOBS) if file not in touched]
        if touched:
            self._view("open_jobs", JOBS, touched)
        query = silver.moves(SPARK, has_arrays=self._profile.has_arrays, has_open=bool(touched))
        moves = self._spark.sql(query)
        staged = (
            self._store.keep(moves)
            if self._is_small
            else self._store.stage(moves, "moves", self._stamp)
        )
        staged.createOrReplaceTempView("moves")

    def _touched_jobs(self) -> list[File]:
        """The files of open jobs that must be written anew: all small ones, and of the large ones
        those that hold a job with new events."""
        files = self._open(JOBS)
        large = [file for file in files if file.rows > SMALL_FILE_ROWS]
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
            if file.rows <= SMALL_FILE_ROWS or any(end.endswith(file.path) for end in ends)
        ]

    def _make_attempts(self) -> None:
        """Those that ended, and those that run: the latter are few, and written again each time."""
        query = f"{silver.ended_attempts(SPARK)} UNION ALL {silver.begun_attempts(SPARK)}"
        if before := self._open(ATTEMPTS):
            self._view("running_before", ATTEMPTS, before)
            query += f" UNION ALL {silver.running_attempts(SPARK)}"
        new = self._add(ATTEMPTS, f"{query} SORT BY ended_at", "ended_at IS NULL")
        ended = [file for file in new if file.kind != OPEN]
        if ended:  # while these ran, their hours counted them otherwise, or not at all
            self._profile.reach_back(min(file.first_ms for file in ended))
        self._view("ended", ATTEMPTS, ended)
        self._new_busy = self._store.write(
            self._single(self._spark.sql(gold.busy(SPARK))), BUSY, self._stamp
        )
        self._tables[BUSY.name] = [*self._before.files(BUSY.name), *self._new_busy]

    def _make_jobs(self) -> None:
        # In the order in which they came: old ones end together, so that few files change.
        rows = self._spark.sql(silver.jobs(SPARK)).sortWithinPartitions("submitted_at")
        new = self._store.write(rows, JOBS, self._stamp, open_if="is_open")
        self._tables[JOBS.name] = [*self._final(JOBS), *self._kept_jobs, *new]

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
        self._query("passed", self._profile.ran_sql())
        hours = [ms for _, ms in self._profile.hours]
        self._view("attempts", ATTEMPTS, *self._attempts_since(min(hours)))
        self._view("open_attempts", ATTEMPTS, self._open_now(ATTEMPTS))
        first_day = day_of(self._profile.ran_first_ms)
        self._view("busy", BUSY, [f for f in self._tables[BUSY.name] if f.day >= first_day])
        self._view("events", BRONZE, *self._events_within(min(hours), max(hours) + HOUR_MS))
        self._view("sessions", WORKERS, self._tables.get(WORKERS.name, []))
        touched = {day_of(ms) for ms in hours}, self._profile.touched_if()
        ran = {day_of(ms) for ms in self._profile.ran_days()}, self._profile.ran_if()
        self._together(
            [
                lambda: self._make_hourly(*touched),
                self._make_execs,
                lambda: self._renew(UTILISATION, gold.utilisation(SPARK), *ran),
                self._make_depth,
                lambda: self._renew(DEAD, gold.dead(SPARK), *touched),
            ]
        )

    def _make_hourly(self, days: set[str], is_anew: str) -> None:
        """The hours of events anew; what ran on from earlier hours is added to these."""
        if not self._profile.is_within(self._new_busy):
            self._view("new_busy", BUSY, self._new_busy)
            late = self._spark.sql(gold.late_hourly(SPARK))
            days = days | {file.day for file in self._new_busy}
        else:
            late = None
        self._renew(HOURLY, gold.hourly(SPARK), days, is_anew, late)

    def _rows_of_hours(self) -> float:
        """About how many rows are read again for the hours that were touched: new ones may be few,
        and those that they came to many."""
        first_ms, last_ms = self._profile.first_ms, max(ms for _, ms in self._profile.hours)
        return sum(
            file.rows * _share(file, first_ms, last_ms + HOUR_MS)
            for table in (ATTEMPTS, BRONZE)
            for file in self._tables[table.name]
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
        depth = self._spark.sql(levels.depth(SPARK))
        new = self._store.write(self._single(depth), DEPTH, self._stamp, "minute IS NULL")
        kept = [file for file in before if file.day < day]
        self._tables[DEPTH.name] = [*kept, *(file for file in new if file.kind != OPEN)]
        self._tables[LEVELS.name] = [file for file in new if file.kind == OPEN]

    def _make_execs(self) -> None:
        counts = self._spark.sql(levels.counts(SPARK))
        new = self._store.write(self._single(counts), COUNTS, self._stamp)
        self._tables[COUNTS.name] = [*self._before.files(COUNTS.name), *new]
        self._view("counts", COUNTS, self._tables[COUNTS.name])
        execs = self._spark.sql(levels.execs(SPARK))
        self._tables[EXECS.name] = self._store.write(self._single(execs), EXECS, self._stamp)

    def _attempts_since(self, ms: int) -> tuple[list[File], str]:
        """Files of attempts that ran at that moment or later, and what they must fulfil."""
        files = self._tables[ATTEMPTS.name]
        since = SPARK.moment(str(ms))
        return [file for file in files if file.kind == OPEN or file.last_ms >= ms], (
            f"ended_at >= {since} OR assigned_at >= {since} OR ended_at IS NULL"
        )

    def _events_within(self, first_ms: int, end_ms: int) -> tuple[list[File], str]:
        """Files of events from one moment to another, and what they must fulfil."""
        files = self._tables[BRONZE.name]
        first, end = SPARK.moment(str(first_ms)), SPARK.moment(str(end_ms))
        return [file for file in files if file.last_ms >= first_ms and file.first_ms < end_ms], (
            f"_ts >= {first} AND _ts < {end}"
        )

    def _renew(
        self,
        table: Table,
        query: str,
        days: set[str],
        is_anew: str,
        late: DataFrame | None = None,
    ) -> None:
        """Replace some hours of a table; the other hours of their days are written again, with
        what came late added to them."""
        rows = self._spark.sql(query).select(*table.names)
        before = self._before.files(table.name)
        rest = None if late is None else late.limit(0)
        if same_days := [file for file in before if file.day in days]:
            rest = self._store.read(table, same_days).where(f"NOT ({is_anew})")
        if rest is not None and late is not None:
            parts = rest.select(*table.names).unionByName(late.select(*table.names))
            parts.createOrReplaceTempView("hours_in_parts")
            rest = self._spark.sql(gold.added_hourly(SPARK))
        if rest is not None:
            rows = rows.unionByName(rest.select(*table.names))
        new = self._store.write(self._single(rows), table, self._stamp)
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

    def _view(self, name: str, table: Table, files: Sequence[File], only: str = "true") -> None:
        rows = self._store.read(table, files).where(only)
        self._narrow(rows).createOrReplaceTempView(name)

    def _narrow(self, rows: DataFrame) -> DataFrame:
        """What a small batch reads is one partition, so that nothing is exchanged between tasks."""
        return rows.coalesce(1) if self._is_small else rows

    def _single(self, rows: DataFrame) -> DataFrame:
        """Few rows, as one file."""
        return rows.coalesce(1) if self._is_small else rows.repartition(1)

    def _open(self, table: Table) -> list[File]:
        return [file for file in self._before.files(table.name) if file.kind == OPEN]

    def _open_now(self, table: Table) -> list[File]:
        return [file for file in self._tables[table.name] if file.kind == OPEN]

    def _final(self, table: Table) -> list[File]:
        return [file for file in self._before.files(table.name) if file.kind != OPEN]


def _share(file: File, first_ms: int, end_ms: int) -> float:
    """Which part of a file is of a span of time, if its rows are spread evenly."""
    within = min(file.last_ms, end_ms) - max(file.first_ms, first_ms)
    return max(within, 0) / max(file.last_ms - file.first_ms, within, 1)
