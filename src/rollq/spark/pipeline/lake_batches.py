"""The table `rollq_batches`: one row per batch, with the table versions that belong together.
Other versions are invisible."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from rollq.base.errors import DiskError, ErrorCode
from rollq.spark.pipeline.lake_formats import LakeFormat
from rollq.spark.pipeline.manifest import TableManifest, decoded

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

BATCHES: Final = "rollq_batches"
_COLUMNS: Final = (
    "number bigint, made_at timestamp, stamp string, events bigint, source string, "
    "versions map<string, string>, manifest string"
)
_NOT_FOUND: Final = ("TABLE_OR_VIEW_NOT_FOUND", "PATH_NOT_FOUND")


class BatchesTable:
    """The batches of one database or folder."""

    def __init__(self, spark: SparkSession, lake: LakeFormat) -> None:
        self._spark = spark
        self._lake = lake
        self._name = lake.name(BATCHES)

    def create(self) -> None:
        """Create the table, if there is none."""
        self._lake.create(BATCHES, _COLUMNS)

    def newest(self) -> TableManifest | None:
        """The last batch; None if there is none."""
        rows = self._rows("manifest", "ORDER BY number DESC LIMIT 1")
        return decoded(rows[0][0].encode(), self._name) if rows else None

    def add(self, manifest: TableManifest, stamp: str) -> None:
        """Commit a batch.

        Raises:
            DiskError: DISK_BUSY; there is a batch with its number.
        """
        row = (manifest.number, manifest.made_ms, stamp, manifest.events, manifest.source)
        text = msgspec.json.encode(manifest).decode()
        kinds = _COLUMNS.replace("made_at timestamp", "made_ms bigint")
        rows = self._spark.createDataFrame([(*row, manifest.versions, text)], kinds)
        rows.createOrReplaceTempView("rollq_new_batch")
        self._spark.sql(f"""
            MERGE INTO {self._name} t USING rollq_new_batch s ON t.number = s.number
            WHEN NOT MATCHED THEN INSERT
                (number, made_at, stamp, events, source, versions, manifest)
                VALUES (s.number, timestamp_millis(s.made_ms), s.stamp, s.events, s.source,
                    s.versions, s.manifest)
        """).collect()
        if self._rows("stamp", f"WHERE number = {manifest.number}") != [(stamp,)]:
            raise conflict(self._name)

    def span(self) -> tuple[int, int]:
        """The oldest and the newest number."""
        [(first, last)] = self._rows("min(number), max(number)") or [(None, None)]
        return first or 0, last or 0

    def forget(self, number: int) -> int:
        """Remove rows up to that number; returns when the oldest remaining batch was made."""
        self._spark.sql(f"DELETE FROM {self._name} WHERE number <= {number}").collect()
        [(made_ms,)] = self._rows("unix_millis(min(made_at))")
        return int(made_ms)

    def _rows(self, what: str, rest: str = "") -> list[tuple[Any, ...]]:
        """The rows of a query; empty if there is no such table."""
        from pyspark.errors import AnalysisException

        try:
            found = self._spark.sql(f"SELECT {what} FROM {self._name} {rest}").collect()
        except AnalysisException as error:
            if any(word in str(error) for word in _NOT_FOUND):
                return []
            raise
        return [tuple(row) for row in found]


def conflict(place: str) -> DiskError:
    """The error of a writer that finds the commit of another."""
    return DiskError(
        ErrorCode.DISK_BUSY,
        f"another pipeline has written to {place}",
        "let one of them write; what both left half done is undone when it runs again",
    )
