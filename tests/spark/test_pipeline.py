"""The pipeline's tables against a plain recomputation: in pieces, again, and broken off."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from bench.pipeline.lives import Lives, seal_lives
from rollq.base.errors import ErrorCode, LocalError
from rollq.spark.pipeline import batch
from rollq.spark.pipeline.batch import PipelineBatch
from rollq.spark.pipeline.catalog import SCHEMA_VERSION
from rollq.spark.pipeline.feed import Feed
from rollq.spark.pipeline.manifest import Book, TableManifest
from rollq.spark.pipeline.parquet import ParquetStorage
from rollq.spark.pipeline.run import Pipeline
from rollq.spark.pipeline.tables import TableStore
from rollq.spark.pipeline.upkeep import compact
from tests.spark.bounds import impossible
from tests.spark.comparing import differences
from tests.spark.plain import read
from tests.spark.plain_gold import Plain

START_S_MAX = 240.0
# It is over before a better compiler has paid for itself.
QUICK = {"JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"}
TURN_MS = 40_000  # some thousand events take days


class KilledError(Exception):
    """What ends a run at a chosen point."""


@pytest.mark.each_spark
def test_a_history_and_what_came_later(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, out = tmp_path / "state", tmp_path / "out"
    lives = Lives(6, turn_ms=TURN_MS)
    pipeline = Pipeline(spark, Feed(path=str(folder)), out)
    seal_lives(folder, lives, 300)
    with monkeypatch.context() as patch:
        patch.setattr(batch, "SMALL_ROWS", 0)  # as if it were much
        assert pipeline.run().number == 1
    seal_lives(folder, lives, 60)
    assert pipeline.run().number == 2
    assert differences(out, [Plain("default", read(folder))]) == []


def test_two_groups_in_pieces(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two, out = tmp_path / "one", tmp_path / "two", tmp_path / "out"
    lives = Lives(1, turn_ms=TURN_MS)
    seal_lives(one, lives, 1500)
    with monkeypatch.context() as patch:
        patch.setattr(batch, "SMALL_ROWS", 0)  # as if it were much
        Pipeline(spark, Feed(path=str(one), group="one"), out).run()
    assert differences(out, [Plain("one", read(one))]) == []

    seal_lives(one, lives, 300)
    seal_lives(two, Lives(2, turn_ms=TURN_MS), 500)
    feed = Feed(path=f"{one};{two}", group="one,two")
    manifest = Pipeline(spark, feed, out, most=160, has_moved=True).run()
    assert manifest.number > 2
    assert manifest.events == len(read(one)) + len(read(two))
    plain = [Plain("one", read(one)), Plain("two", read(two))]
    assert differences(out, plain) == []
    assert impossible(out) == []

    # Nothing new: nothing is made. The same events once more: nothing is taken.
    assert Pipeline(spark, feed, out, has_moved=True).run().number == manifest.number
    ends = {extent.group: extent.end for extent in feed.extents()}
    everything = feed.reading(dict.fromkeys(ends, 1), ends)
    tables = ParquetStorage(spark, out).batch(manifest, "again")
    assert PipelineBatch(spark, tables, manifest, lambda stage: None).make(everything) is None

    before, after = compact(spark, out)
    assert (before.number, after.number) == (manifest.number, manifest.number + 1)
    assert len(after.files("bronze_events")) < len(before.files("bronze_events"))
    assert compact(spark, out) == (after, after)
    assert differences(out, plain) == []


@pytest.mark.any_spark
def test_what_ends_jobs_and_attempts_is_found_once_for_all_tables(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A persisted table below a WITH is not found by Spark, and would be made again."""
    folder, out = tmp_path / "state", tmp_path / "out"
    seal_lives(folder, Lives(9, turn_ms=TURN_MS), 200)
    read_by: list[set[str]] = []
    asked = spark.sql

    def noted(self: SparkSession, query: str, *args: Any) -> Any:
        frame = asked(query, *args)
        if "FROM moves" in query:
            leaves = frame._jdf.queryExecution().withCachedData().collectLeaves()
            read_by.append({leaves.apply(n).nodeName() for n in range(leaves.size())})
        return frame

    monkeypatch.setattr(type(spark), "sql", noted)
    Pipeline(spark, Feed(path=str(folder)), out).run()
    assert len(read_by) == 4  # by attempts, jobs, steps and checks
    assert all("InMemoryRelation" in names for names in read_by)


@pytest.mark.any_spark
def test_tables_of_an_older_version_are_made_anew(spark: SparkSession, tmp_path: Path) -> None:
    folder, out = tmp_path / "state", tmp_path / "out"
    lives = Lives(8, turn_ms=TURN_MS)
    seal_lives(folder, lives, 300)
    Pipeline(spark, Feed(path=str(folder)), out).run()
    book = Book(out)
    newest = book.expect()
    older = {"bronze_events": newest.files("bronze_events")}
    for file in older["bronze_events"]:  # a column was not there yet
        pq.write_table(
            pq.read_table(out / file.path, partitioning=None).drop(["request"]), out / file.path
        )
    with book.writing():  # the others were different then
        book.commit(msgspec.structs.replace(newest, number=2, schema_version=1, tables=older))
    seal_lives(folder, lives, 50)
    manifest = Pipeline(spark, Feed(path=str(folder)), out).run()
    assert (manifest.number, manifest.schema_version) == (4, SCHEMA_VERSION)
    rows = read(folder)
    assert manifest.events == len(rows)
    for row in rows[: newest.events]:
        row.pop("request", None)
    assert any("request" in row for row in rows)
    assert differences(out, [Plain("default", rows)]) == []
    compact(spark, out)
    assert differences(out, [Plain("default", rows)]) == []


@pytest.mark.any_spark
def test_broken_off_anywhere_and_begun_again(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, out = tmp_path / "state", tmp_path / "out"
    lives = Lives(3, turn_ms=TURN_MS)
    seal_lives(folder, lives, 800)
    pipeline = Pipeline(spark, Feed(path=str(folder)), out)
    for place in (1, 7):
        with monkeypatch.context() as patch:
            patch.setattr(TableStore, "write", _killing(TableStore.write, place))
            with pytest.raises(KilledError):
                pipeline.run()
        assert Book(out).newest() is None
    with monkeypatch.context() as patch:
        patch.setattr(Book, "commit", _killing(Book.commit, 1))
        with pytest.raises(KilledError):
            pipeline.run()
    pipeline.run()
    assert differences(out, [Plain("default", read(folder))]) == []
    seal_lives(folder, lives, 150)
    with monkeypatch.context() as patch:
        patch.setattr(TableStore, "unstage", _killing(TableStore.unstage, 1))
        with pytest.raises(KilledError):
            pipeline.run()
    assert pipeline.run().number == 2  # it was committed before
    assert differences(out, [Plain("default", read(folder))]) == []


def _killing(function: Callable[..., Any], place: int) -> Callable[..., Any]:
    """The function, but the call of this number does its work and then ends everything."""
    numbers = count(1)

    def called(*arguments: Any, **named: Any) -> Any:
        number = next(numbers)  # several threads call it
        result = function(*arguments, **named)
        if number == place:
            raise KilledError("killed")
        return result

    return called


@pytest.mark.any_spark
def test_killed_in_the_middle_of_a_batch(spark: SparkSession, tmp_path: Path) -> None:
    folder, out = tmp_path / "state", tmp_path / "out"
    seal_lives(folder, Lives(4, turn_ms=TURN_MS), 600)
    command = [sys.executable, "-m", "rollq", "pipeline", "run", "--once", "--master", "local[1]"]
    command += ["--path", str(folder), "--tables", str(out)]
    process = subprocess.Popen(
        command, stderr=subprocess.DEVNULL, env=os.environ | QUICK, start_new_session=True
    )
    try:
        deadline = time.monotonic() + START_S_MAX
        while not [*out.glob("tables/bronze_events/*/*/*.parquet")]:
            assert process.poll() is None, "it ended by itself"
            assert time.monotonic() < deadline, "no batch was begun"
            time.sleep(0.01)
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert Book(out).newest() is None
    left = {path.name for path in out.glob("tables/*/*")}
    Pipeline(spark, Feed(path=str(folder)), out).run()
    assert not left & {path.name for path in out.glob("tables/*/*")}
    assert differences(out, [Plain("default", read(folder))]) == []


@pytest.mark.any_spark
def test_a_folder_belongs_to_one_source(spark: SparkSession, tmp_path: Path) -> None:
    folder, out = tmp_path / "state", tmp_path / "out"
    seal_lives(folder, Lives(1, turn_ms=TURN_MS), 100)
    book = Book(out)
    with book.writing():
        book.commit(TableManifest(1, SCHEMA_VERSION, "path elsewhere", 0, 0, {}, {}))
    with pytest.raises(LocalError) as caught:
        Pipeline(spark, Feed(path=str(folder)), out).run()
    assert caught.value.code is ErrorCode.BAD_SETUP
    assert "--moved" in caught.value.hint
