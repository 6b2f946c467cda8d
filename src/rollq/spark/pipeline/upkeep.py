"""What is done to tables beside taking in events: a batch of its own, seen at once as any other."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from rollq.base.errors import ErrorCode, LocalError
from rollq.spark.pipeline import forgetting
from rollq.spark.pipeline.batch import PipelineBatch, Told
from rollq.spark.pipeline.catalog import BRONZE, TABLES, Table
from rollq.spark.pipeline.checks import FAILED, CheckResult
from rollq.spark.pipeline.dialect import SPARK
from rollq.spark.pipeline.forgetting import Chosen
from rollq.spark.pipeline.formats import storage_of
from rollq.spark.pipeline.manifest import Manifest
from rollq.spark.pipeline.settings import suited
from rollq.spark.pipeline.storage import Storage

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True, slots=True)
class Going:
    """What would go."""

    events: int
    jobs: int  # and arrays
    staying: int  # jobs and arrays that were chosen and stay, because they are not over


@dataclass(frozen=True, slots=True)
class Forgotten:
    """What went."""

    manifest: Manifest
    rows_before: Mapping[str, int]  # by table
    rows_after: Mapping[str, int]
    failed: Sequence[CheckResult]


def compact(spark: SparkSession, tables: str | Path, form: str = "") -> tuple[Manifest, Manifest]:
    """Make few large files of many small ones, and remove what no reader needs any more.

    Returns:
        The manifest before and the one after, which may be the same.

    Raises:
        LocalError: there are no tables here.
        DiskError: a pipeline is running.
    """
    storage = storage_of(spark, tables, form)
    storage.expect()
    with storage.writing(), suited(spark):
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
    spark: SparkSession, tables: str | Path, form: str = "", told: Told = lambda stage: None
) -> tuple[Manifest, list[CheckResult]]:
    """Make all tables anew from the events, which stay as they are. Readers see the old ones until
    all of the new ones are there.

    Args:
        spark: a session that has the format.
        tables: see `storage_of`; `form` too.
        told: called with what is being made.

    Returns:
        The manifest of the new tables, and the checks that failed.

    Raises:
        LocalError: there are no tables here.
        DiskError: a pipeline is running.
    """
    storage = storage_of(spark, tables, form)
    storage.expect()
    with storage.writing(), suited(spark):
        before = storage.expect()
        batch = storage.batch(before, stamp_of(before))
        try:
            made = PipelineBatch(spark, batch, before, told)
            after = batch.commit(made.remake())
        finally:
            batch.end()
        storage.sweep()
    return after, [one for one in made.checked if one.outcome == FAILED]


def what_goes(spark: SparkSession, tables: str | Path, chosen: Chosen, form: str = "") -> Going:
    """What `forget` would remove.

    Raises:
        LocalError: there are no tables here, or they have no such group.
    """
    storage = storage_of(spark, tables, form)
    manifest = _expect(storage, chosen)
    with suited(spark):
        _judge(spark, chosen, lambda table: storage.read(manifest, table))
        [row] = spark.sql(forgetting.summary(SPARK)).collect()
    return Going(*row)


def forget(
    spark: SparkSession,
    tables: str | Path,
    chosen: Chosen,
    form: str = "",
    told: Told = lambda stage: None,
) -> Forgotten:
    """Remove events, and make all tables anew from those that are left. Readers see the old ones
    until all of the new ones are there; then the old ones are removed from the disk at once,
    whoever still reads them. How far groups have been read stays, so nothing of it comes again.

    Args:
        spark: a session that has the format.
        tables: see `storage_of`; `form` too.
        chosen: what goes, but for jobs that are not over; see `forgetting`.
        told: called with what is being made.

    Raises:
        LocalError: there are no tables here, or they have no such group.
        DiskError: a pipeline is running.
    """
    storage = storage_of(spark, tables, form)
    _expect(storage, chosen)
    with storage.writing(), suited(spark):
        before = after = _expect(storage, chosen)
        rows_before = _rows(storage, before)
        failed: list[CheckResult] = []
        batch = storage.batch(before, stamp_of(before))
        try:
            judged = _judge(spark, chosen, batch.found)
            if not judged.where("goes").isEmpty():
                batch.replace(BRONZE, judged.where("NOT goes").select(*BRONZE.names))
                made = PipelineBatch(spark, batch, before, told)
                after = batch.commit(_unwhole(made.remake(), chosen))
                failed = [one for one in made.checked if one.outcome == FAILED]
        finally:
            batch.end()
        rows_after = _rows(storage, after)
        storage.prune()  # also what a call left that was killed before it came here
    return Forgotten(after, rows_before, rows_after, failed)


def stamp_of(before: Manifest) -> str:
    """A name for the batch after this one, which no other has."""
    return f"{before.number + 1:010d}-{secrets.token_hex(4)}"


def _expect(storage: Storage, chosen: Chosen) -> Manifest:
    manifest = storage.expect()
    if chosen.group and chosen.group not in manifest.marks:
        known = ", ".join(manifest.marks)
        raise LocalError(
            ErrorCode.BAD_OPTIONS, f"the tables have no group {chosen.group!r}", f"use {known}"
        )
    return manifest


def _judge(spark: SparkSession, chosen: Chosen, read: Callable[[Table], DataFrame]) -> DataFrame:
    """All events with what becomes of each, as `judged` too."""
    for name, table in forgetting.VIEWS.items():
        read(table).createOrReplaceTempView(name)
    firsts = {}
    if chosen.before_ms is not None:
        found = spark.sql(forgetting.first_indexes(SPARK, chosen.before_ms)).collect()
        firsts = {str(row[0]): int(row[1]) for row in found}
    judged = spark.sql(forgetting.judged_events(SPARK, chosen, firsts))
    judged.createOrReplaceTempView("judged")
    return judged


def _unwhole(manifest: Manifest, chosen: Chosen) -> Manifest:
    """What comes of a group that was removed has no beginning."""
    if not chosen.is_whole_group:
        return manifest
    mark = msgspec.structs.replace(manifest.marks[chosen.group], is_whole=False)
    return msgspec.structs.replace(manifest, marks=manifest.marks | {chosen.group: mark})


def _rows(storage: Storage, manifest: Manifest) -> dict[str, int]:
    public = [table for table in TABLES.values() if not table.is_internal]
    if manifest.versions:
        return {table.name: storage.read(manifest, table).count() for table in public}
    return {table.name: sum(one.rows for one in manifest.files(table.name)) for table in public}
