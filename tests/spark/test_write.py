"""Writes: every row a job, all by one entry of the log, each once whatever fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as f

from tests.integration.procs import MemberProcess
from tests.spark.written import accepted, events, keys


@pytest.fixture(scope="module")
def member(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MemberProcess]:
    """A group of one, for all tests here."""
    started = MemberProcess(tmp_path_factory.mktemp("member")).start()
    yield started
    started.kill()


def jobs(spark: SparkSession, prefix: str, count: int, parts: int = 4) -> DataFrame:
    """Jobs with keys `prefix-0` and so on."""
    return spark.range(0, count, 1, parts).select(
        f.lit("calc").alias("exec"),
        f.array(f.col("id").cast("string"), f.lit("x")).alias("args"),
        f.concat(f.lit(f"{prefix}-"), f.col("id").cast("string")).alias("job_key"),
    )


def write(table: DataFrame, member: MemberProcess, **options: str) -> None:
    chosen = {"servers": member.address} | options
    table.write.format("rollq").options(**chosen).mode("append").save()


@pytest.mark.each_spark
def test_every_row_is_a_job(spark: SparkSession, member: MemberProcess) -> None:
    table = jobs(spark, "plain", 3_000).withColumn("priority", f.lit(3))
    write(table, member, queue="spark", clientId="etl")
    assert accepted(member.address, "plain", 3_000) == keys("plain", 3_000)
    made = [
        event for event in events(member.address) if event.get("jobKey", "").startswith("plain-")
    ]
    seen = {(each["queue"], each["execName"], each["priority"], each["clientId"]) for each in made}
    assert seen == {("spark", "calc", 3, "etl")}
    assert len({each["jobId"] for each in made}) == 3_000


def test_a_batch_is_one_entry_and_comes_once(spark: SparkSession, member: MemberProcess) -> None:
    for _ in range(2):
        write(jobs(spark, "once", 100), member, batchKey="load-7")
    assert accepted(member.address, "once", 100) == keys("once", 100)
    commits = [each for each in events(member.address) if each["type"] == "batch_commit"]
    assert [each["count"] for each in commits].count(100) == 1


def test_no_rows_are_no_batch(spark: SparkSession, member: MemberProcess) -> None:
    before = len(events(member.address))
    write(jobs(spark, "none", 10).limit(0), member)
    assert [
        each for each in events(member.address)[before:] if each["type"].startswith("batch")
    ] == []


def test_a_bad_row_submits_nothing(spark: SparkSession, member: MemberProcess) -> None:
    table = jobs(spark, "bad", 1_000).withColumn(
        "priority", f.when(f.col("job_key") == "bad-700", 12).otherwise(1)
    )
    with pytest.raises(PySparkException) as caught:
        write(table, member)
    assert "row 201 of partition 2: column priority is 12; use 0 to 9" in str(caught.value)
    assert not [
        each for each in events(member.address) if each.get("jobKey", "").startswith("bad-")
    ]


@pytest.mark.parametrize(
    ("change", "options", "told"),
    [
        (lambda t: t.withColumn("colour", f.lit(1)), {}, "a job has no column 'colour'"),
        (lambda t: t.drop("exec"), {}, "no column says what to run"),
        (lambda t: t, {"batchkey2": "x"}, "did you mean batchKey"),
    ],
)
def test_what_cannot_be_written_is_told_at_once(
    spark: SparkSession,
    member: MemberProcess,
    change: Callable[[DataFrame], DataFrame],
    options: dict[str, str],
    told: str,
) -> None:
    with pytest.raises(PySparkException, match=told):
        write(change(jobs(spark, "odd", 1)), member, **options)


def test_a_stream_writes_each_batch_once(
    spark: SparkSession, member: MemberProcess, tmp_path: Path
) -> None:
    def run(checkpoint: str) -> None:
        source = spark.readStream.schema("job_key string").json(str(tmp_path / "in"))
        query = (
            source.withColumn("exec", f.lit("calc"))
            .writeStream.format("rollq")
            .option("servers", member.address)
            .option("checkpointLocation", str(tmp_path / checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()

    for number in range(2):
        rows = spark.range(number * 50, number * 50 + 50).select(
            f.concat(f.lit("stream-"), f.col("id").cast("string")).alias("job_key")
        )
        rows.write.mode("append").json(str(tmp_path / "in"))
        run("checkpoint")
        run("checkpoint")
    assert accepted(member.address, "stream", 100) == keys("stream", 100)
    # Spark forgot that it had committed, as after a crash right then: the batch comes again.
    commit = max((tmp_path / "checkpoint" / "commits").glob("[0-9]*"))
    commit.unlink()
    commit.with_name(f".{commit.name}.crc").unlink(missing_ok=True)
    run("checkpoint")
    assert accepted(member.address, "stream", 100) == keys("stream", 100)
