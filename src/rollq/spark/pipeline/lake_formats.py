"""The interface of a table format with versions, and its implementations for Iceberg and Delta.

A version has a number assigned by the format; the table can be read at it, or restored to it, until
it expires.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from rollq.spark.pipeline.settings import changed
from rollq.spark.pipeline.storage import TableOutput

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession

STAMP: Final = "rollq-stamp"  # commit property that identifies the batch
HOUR_MS: Final = 3_600_000
_DELTA: Final = "spark.databricks.delta"
USUAL_COMMITS: Final = 8  # of one batch to a table, except in rare cases


class LakeCommit(NamedTuple):
    """A commit to a table."""

    stamp: str  # of its batch; "" without one
    written: TableOutput


class LakeFormat(Protocol):
    """One format, for the tables in one place."""

    form: str
    properties: Mapping[str, str]  # of new tables

    def name(self, table: str) -> str:
        """The name of a table in SQL."""

    def create(self, table: str, columns: str, split: Sequence[str] = ()) -> None:
        """Create a table, if there is none."""

    def settings(self, stamp: str) -> Mapping[str, str]:
        """Spark settings that attach this stamp to commits."""

    def version(self, table: str) -> str:
        """The newest version; "" if the table was never written."""

    def committed(self, table: str, since: str) -> tuple[str, list[LakeCommit]]:
        """The newest version, and all commits after an older version."""

    def restore(self, table: str, version: str) -> None:
        """Restore the table to a version."""

    def compact(self, table: str) -> None:
        """Merge small files."""

    def expire(self, table: str, before_ms: int, kept: int) -> None:
        """Delete data that only versions before this time need, except for the last `kept`."""


class Iceberg:
    """Tables of Iceberg: in a catalog of the session, or in a folder."""

    form = "iceberg"
    properties: Mapping[str, str] = {
        "format-version": "2",
        "write.metadata.delete-after-commit.enabled": "true",
        "write.metadata.previous-versions-max": "50",
    }

    def __init__(self, spark: SparkSession, tables: str) -> None:
        self._spark = spark
        if is_in_catalog(spark, tables):
            self._catalog, _, namespace = tables.partition(".")
            self._prefix = f"{namespace}."
            spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {tables}")
        else:
            # One catalog per folder, so that a session can use several.
            self._catalog = f"rollq_{hashlib.sha256(tables.encode()).hexdigest()[:8]}"
            self._prefix = ""
            key = f"spark.sql.catalog.{self._catalog}"
            spark.conf.set(f"{key}.type", "hadoop")
            spark.conf.set(f"{key}.warehouse", tables)
            spark.conf.set(key, "org.apache.iceberg.spark.SparkCatalog")
        # Else a session that stays would not see what other processes commit.
        caches = f"spark.sql.catalog.{self._catalog}.cache-enabled"
        spark.conf.set(caches, spark.conf.get(caches, "") or "false")

    def name(self, table: str) -> str:
        """See `LakeFormat`, also for the methods below."""
        return f"{self._catalog}.{self._prefix}{table}"

    def create(self, table: str, columns: str, split: Sequence[str] = ()) -> None:
        self._spark.sql(_creation(self, table, columns, split))

    def settings(self, stamp: str) -> Mapping[str, str]:
        return {f"spark.sql.iceberg.snapshot-property.{STAMP}": stamp}

    def version(self, table: str) -> str:
        rows = self._spark.sql(
            f"SELECT snapshot_id FROM {self.name(table)}.refs WHERE name = 'main'"
        ).collect()
        return str(rows[0][0]) if rows else ""

    def committed(self, table: str, since: str) -> tuple[str, list[LakeCommit]]:
        rows = self._spark.sql(
            f"SELECT snapshot_id, parent_id, summary FROM {self.name(table)}.snapshots"
        ).collect()
        known = {str(row[0]): row for row in rows}
        newest = at = self.version(table)
        commits = []
        while at and at != since:
            row = known.get(at)
            commits.append(_iceberg_commit(row["summary"] if row else {}))
            at = str(row[1] or "") if row else since
        return newest, commits

    def restore(self, table: str, version: str) -> None:
        if version:
            self._call("set_current_snapshot", table, f"snapshot_id => {int(version)}")
        else:
            _empty(self._spark, self, table)

    def compact(self, table: str) -> None:
        self._call("rewrite_data_files", table, "options => map('min-input-files', '2')")

    def expire(self, table: str, before_ms: int, kept: int) -> None:
        moment = datetime.fromtimestamp(before_ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
        older = f"older_than => TIMESTAMP '{moment}', retain_last => {kept}"
        self._call("expire_snapshots", table, older)

    def _call(self, procedure: str, table: str, rest: str) -> None:
        self._spark.sql(
            f"CALL {self._catalog}.system.{procedure}(table => '{self._prefix}{table}', {rest})"
        ).collect()


class Delta:
    """Tables of Delta: in a catalog of the session, or each in a subfolder."""

    form = "delta"
    # Batches that are among the last remain readable for so long; a VACUUM by others does not
    # remove them earlier.
    properties: Mapping[str, str] = {
        "delta.logRetentionDuration": "interval 90 days",
        "delta.deletedFileRetentionDuration": "interval 90 days",
    }

    def __init__(self, spark: SparkSession, tables: str) -> None:
        self._spark = spark
        self._tables = tables
        self._is_in_catalog = is_in_catalog(spark, tables)
        if self._is_in_catalog:
            spark.sql(f"CREATE NAMESPACE IF NOT EXISTS {tables}")
        # The newest batch is read at its versions, however old they are.
        spark.conf.set(
            f"{_DELTA}.vacuum.enforceTimeTravelWithinDeletedFileRetentionDuration", "false"
        )

    def name(self, table: str) -> str:
        """See `LakeFormat`, also for the methods below."""
        if self._is_in_catalog:
            return f"{self._tables}.{table}"
        return f"delta.`{self._tables.rstrip('/')}/{table}`"

    def create(self, table: str, columns: str, split: Sequence[str] = ()) -> None:
        self._spark.sql(_creation(self, table, columns, split))

    def settings(self, stamp: str) -> Mapping[str, str]:
        return {
            f"{_DELTA}.commitInfo.userMetadata": stamp,
            # Rows that replace open rows need not be open.
            f"{_DELTA}.replaceWhere.constraintCheck.enabled": "false",
        }

    def version(self, table: str) -> str:
        [newest] = self._history(table, 1)
        return str(newest["version"] or "")  # version 0 is the creation

    def committed(self, table: str, since: str) -> tuple[str, list[LakeCommit]]:
        first = int(since or 0) + 1
        rows = self._history(table, USUAL_COMMITS)
        newest = rows[0]["version"]
        if rows[-1]["version"] > first:
            rows = self._history(table, newest - first + 1)
        return str(newest or ""), [_delta_commit(row) for row in rows if row["version"] >= first]

    def restore(self, table: str, version: str) -> None:
        if version:
            self._spark.sql(
                f"RESTORE TABLE {self.name(table)} TO VERSION AS OF {int(version)}"
            ).collect()
        else:
            _empty(self._spark, self, table)

    def compact(self, table: str) -> None:
        self._spark.sql(f"OPTIMIZE {self.name(table)}").collect()

    def expire(self, table: str, before_ms: int, kept: int) -> None:
        """Delta retains versions by age in whole hours, and always the newest."""
        age_ms = max(int(time.time() * 1000) - before_ms, 0)
        quietly = {
            f"{_DELTA}.retentionDurationCheck.enabled": "false",  # there is one writer
            f"{_DELTA}.vacuum.logging.enabled": "false",  # it would commit new versions
            "spark.sql.sources.parallelPartitionDiscovery.parallelism": "8",
        }
        with changed(self._spark, quietly):
            self._spark.sql(
                f"VACUUM {self.name(table)} RETAIN {-(-age_ms // HOUR_MS)} HOURS"
            ).collect()

    def _history(self, table: str, limit: int) -> list[Row]:
        """The last commits, newest first."""
        return self._spark.sql(f"DESCRIBE HISTORY {self.name(table)} LIMIT {limit}").collect()


def _iceberg_commit(summary: Mapping[str, str]) -> LakeCommit:
    """Counts of nothing are left out of a summary."""
    rows, size = summary.get("added-records", 0), summary.get("added-files-size", 0)
    return LakeCommit(summary.get(STAMP, ""), TableOutput(int(rows), int(size)))


def _delta_commit(row: Row) -> LakeCommit:
    """Sizes have another name if the operation was a MERGE. A setting of Delta leaves all out."""
    counts = row["operationMetrics"] or {}
    rows = counts.get("numOutputRows")
    size = counts.get("numOutputBytes", counts.get("numTargetBytesAdded"))
    written = TableOutput(rows and int(rows), size and int(size))
    return LakeCommit(row["userMetadata"] or "", written)


def _empty(spark: SparkSession, lake: LakeFormat, table: str) -> None:
    spark.sql(f"DELETE FROM {lake.name(table)}").collect()


def _creation(lake: LakeFormat, table: str, columns: str, split: Sequence[str]) -> str:
    parts = f"PARTITIONED BY ({', '.join(split)})" if split else ""
    properties = ", ".join(f"'{key}' = '{one}'" for key, one in lake.properties.items())
    return (
        f"CREATE TABLE IF NOT EXISTS {lake.name(table)} ({columns}) USING {lake.form} {parts} "
        f"TBLPROPERTIES ({properties})"
    )


def is_in_catalog(spark: SparkSession, tables: str) -> bool:
    """Whether it is a database of a catalog of the session, such as `lake.rollq`; else it is a
    folder or URL."""
    catalog, _, namespace = tables.partition(".")
    if not (catalog and namespace) or "/" in tables:
        return False
    return catalog == "spark_catalog" or bool(spark.conf.get(f"spark.sql.catalog.{catalog}", ""))
