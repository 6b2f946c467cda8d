"""Operations on tables other than taking in events; each is a batch of its own."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from rollq.base.errors import ErrorCode, LocalError
from rollq.spark.pipeline import forgetting
from rollq.spark.pipeline.batch import OnStage, PipelineBatch
from rollq.spark.pipeline.catalog import BRONZE, TABLES, TableSpec
from rollq.spark.pipeline.checks import FAILED, CheckResult
from rollq.spark.pipeline.day import DayBatch, expect_day
from rollq.spark.pipeline.dialect import SPARK
from rollq.spark.pipeline.forgetting import Selection
from rollq.spark.pipeline.formats import storage_of
from rollq.spark.pipeline.manifest import TableManifest
from rollq.spark.pipeline.settings import pipeline_settings
from rollq.spark.pipeline.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class ForgetPreview:
    """What `forget` would remove."""

    events: int
    jobs: int  # and arrays
    staying: int  # selected jobs and arrays that are kept because they are open


@dataclass(frozen=True, slots=True)
class ForgetResult:
    """What was removed."""

    manifest: TableManifest
    rows_before: Mapping[str, int]  # by table
    rows_after: Mapping[str, int]
    failed: Sequence[CheckResult]


def compact(
    spark: SparkSession, tables: str | Path, form: str = ""
) -> tuple[TableManifest, TableManifest]:
    """Merge small files, and remove superseded data.

    Returns:
        The manifests before and after, which may be equal.

    Raises:
        LocalError: there are no tables here.
        DiskError: a pipeline is running.
    """
    storage = storage_of(spark, tables, form)
    storage.expect()
    with storage.writing(), pipeline_settings(spark):
        before = after = storage.expect()
        batch = storage.batch(before, stamp_of(before))
        try:
            if batch.compact():
                now_ms = int(time.time() * 1000)
                after = batch.commit(
                    msgspec.structs.replace(before, number=before.number + 1, made_ms=now_ms)
                )
        finally:
            batch.end()
        storage.sweep()
    return before, after


def rebuild(
    spark: SparkSession,
    tables: str | Path,
    form: str = "",
    told: OnStage = lambda stage: None,
    day: date | None = None,
) -> tuple[TableManifest, list[CheckResult]]:
    """Rebuild all tables, or one day of them, from the events, which are not changed. The new
    tables become visible at once, when all are complete.

    Args:
        spark: a session that supports the format.
        tables: see `storage_of`; `form` too.
        told: called with the current stage.
        day: the day in UTC; see `DayBatch`. None: all days.

    Returns:
        The manifest of the new tables, and the failed checks.

    Raises:
        LocalError: there are no tables here, or they have nothing of that day.
        DiskError: a pipeline is running.
    """
    storage = storage_of(spark, tables, form)
    storage.expect()
    with storage.writing(), pipeline_settings(spark):
        before = storage.expect()
        if day is not None:
            expect_day(before, day)
        batch = storage.batch(before, stamp_of(before))
        try:
            made: PipelineBatch | DayBatch
            if day is None:
                made = PipelineBatch(spark, batch, before, told)
            else:
                made = DayBatch(spark, batch, before, day, told)
            after = batch.commit(made.remake())
        finally:
            batch.end()
        storage.sweep()
    return after, [one for one in made.checked if one.outcome == FAILED]


def preview(
    spark: SparkSession, tables: str | Path, chosen: Selection, form: str = ""
) -> ForgetPreview:
    """Count what `forget` would remove.

    Raises:
        LocalError: there are no tables here, or they have no such group.
    """
    storage = storage_of(spark, tables, form)
    manifest = _expect(storage, chosen)
    with pipeline_settings(spark):
        _judge(spark, chosen, lambda table: storage.read(manifest, table))
        [row] = spark.sql(forgetting.summary(SPARK)).collect()
    return ForgetPreview(*row)


def forget(
    spark: SparkSession,
    tables: str | Path,
    chosen: Selection,
    form: str = "",
    told: OnStage = lambda stage: None,
) -> ForgetResult:
    """Delete events, and rebuild all tables from the rest. The new tables become visible at once,
    when all are complete; then the old files are deleted immediately, even if readers still use
    them. The offsets of groups are kept, so that deleted events are not read again.

    Args:
        spark: a session that supports the format.
        tables: see `storage_of`; `form` too.
        chosen: the selection; open jobs are kept, see `forgetting`.
        told: called with the current stage.

    Raises:
        LocalError: there are no tables here, or they have no such group.
        DiskError: a pipeline is running.
    """
    storage = storage_of(spark, tables, form)
    _expect(storage, chosen)
    with storage.writing(), pipeline_settings(spark):
        before = after = _expect(storage, chosen)
        rows_before = _rows(storage, before)
        failed: list[CheckResult] = []
        batch = storage.batch(before, stamp_of(before))
        try:
            judged = _judge(spark, chosen, batch.found)
            if not judged.where("goes").isEmpty():
                batch.replace(BRONZE, judged.where("NOT goes").select(*BRONZE.names))
                made = PipelineBatch(spark, batch, before, told)
                after = batch.commit(_without_beginning(made.remake(), chosen))
                failed = [one for one in made.checked if one.outcome == FAILED]
        finally:
            batch.end()
        rows_after = _rows(storage, after)
        storage.prune()  # also after an earlier call that was killed before this
    return ForgetResult(after, rows_before, rows_after, failed)


def stamp_of(before: TableManifest) -> str:
    """A unique name for the batch after this one."""
    return f"{before.number + 1:010d}-{secrets.token_hex(4)}"


def _expect(storage: Storage, chosen: Selection) -> TableManifest:
    manifest = storage.expect()
    if chosen.group and chosen.group not in manifest.marks:
        known = ", ".join(manifest.marks)
        raise LocalError(
            ErrorCode.BAD_OPTIONS, f"the tables have no group {chosen.group!r}", f"use {known}"
        )
    return manifest


def _judge(
    spark: SparkSession, chosen: Selection, read: Callable[[TableSpec], DataFrame]
) -> DataFrame:
    """All events with the decision for each, registered as the view `judged`."""
    for name, table in forgetting.VIEWS.items():
        read(table).createOrReplaceTempView(name)
    firsts = {}
    if chosen.before_ms is not None:
        found = spark.sql(forgetting.first_indexes(SPARK, chosen.before_ms)).collect()
        firsts = {str(row[0]): int(row[1]) for row in found}
    judged = spark.sql(forgetting.judged_events(SPARK, chosen, firsts))
    judged.createOrReplaceTempView("judged")
    return judged


def _without_beginning(manifest: TableManifest, chosen: Selection) -> TableManifest:
    """After its removal a group's history has no beginning."""
    if not chosen.is_whole_group:
        return manifest
    mark = msgspec.structs.replace(manifest.marks[chosen.group], is_whole=False)
    return msgspec.structs.replace(manifest, marks=manifest.marks | {chosen.group: mark})


def _rows(storage: Storage, manifest: TableManifest) -> dict[str, int]:
    public = [table for table in TABLES.values() if not table.is_internal]
    if manifest.versions:
        return {table.name: storage.read(manifest, table).count() for table in public}
    return {table.name: sum(one.rows for one in manifest.files(table.name)) for table in public}
