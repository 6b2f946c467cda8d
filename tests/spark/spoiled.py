"""A day of tables that are wrong, as after a change by hand."""

from __future__ import annotations

from pathlib import Path

import msgspec
from pyspark.sql import SparkSession

from rollq.spark.asking.queries import loader
from rollq.spark.pipeline.catalog import (
    ATTEMPTS,
    AUDIT,
    BUSY,
    COUNTS,
    DEAD,
    DEPTH,
    EXECS,
    HOURLY,
    JOBS,
    STEPS,
    TABLES,
    UTILISATION,
)
from rollq.spark.pipeline.formats import storage_of
from rollq.spark.pipeline.settings import pipeline_settings
from rollq.spark.pipeline.storage import Only
from rollq.spark.pipeline.upkeep import stamp_of
from tests.spark.comparing import Rows, counted

DAYS_TURN_MS = 1_000_000  # some hundred events take days
BY_DAY = (JOBS, ATTEMPTS, AUDIT, STEPS, BUSY, HOURLY, DEAD, DEPTH, UTILISATION)


def middle_day(spark: SparkSession, out: Path) -> str:
    """A day on which jobs ended that began on an earlier one."""
    jobs = loader(spark, out)("silver_jobs").where("ended_at IS NOT NULL")
    over = jobs.where("to_date(submitted_at) < to_date(ended_at)")
    days = sorted({str(row[0]) for row in over.selectExpr("to_date(ended_at)").collect()})
    assert len(days) > 1
    return days[len(days) // 2]


def spoil(spark: SparkSession, out: Path, day: str) -> None:
    """Nothing is left of that day in any table, nor of what is added up over all days."""
    storage = storage_of(spark, out)
    with storage.writing(), pipeline_settings(spark):
        before = storage.expect()
        batch = storage.batch(before, stamp_of(before))
        try:
            for table in BY_DAY:
                batch.replace_days(table, batch.found(table, Only(days={day})).limit(0), {day})
            for table in (COUNTS, EXECS):
                batch.replace(table, batch.found(table).limit(0))
            batch.commit(msgspec.structs.replace(before, number=before.number + 1, tables={}))
        finally:
            batch.end()


def all_rows(spark: SparkSession, out: Path) -> dict[str, Rows]:
    """Of the tables that users see; checks are of single batches."""
    load = loader(spark, out)
    return {
        table.name: counted(load(table.name).toArrow())
        for table in TABLES.values()
        if not table.is_internal and table.name != "gold_checks"
    }
