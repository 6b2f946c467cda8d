"""What the pipeline does beside its tables: files that are joined, open jobs that are left alone,
tables of older versions, history that is gone."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import date
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from bench.pipeline.lives import Lives, seal_lives
from rollq.base.errors import ErrorCode, LocalError, StateError
from rollq.base.ids import JobId, WorkerId
from rollq.cli.main import app
from rollq.grid.events import Event
from rollq.history.schema import to_lines
from rollq.history.segments import Segments
from rollq.spark.asking.queries import loader
from rollq.spark.pipeline import batch, day, gold, parquet, run, tables
from rollq.spark.pipeline import compact as compacting
from rollq.spark.pipeline.catalog import DEAD, LEVELS, SCHEMA_VERSION, TableColumn, TableSpec
from rollq.spark.pipeline.compact import compacted
from rollq.spark.pipeline.dialect import SPARK
from rollq.spark.pipeline.export import export
from rollq.spark.pipeline.feed import Feed
from rollq.spark.pipeline.manifest import Book, TableManifest
from rollq.spark.pipeline.run import Pipeline
from rollq.spark.pipeline.tables import TableStore
from rollq.spark.pipeline.upkeep import rebuild
from rollq.store.real_disk import RealDisk
from tests.spark.comparing import MADE, differences, rows_of
from tests.spark.plain import read
from tests.spark.plain_gold import Plain
from tests.spark.segments import STAMP_MS
from tests.spark.spoiled import DAYS_TURN_MS, all_rows, middle_day, spoil

pytestmark = pytest.mark.any_spark
TURN_MS = 40_000
FEW_ROWS = 40  # of a file, so that there are many


def open_files(manifest: TableManifest) -> set[str]:
    return {file.path for file in manifest.files("silver_jobs") if file.kind}


def sealed(folder: Path, first: int, events: list[Event]) -> int:
    """One event an index, as a member seals it; the index that comes next."""
    lines = [
        line
        for index, event in enumerate(events, first)
        for line in to_lines(index, STAMP_MS + 1000 * index, [event])
    ]
    disk = RealDisk(folder, unsafe_no_fsync=True)
    Segments(disk).seal(first, first + len(events) - 1, lines)
    disk.close()
    return first + len(events)


def event(kind: str, number: int, **fields: Any) -> Event:
    names: dict[str, Any] = {"client_id": "c", "queue": "q", "exec_name": "x"}
    return Event(kind, job_id=JobId(number.to_bytes(16)), **names, **fields)


def run_once(number: int) -> list[Event]:
    told = {"worker_id": WorkerId(bytes(16)), "attempt": 1, "fence": number}
    return [event("assign", number, **told), event("ack", number, run_ms=700, **told)]


def test_large_batches_leave_alone_what_nothing_happened_to(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, out = tmp_path / "state", tmp_path / "out"
    monkeypatch.setattr(batch, "SMALL_ROWS", 0)
    monkeypatch.setattr(parquet, "SMALL_FILE_ROWS", FEW_ROWS // 2)
    monkeypatch.setitem(tables.WRITING, "maxRecordsPerFile", str(FEW_ROWS))
    pipeline = Pipeline(spark, Feed(path=str(folder)), out)
    index = sealed(folder, 1, [event("enqueue", number) for number in range(400)])
    first = pipeline.run()
    index = sealed(folder, index, [each for number in range(5) for each in run_once(number)])
    second = pipeline.run()
    kept = open_files(first) & open_files(second)
    assert kept, "open jobs that nothing happened to were written again"
    assert open_files(first) - kept, "nothing happened to open jobs"
    assert differences(out, [Plain("default", read(folder))]) == []

    # Tables of an older version: nobody carried the levels of queues along.
    older = msgspec.structs.replace(
        second,
        number=second.number + 1,
        tables={name: each for name, each in second.tables.items() if name != LEVELS.name},
    )
    with Book(out).writing():
        Book(out).commit(older)
    sealed(
        folder, index, [*run_once(7), event("assign", 8, worker_id=WorkerId(bytes(16)), attempt=1)]
    )
    # Days of which there are many files are joined as part of a run,
    monkeypatch.setattr(parquet, "compacted", partial(compacted, many=3))
    monkeypatch.setattr(batch, "SMALL_ROWS", 1000)
    third = pipeline.run()
    joined = [file.path for file in third.files("bronze_events") if "-c/" in file.path]
    assert joined

    # and all the others if somebody asks for it.
    monkeypatch.setitem(tables.WRITING, "maxRecordsPerFile", str(tables.FILE_ROWS_MAX))
    told = CliRunner().invoke(
        app, ["pipeline", "compact", "--tables", str(out), "--json"], catch_exceptions=False
    )
    counts = msgspec.json.decode(told.stdout, type=dict[str, int])
    after = Book(out).expect()
    assert counts["files_before"] == sum(map(len, third.tables.values()))
    assert counts["files_after"] == sum(map(len, after.tables.values())) < counts["files_before"]
    assert differences(out, [Plain("default", read(folder))]) == []


def test_history_that_is_gone_is_told_unless_it_does_not_matter(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder, out = tmp_path / "state", tmp_path / "out"
    seal_lives(folder, Lives(6, turn_ms=TURN_MS), 400, indexes_each=30)
    lost = sorted((folder / "history").glob("*.jsonl"))[1]
    lost.unlink()
    with pytest.raises(StateError) as caught:
        Pipeline(spark, Feed(path=str(folder)), out).run()
    assert caught.value.code is ErrorCode.HISTORY_GONE
    assert Book(out).newest() is None
    words = ["pipeline", "run", "--once", "--path", str(folder), "--tables", str(out)]
    told = CliRunner().invoke(app, [*words, "--skip-lost", "--json"], catch_exceptions=False)
    assert told.exit_code == 0
    left = read(folder)
    assert Book(out).expect().events == len(left)
    found = {
        (row["_index"], row["_ordinal"]) for row in loader(spark, out)("bronze_events").collect()
    }
    assert found == {(row["index"], row["ordinal"]) for row in left}


def test_a_new_column_has_a_value_in_older_files(spark: SparkSession, tmp_path: Path) -> None:
    store = TableStore(spark, tmp_path)
    now = TableSpec(
        DEAD.name,
        (
            *DEAD.columns,
            TableColumn("note", "string", 2),
            TableColumn("redriven", "bigint", 2, "0"),
        ),
        by=DEAD.by,
    )
    rows = "SELECT 'g' AS `group`, timestamp'2026-01-01' AS hour, 'x' AS exec, 'y' AS cause"
    old = store.write(spark.sql(f"{rows}, 1L AS jobs"), DEAD, "1")
    new = store.write(spark.sql(f"{rows}, 2L AS jobs, 'n' AS note, 5L AS redriven"), now, "2")
    found = store.read(now, [*old, *new]).select("jobs", "note", "redriven").collect()
    assert sorted(map(tuple, found)) == [(1, None, 0), (2, "n", 5)]
    # Who knows less reads what it knows.
    assert store.read(DEAD, [*old, *new]).columns == list(DEAD.names)


def test_days_are_joined_into_few_files_each(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compacting, "FILE_ROWS_MAX", 30)
    store = TableStore(spark, tmp_path)
    rows = spark.range(0, 270, 1, 3).selectExpr(
        "'g' AS `group`", "timestamp_seconds(86400 * (id % 3) + id) AS hour", "'x' AS exec"
    )
    files = store.write(rows.selectExpr("*", "'y' AS cause", "1L AS jobs"), DEAD, "1")
    assert len(files) == 9
    after = compacted(store, {DEAD.name: files}, "2", many=3)[DEAD.name]
    assert sum(file.rows for file in after) == 270
    # Nine parts of thirty rows, cut where they are full and where a day ends; not each day in nine.
    assert len(after) <= 9 + 2


def test_tables_are_made_anew_from_events(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As when a version that counted wrongly has made them."""
    folder, out = tmp_path / "state", tmp_path / "out"
    lives = Lives(11, turn_ms=TURN_MS)
    pipeline = Pipeline(spark, Feed(path=str(folder)), out)
    seal_lives(folder, lives, 300)
    with monkeypatch.context() as patched:
        right = gold.dead(SPARK)
        patched.setattr(gold, "dead", lambda dialect: f"SELECT * FROM ({right}) LIMIT 0")
        before = pipeline.run()
    plain = [Plain("default", read(folder))]
    assert [each.partition(":")[0] for each in differences(out, plain)] == ["gold_dead"]
    held = loader(spark, out)("gold_dead")  # by somebody who goes on reading

    words = ["pipeline", "rebuild", "--tables", str(out), "--json"]
    told = CliRunner().invoke(app, words, catch_exceptions=False)
    assert msgspec.json.decode(told.stdout) == {
        "batch": before.number + 1,
        "events": before.events,
        "failed": [],
    }
    assert differences(out, plain) == []
    assert held.count() == 0
    after = Book(out).expect()
    assert (after.marks, after.files("bronze_events")) == (
        before.marks,
        before.files("bronze_events"),
    )
    seal_lives(folder, lives, 100)
    assert pipeline.run().number == after.number + 1
    assert differences(out, [Plain("default", read(folder))]) == []


@pytest.mark.parametrize("is_small", [True, False])
def test_one_day_is_made_anew_as_all_of_it_would_be(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_small: bool
) -> None:
    folder, out = tmp_path / "state", tmp_path / "out"
    lives = Lives(13, turn_ms=DAYS_TURN_MS)
    pipeline = Pipeline(spark, Feed(path=str(folder)), out)
    for _ in range(2):
        seal_lives(folder, lives, 400)
        pipeline.run()
    if not is_small:
        monkeypatch.setattr(day, "SMALL_ROWS", 0)
    right, chosen = all_rows(spark, out), middle_day(spark, out)
    spoil(spark, out, chosen)
    before = Book(out).expect()
    assert len(differences(out, [Plain("default", read(folder))])) == len(MADE)

    words = ["pipeline", "rebuild", "--tables", str(out), "--json", "--date"]
    told = CliRunner().invoke(app, [*words, chosen], catch_exceptions=False)
    assert msgspec.json.decode(told.stdout) == {
        "batch": before.number + 1,
        "events": before.events,
        "failed": [],
    }
    assert differences(out, [Plain("default", read(folder))]) == []
    assert all_rows(spark, out) == right
    after = Book(out).expect()
    for name in ("silver_jobs", "silver_attempts", "gold_hourly"):
        kept = [[file for file in one.files(name) if file.day != chosen] for one in (before, after)]
        assert kept[0] == kept[1]
    made, failed = rebuild(spark, out)
    assert (made.number, failed) == (after.number + 1, [])
    assert all_rows(spark, out) == right
    seal_lives(folder, lives, 100)
    assert pipeline.run().number == made.number + 1
    assert differences(out, [Plain("default", read(folder))]) == []

    with pytest.raises(LocalError, match="nothing of 1999-01-01"):
        rebuild(spark, out, day=date(1999, 1, 1))
    with pytest.raises(LocalError, match="'soon' is no day"):
        day.day_from("soon")


def test_versions_of_tables_that_an_older_rollq_made_are_made_anew(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A manifest of a format with versions names no files."""

    class RemadeError(Exception):
        pass

    def remake(self: batch.PipelineBatch) -> TableManifest:
        raise RemadeError

    seal_lives(tmp_path, Lives(12, turn_ms=TURN_MS), 10)
    feed = Feed(path=str(tmp_path))
    versions = {"bronze_events": "7"}
    old = TableManifest(3, SCHEMA_VERSION - 1, feed.name, 0, 0, {}, {}, versions=versions)
    storage = SimpleNamespace(
        newest=lambda: old,
        writing=nullcontext,
        sweep=lambda: None,
        batch=lambda found, stamp: SimpleNamespace(end=lambda: None),
    )
    monkeypatch.setattr(run, "storage_of", lambda spark, out, form: storage)
    monkeypatch.setattr(batch.PipelineBatch, "remake", remake)
    with pytest.raises(RemadeError):
        Pipeline(spark, feed, tmp_path / "out").run()


def test_tables_are_copied_in_a_format_that_spark_has(spark: SparkSession, tmp_path: Path) -> None:
    folder, out, lake = tmp_path / "state", tmp_path / "out", tmp_path / "lake"
    seal_lives(folder, Lives(6, turn_ms=TURN_MS), 400, indexes_each=30)
    made = Pipeline(spark, Feed(path=str(folder)), out).run()
    names = ["silver_jobs", "gold_hourly"]
    words = ["pipeline", "export", str(lake), *names, "--format", "orc", "--tables", str(out)]
    for _ in range(2):  # the second replaces the first
        told = CliRunner().invoke(app, [*words, "--json"], catch_exceptions=False)
        assert msgspec.json.decode(told.stdout)["batch"] == made.number
    assert sorted(each.name for each in lake.iterdir()) == sorted(names)
    for name in names:
        table = loader(spark, out)(name)
        copy = spark.read.orc(str(lake / name))
        assert copy.columns == table.columns
        assert table.count() == copy.count() > 0
        assert table.exceptAll(copy).count() == 0

    spark.sql(f"CREATE DATABASE shelf LOCATION '{tmp_path / 'shelf'}'")
    export(spark, out, "shelf", "parquet", ["gold_execs"])
    assert spark.table("shelf.gold_execs").count() == loader(spark, out)("gold_execs").count() > 0
    spark.sql("DROP DATABASE shelf CASCADE")

    with pytest.raises(LocalError, match="this Spark has no format 'clay'"):
        export(spark, out, str(lake), "clay")
    with pytest.raises(LocalError, match="there is no table 'gold'"):
        export(spark, out, str(lake), "orc", ["gold"])


def test_an_array_that_ends_again_is_the_same_in_one_batch_and_in_two(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A task that died may be redriven, and the array ends once more when it is over."""
    folder = tmp_path / "state"
    of_array: dict[str, Any] = {
        "array_id": JobId(bytes(15) + b"\x07"),
        "client_id": "c",
        "queue": "q",
    }
    begun = Event("array_enqueue", count=2, exec_name="x", **of_array)
    ended = Event("array_end", count=2, exec_name="x", **of_array)
    index = sealed(folder, 1, [begun, ended])
    Pipeline(spark, Feed(path=str(folder)), tmp_path / "two").run()
    sealed(folder, index, [ended])
    for out in ("one", "two"):
        Pipeline(spark, Feed(path=str(folder)), tmp_path / out).run()
    [row] = rows_of(tmp_path / "one", "silver_arrays")
    assert dict(row)["last_index"] == index - 1
    assert rows_of(tmp_path / "two", "silver_arrays") == {row: 1}


def test_a_job_that_was_purged_says_how_it_died(spark: SparkSession, tmp_path: Path) -> None:
    folder, out = tmp_path / "state", tmp_path / "out"
    told = {"worker_id": WorkerId(bytes(16)), "attempt": 1, "fence": 1}
    died = event("dlq", 1, cause=4, exit_code=75, signal=9, run_ms=700, **told)
    sealed(folder, 1, [event("enqueue", 1), event("assign", 1, **told), died, event("purge", 1)])
    Pipeline(spark, Feed(path=str(folder)), out).run()
    [row] = loader(spark, out)("silver_jobs").collect()
    assert (row["state"], row["exit_code"], row["signal"]) == ("purged", 75, 9)
    assert differences(out, [Plain("default", read(folder))]) == []


def test_jobs_that_wait_for_others_are_counted_when_they_may_run(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Job 1 runs; 2 may run after it, 3 a while after it; 4 is cancelled, because it may not."""
    folder = tmp_path / "state"
    begun = [event("enqueue", 1), *(event("block", number) for number in (2, 3, 4))]
    freed = [event("unblock", 2), event("unblock", 3, delay_ms=5), event("cancel", 4, cause=8)]
    index = sealed(folder, 1, [*begun, *run_once(1), *freed])
    for out in ("one", "two"):
        pipeline = Pipeline(spark, Feed(path=str(folder)), tmp_path / out)
        if out == "one":
            pipeline.run()
            sealed(folder, index, [*run_once(2), event("release", 3), *run_once(3)])
        pipeline.run()
        assert pipeline.failed == []
        assert differences(tmp_path / out, [Plain("default", read(folder))]) == []
    depth = [dict(row) for row in rows_of(tmp_path / "two", "gold_depth")]
    assert depth
    assert min(row["waiting"] for row in depth) == 0


def test_a_copy_as_csv_names_its_columns(spark: SparkSession, tmp_path: Path) -> None:
    folder, out, copy = tmp_path / "state", tmp_path / "out", tmp_path / "copy"
    sealed(folder, 1, [event("enqueue", 1), *run_once(1)])
    Pipeline(spark, Feed(path=str(folder)), out).run()
    export(spark, out, str(copy), "csv", ["gold_execs"])
    [path] = (copy / "gold_execs").glob("*.csv")
    header, *rows = path.read_text(encoding="utf-8").splitlines()
    assert header == ",".join(loader(spark, out)("gold_execs").columns)
    assert len(rows) == 1
