"""A driver that dies between the write of a batch and its commit, or between two batches of a large
one, and one that goes on after it.

`python -m bench.spark.crashing SERVERS FOLDER COUNT crash|halfway|finish`
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql import functions as f
from pyspark.sql.datasource import DataSourceStreamWriter
from pyspark.sql.types import StructType

from rollq.spark import session
from rollq.spark.source import DefaultSource
from rollq.spark.source.commits import Commits
from rollq.spark.source.write import JobsStream
from rollq.spark.source.write_options import write_options

PIDS = "CRASHING_PIDS"  # a file that names the driver's processes
ENDING = "CRASHING_ENDING"
HALF_WAY = "halfway"
BATCHES_BEFORE = 2  # are accepted of those that follow the first
KEY_OF = Commits._key_of


class DyingWriter(JobsStream):
    """Everything is sent; nobody lives to say that it counts."""

    def commit(self, messages: list[Any], batchId: int) -> None:  # noqa: N803 - Spark's name
        if os.environ[ENDING] == HALF_WAY:
            Commits._key_of = _key_or_death  # type: ignore[method-assign]
            super().commit(messages, batchId)
        die()


def _key_or_death(self: Commits, number: int) -> str:
    """In place of the key of a batch of the plan: the first ones are accepted."""
    if number > BATCHES_BEFORE:
        die()
    return KEY_OF(self, number)


def die() -> None:
    """Kill the driver, and this process of it."""
    for pid in Path(os.environ[PIDS]).read_text().split():
        os.kill(int(pid), signal.SIGKILL)
    os._exit(1)


class DyingSource(DefaultSource):
    """Writes as the real one does, but for the end."""

    @classmethod
    def name(cls) -> str:
        return "dying"

    def streamWriter(  # noqa: N802 - Spark's name
        self, schema: StructType, overwrite: bool
    ) -> DataSourceStreamWriter:
        return DyingWriter(schema, write_options(self.options), overwrite=overwrite)


def main(servers: str, folder: Path, count: int, ending: str) -> None:
    """Write all rows as jobs, or die on the way."""
    pids = folder / "pids"
    os.environ[PIDS] = str(pids)
    os.environ[ENDING] = ending
    spark = session("local[2]", **{"spark.driver.memory": "1g"})
    context = spark.sparkContext
    java = context._jvm.ProcessHandle.current().pid()  # type: ignore[union-attr]
    pids.write_text(f"{java} {os.getpid()}")
    spark.dataSource.register(DyingSource)
    if not (folder / "in").exists():
        rows(spark, count).write.parquet(str(folder / "in"))
    write(spark, servers, folder, "rollq" if ending == "finish" else "dying")
    spark.stop()


def write(spark: SparkSession, servers: str, folder: Path, source: str = "rollq") -> None:
    """Write all rows, from where the checkpoint is."""
    query = (
        spark.readStream.schema("exec string, job_key string")
        .parquet(str(folder / "in"))
        .writeStream.format(source)
        .option("servers", servers)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()


def rows(spark: SparkSession, count: int) -> Any:
    return spark.range(0, count, 1, 2).select(
        f.lit("calc").alias("exec"), f.concat(f.lit("crash-"), f.col("id")).alias("job_key")
    )


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
