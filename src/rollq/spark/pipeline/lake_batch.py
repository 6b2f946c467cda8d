"""A batch for tables of Iceberg or Delta: one commit per table, and a last one in the table of
batches, which makes them visible."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Mapping, Sequence
from functools import reduce
from typing import TYPE_CHECKING, Final

import msgspec

from rollq.spark.pipeline import bronze
from rollq.spark.pipeline.bronze import Reading
from rollq.spark.pipeline.catalog import BRONZE, DEPTH, JOBS, LEVELS, TABLES, TableColumn, TableSpec
from rollq.spark.pipeline.compact import ADDED_UP
from rollq.spark.pipeline.lake_batches import BatchesTable, conflict
from rollq.spark.pipeline.lake_formats import LakeCommit, LakeFormat
from rollq.spark.pipeline.manifest import TableManifest
from rollq.spark.pipeline.settings import changed
from rollq.spark.pipeline.storage import ALL, OPEN_ONLY, NewEvents, Only, TableOutput

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BATCH: Final = "_batch"
DAY: Final = "_day"
OPEN: Final = "_open"
UPKEEP_BATCHES: Final = 100  # interval of compaction


class LakeBatch:
    """Writes table versions that no row of `rollq_batches` lists yet."""

    def __init__(
        self,
        spark: SparkSession,
        lake: LakeFormat,
        batches: BatchesTable,
        *,
        found: TableManifest,
        heads: Mapping[str, str],
        stamp: str,
    ) -> None:
        self.stamp = stamp
        self.is_committed = False
        self.heads = dict(heads)  # the latest versions that are known to this batch
        self._spark = spark
        self._lake = lake
        self._batches = batches
        self._number = found.number + 1
        self._versions = dict(found.versions or {})
        self._is_anew = False
        self._written: set[TableSpec] = set()
        self._commits: dict[str, list[LakeCommit]] = {}  # by table, of this batch
        self._staged: list[DataFrame] = []
        self._settings = contextlib.ExitStack()
        self._settings.enter_context(changed(spark, lake.settings(stamp)))

    def write_events(
        self, reading: Reading, known: Mapping[str, int], *, is_small: bool
    ) -> NewEvents:
        """See `TableBatch`, also for the methods below."""
        if not reading.slices:
            return NewEvents(0, [])
        self.append(BRONZE, bronze.events(self._spark, reading, known))
        return self._events()

    def begin_rebuild(self) -> NewEvents:
        self._is_anew = True
        self._versions = {BRONZE.name: self._versions[BRONZE.name]}
        return self._events()

    def found(self, table: TableSpec, only: Only = ALL) -> DataFrame:
        version = self._versions.get(table.name, "")
        return at_version(self._spark, self._lake, table, version, _condition(table, only))

    def now(self, table: TableSpec, only: Only = ALL) -> DataFrame:
        if self._is_anew and table not in self._written and table is not BRONZE:
            return self.found(table)
        rows = self._spark.table(self._lake.name(table.name))
        return rows.where(_condition(table, only)).select(*table.names)

    def new(self, table: TableSpec, only: Only = ALL) -> DataFrame:
        if self._is_anew:
            return self.now(table, only)
        rows = self._spark.table(self._lake.name(table.name)).where(f"{BATCH} = {self._number}")
        return rows.where(_condition(table, only)).select(*table.names)

    def has(self, table: TableSpec, only: Only = ALL) -> bool:
        return bool(self._versions.get(table.name, ""))

    def take_open_jobs(self) -> DataFrame | None:
        if not self.has(JOBS):
            return None
        keys = self._spark.sql("SELECT DISTINCT _group AS `group`, job_id FROM news")
        taken = self.found(JOBS, OPEN_ONLY).join(keys, ["group", "job_id"], "left_semi")
        return taken.select(*JOBS.names)

    def replace_open_jobs(self, rows: DataFrame) -> None:
        """Every job that was taken has a row among these, which identifies the row to delete."""
        if not self.has(JOBS):
            self._write(JOBS, rows, open_if="is_open")
            return
        new = self._keep(self._shaped(JOBS, rows, "is_open"))
        names = [f"`{name}`" for name in new.columns]
        new.createOrReplaceTempView("rollq_new_jobs")
        self._written.add(JOBS)
        self._spark.sql(f"""
            MERGE INTO {self._lake.name(JOBS.name)} t
            USING (
                SELECT *, false AS is_gone FROM rollq_new_jobs
                UNION ALL
                SELECT {_null_but(new.columns, ("group", "job_id"))}, true
                FROM (SELECT DISTINCT `group`, job_id FROM rollq_new_jobs)
            ) s
            ON s.is_gone AND t.{OPEN} AND t.`group` = s.`group` AND t.job_id = s.job_id
            WHEN MATCHED THEN DELETE
            WHEN NOT MATCHED AND NOT s.is_gone
                THEN INSERT ({", ".join(names)}) VALUES ({", ".join(f"s.{n}" for n in names)})
        """).collect()

    def append(self, table: TableSpec, rows: DataFrame) -> None:
        self._write(table, rows)

    def replace_open(self, table: TableSpec, rows: DataFrame, open_if: str) -> None:
        self._write(table, rows, f"{OPEN} = true", open_if=open_if)

    def replace_days(self, table: TableSpec, rows: DataFrame, days: Collection[str]) -> None:
        self._write(table, rows, _of_days(days))

    def replace_depth(self, rows: DataFrame, first_day: str) -> None:
        kept = self._keep(rows)
        self._write(DEPTH, kept.where("minute IS NOT NULL"), f"{DAY} >= DATE '{first_day}'")
        self._write(LEVELS, kept.where("minute IS NULL"), "true")

    def replace(self, table: TableSpec, rows: DataFrame) -> None:
        self._write(table, rows, "true")

    def new_spans(self, table: TableSpec, only: Only = ALL) -> Sequence[tuple[int, int]]:
        first = f"least({table.since or table.by}, {table.by})"
        last = f"greatest({table.since or table.by}, {table.by})"
        spans = self.new(table, only).selectExpr(
            f"unix_millis(min({first}))", f"unix_millis(max({last}))"
        )
        [row] = spans.collect()
        return [(row[0], row[1])] if row[0] is not None else []

    def rows_about(self, table: TableSpec, first_ms: int, end_ms: int) -> float:
        return self.now(table, Only(first_ms=first_ms, end_ms=end_ms)).count()

    def stage(self, rows: DataFrame, name: str, *, is_small: bool) -> DataFrame:
        return self._keep(rows)

    def commit(self, manifest: TableManifest) -> TableManifest:
        if manifest.number % UPKEEP_BATCHES == 0:
            self.compact()
        made = msgspec.structs.replace(manifest, versions=self._committed())
        self._batches.add(made, self.stamp)
        self.is_committed = True
        return made

    def outputs(self) -> Mapping[str, TableOutput]:
        sums = {
            name: reduce(TableOutput.plus, (one.written for one in commits), TableOutput(0, 0))
            for name, commits in self._commits.items()
        }
        return {name: output for name, output in sums.items() if output.rows != 0}

    def end(self) -> None:
        while self._staged:
            self._staged.pop().unpersist()
        self._settings.close()

    def compact(self) -> bool:
        """Rows that are sums over batches are added up, too."""
        for table, (name, query) in ADDED_UP.items():
            self.now(table).createOrReplaceTempView(name)
            self.replace(table, self._spark.sql(query))
        self._committed()
        for table in TABLES.values():
            self._lake.compact(table.name)
            self.heads[table.name] = self._lake.version(table.name)
            if self.heads[table.name]:
                self._versions[table.name] = self.heads[table.name]
        return True

    def _committed(self) -> dict[str, str]:
        """The versions of all tables after this batch.

        Raises:
            DiskError: DISK_BUSY; another process has written to one of them.
        """
        for table in TABLES.values():
            if self._is_anew and table not in self._written and table is not BRONZE:
                self._write(table, self.found(table), "true", open_if="false")
            if table in self._written:
                newest, commits = self._lake.committed(table.name, self.heads[table.name])
                if {one.stamp for one in commits} - {self.stamp}:
                    raise conflict(self._lake.name(table.name))
                self._commits[table.name] = commits
                self._versions[table.name] = self.heads[table.name] = newest
        self._written.clear()
        return self._versions

    def _events(self) -> NewEvents:
        rows = self.new(BRONZE)
        return NewEvents(rows.count(), bronze.hours_of(rows))

    def _write(
        self, table: TableSpec, rows: DataFrame, instead_of: str = "", open_if: str = ""
    ) -> None:
        """Add rows in one commit, in place of rows that meet a condition."""
        from pyspark.sql import functions as F  # noqa: N812 - its usual name

        writer = self._shaped(table, rows, open_if).writeTo(self._lake.name(table.name))
        self._written.add(table)
        if self._is_anew:
            writer.overwrite(F.lit(True))
        elif instead_of and self.has(table):
            writer.overwrite(F.expr(instead_of))
        else:
            writer.append()

    def _shaped(self, table: TableSpec, rows: DataFrame, open_if: str) -> DataFrame:
        """Rows with the technical columns of the table."""
        more = [f"{self._number}L AS {BATCH}"]
        if table.has_open:
            more.append(f"({open_if or 'false'}) AS {OPEN}")
        if table.by:
            more.append(
                f"CASE WHEN NOT ({open_if or 'false'}) THEN to_date({table.by}) END AS {DAY}"
            )
        return rows.selectExpr(*(f"`{name}`" for name in table.names), *more)

    def _keep(self, rows: DataFrame) -> DataFrame:
        kept = rows.persist()
        self._staged.append(kept)
        return kept


def at_version(
    spark: SparkSession, lake: LakeFormat, table: TableSpec, version: str, only: str = "true"
) -> DataFrame:
    """A table at a version; columns that it did not have then get their value for older rows."""
    if not version:
        return spark.createDataFrame([], table.ddl)
    rows = spark.sql(f"SELECT * FROM {lake.name(table.name)} VERSION AS OF {version}").where(only)
    known = set(rows.columns)
    return rows.selectExpr(*(_value(one, is_there=one.name in known) for one in table.columns))


def _value(column: TableColumn, *, is_there: bool) -> str:
    before = f"CAST({column.before} AS {column.type})"
    value = f"coalesce(`{column.name}`, {before})" if is_there else before
    return f"{value} AS `{column.name}`"


def _condition(table: TableSpec, only: Only) -> str:
    found = [only.moments(table)]
    if only.is_open is not None:
        found.append(f"{OPEN} = {str(only.is_open).lower()}" if table.has_open else "true")
    if only.days is not None:
        found.append(_of_days(only.days))
    if only.first_day:
        found.append(f"{DAY} >= DATE '{only.first_day}'")
    return " AND ".join(found)


def _of_days(days: Collection[str]) -> str:
    listed = ", ".join(f"DATE '{day}'" for day in sorted(days))
    return f"{DAY} IN ({listed})"


def columns_of(table: TableSpec) -> str:
    """The columns of a table as created, with the technical ones."""
    return ", ".join(
        (
            table.ddl,
            f"{BATCH} bigint",
            *((f"{OPEN} boolean",) if table.has_open else ()),
            *((f"{DAY} date",) if table.by else ()),
        )
    )


def split_of(table: TableSpec) -> list[str]:
    """The partition columns of a table."""
    return [*((OPEN,) if table.has_open else ()), *((DAY,) if table.by else ())]


def _null_but(columns: Sequence[str], keys: Collection[str]) -> str:
    return ", ".join(f"`{name}`" if name in keys else "NULL" for name in columns)
