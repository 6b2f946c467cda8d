"""The pipeline on tables of Iceberg and Delta: the same rows as a plain recomputation, whole
batches for readers wherever one breaks off, and other programs that read them."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import date
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest
from pyiceberg.table import StaticTable
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from bench.pipeline.lives import Lives, seal_lives
from rollq.base.errors import DiskError, ErrorCode, LocalError
from rollq.cli.main import app
from rollq.spark.asking.queries import loader, views
from rollq.spark.pipeline import lake, lake_formats
from rollq.spark.pipeline.catalog import BRONZE
from rollq.spark.pipeline.feed import Feed
from rollq.spark.pipeline.forgetting import Selection
from rollq.spark.pipeline.formats import LAKES, form_of, storage_of
from rollq.spark.pipeline.lake_batch import LakeBatch
from rollq.spark.pipeline.lake_batches import BatchesTable
from rollq.spark.pipeline.manifest import TableManifest
from rollq.spark.pipeline.run import Pipeline
from rollq.spark.pipeline.settings import changed
from rollq.spark.pipeline.upkeep import compact, forget, rebuild
from tests.spark.comparing import MADE, Rows, counted, differences
from tests.spark.plain import read
from tests.spark.plain_forget import staying
from tests.spark.plain_gold import Plain
from tests.spark.spoiled import DAYS_TURN_MS, all_rows, middle_day, spoil
from tests.spark.test_commands import rollq
from tests.spark.test_serving import COUNT, Served, ask

pytestmark = pytest.mark.any_spark
TURN_MS = 40_000


class BrokenOffError(Exception):
    """What ends a run at a chosen point."""


@pytest.fixture(params=list(LAKES))
def form(request: pytest.FixtureRequest, lakes: dict[str, str]) -> str:
    """A format that this Spark has."""
    name = str(request.param)
    if lakes[name]:
        pytest.skip(lakes[name])
    return name


def lake_rows(spark: SparkSession, out: Path, name: str) -> Rows:
    """As the newest batch left them."""
    return counted(loader(spark, out)(name).toArrow())


def wrong(spark: SparkSession, out: Path, *states: tuple[str, Path]) -> list[str]:
    plain = [Plain(group, read(state)) for group, state in states]
    return differences(out, plain, partial(lake_rows, spark))


def test_rows_are_those_of_a_plain_recomputation(
    spark: SparkSession, tmp_path: Path, form: str
) -> None:
    one, two, out = tmp_path / "one", tmp_path / "two", tmp_path / "out"
    lives = Lives(1, turn_ms=TURN_MS)
    seal_lives(one, lives, 700)
    first = Pipeline(spark, Feed(path=str(one), group="one"), out, form=form).run()
    assert form_of(out) == form
    seal_lives(one, lives, 200)
    seal_lives(two, Lives(2, turn_ms=TURN_MS), 300)
    feed = Feed(path=f"{one};{two}", group="one,two")
    second = Pipeline(spark, feed, out, has_moved=True).run()
    assert second.events == len(read(one)) + len(read(two))
    groups = ("one", one), ("two", two)
    assert wrong(spark, out, *groups) == []
    assert Pipeline(spark, feed, out, has_moved=True).run() == second  # nothing is new

    # What an older batch has seen can still be read.
    before = storage_of(spark, out)
    events = before.read(first, BRONZE)
    assert events.count() == first.events

    # Few files instead of many are the same rows, and others read what Spark wrote.
    _, third = compact(spark, out)
    assert third.number == second.number + 1
    assert wrong(spark, out, *groups) == []
    assert read_by_others(out, third, "gold_hourly") == lake_rows(spark, out, "gold_hourly")

    # Made anew from events they are the same again.
    fourth, failed = rebuild(spark, out)
    assert (fourth.number, fourth.marks, failed) == (third.number + 1, third.marks, [])
    assert wrong(spark, out, *groups) == []


def read_by_others(out: Path, batch: TableManifest, name: str) -> Rows:
    """The rows of a table at the version of a batch, without Spark."""
    version = int(batch.version(name))
    if form_of(out) == "iceberg":
        table = StaticTable.from_metadata(str(out / name)).scan(snapshot_id=version).to_arrow()
    else:
        deltalake = pytest.importorskip("deltalake")
        table = deltalake.DeltaTable(out / name, version=version).to_pyarrow_table()
    return counted(table.drop(["_batch", "_day"]))


def test_one_day_is_made_anew(spark: SparkSession, tmp_path: Path, form: str) -> None:
    folder, out = tmp_path / "state", tmp_path / "out"
    seal_lives(folder, Lives(13, turn_ms=DAYS_TURN_MS), 500)
    Pipeline(spark, Feed(path=str(folder)), out, form=form).run()
    right, chosen = all_rows(spark, out), middle_day(spark, out)
    spoil(spark, out, chosen)
    assert len(wrong(spark, out, ("default", folder))) == len(MADE)
    made, failed = rebuild(spark, out, day=date.fromisoformat(chosen))
    assert (made.number, failed) == (3, [])
    assert wrong(spark, out, ("default", folder)) == []
    assert all_rows(spark, out) == right


def test_readers_see_whole_batches_wherever_one_breaks_off(
    spark: SparkSession, tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, out = tmp_path / "state", tmp_path / "out"
    lives = Lives(3, turn_ms=TURN_MS)
    seal_lives(folder, lives, 300)
    pipeline = Pipeline(spark, Feed(path=str(folder)), out, form=form)
    with broken_off(monkeypatch, LakeBatch, "_write", 3), pytest.raises(BrokenOffError):
        pipeline.run()
    with pytest.raises(LocalError) as caught:
        views(spark, out, form)
    assert caught.value.code is ErrorCode.BAD_OPTIONS
    pipeline.run()
    before = {name: lake_rows(spark, out, name) for name in ("silver_jobs", "gold_hourly")}
    assert wrong(spark, out, ("default", folder)) == []

    seal_lives(folder, lives, 150)
    for method, place in (("_write", 1), ("replace_open_jobs", 1), ("_write", 9)):
        with broken_off(monkeypatch, LakeBatch, method, place), pytest.raises(BrokenOffError):
            pipeline.run()
        assert {name: lake_rows(spark, out, name) for name in before} == before
    # All tables are written, and the row that makes them count; but nobody is told.
    with broken_off(monkeypatch, BatchesTable, "add", 1), pytest.raises(BrokenOffError):
        pipeline.run()
    assert wrong(spark, out, ("default", folder)) == []
    assert pipeline.run().number == 2


def test_of_two_writers_one_is_told(
    spark: SparkSession, tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on a store without locks: both begin, and the second finds the number taken."""
    folder, out = tmp_path / "state", tmp_path / "out"
    seal_lives(folder, Lives(5, turn_ms=TURN_MS), 60)
    monkeypatch.setattr(lake, "is_local", lambda tables: False)
    feed = Feed(path=str(folder))
    slow, fast = (Pipeline(spark, feed, out, form=form) for _ in range(2))
    add = BatchesTable.add

    def overtaken(self: BatchesTable, manifest: TableManifest, stamp: str) -> None:
        monkeypatch.setattr(BatchesTable, "add", add)
        fast.run()
        add(self, manifest, stamp)

    monkeypatch.setattr(BatchesTable, "add", overtaken)
    with pytest.raises(DiskError) as caught:
        slow.run()
    assert caught.value.code is ErrorCode.DISK_BUSY
    assert wrong(spark, out, ("default", folder)) == []

    told = CliRunner().invoke(app, ["pipeline", "status", "--tables", str(out), "--json"])
    status = msgspec.json.decode(told.stdout)
    assert (status["number"], status["format"]) == (1, form)
    assert status["tables"]["bronze_events"]["rows"] == len(read(folder))
    asked = ["sql", "SELECT count(*) AS n FROM events", "--tables", str(out), "--json"]
    told = CliRunner().invoke(app, asked, catch_exceptions=False)
    assert msgspec.json.decode(told.stdout) == {"n": len(read(folder))}
    told = CliRunner().invoke(app, ["pipeline", "files", "gold_dead", "--tables", str(out)])
    assert told.exit_code != 0


def test_a_server_shows_them_and_commands_find_it(
    spark: SparkSession, tmp_path: Path, form: str
) -> None:
    def events() -> int:
        return sum(lake_rows(spark, tmp_path / "tables", "bronze_events").values())

    served = Served(tmp_path, spark, form)
    with served.process:
        try:
            assert served.told["batch"] == 1
            answer = ask(served, COUNT.format(""))
            assert (answer.returncode, answer.stdout) == (0, f"n\n{events()}\n"), answer.stderr
            served.run_pipeline()
            assert served.tell() == {"batch": 2}
            assert ask(served, COUNT.format("")).stdout == f"n\n{events()}\n"
            # As any other client: without our way to open tables.
            away = rollq(
                *(tmp_path, "sql", COUNT.format(""), "--csv"),
                *("--master", served.told["address"], "--tables", "none"),
            )
            assert away.stdout == f"n\n{events()}\n", away.stderr
            page = rollq(tmp_path, "report", "--tables", "tables", "--out", "page.html")
            assert page.returncode == 0, page.stderr
            assert "Throughput" in (tmp_path / "page.html").read_text(encoding="utf-8")
        finally:
            served.process.kill()


def test_tables_are_copied_as_of_the_newest_batch(
    spark: SparkSession, tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, out, copy = tmp_path / "state", tmp_path / "out", tmp_path / "copy"
    lives = Lives(6, turn_ms=TURN_MS)
    seal_lives(folder, lives, 100)
    pipeline = Pipeline(spark, Feed(path=str(folder)), out, form=form)
    pipeline.run()
    seal_lives(folder, lives, 50)
    with broken_off(monkeypatch, LakeBatch, "_write", 9), pytest.raises(BrokenOffError):
        pipeline.run()
    words = ["pipeline", "export", str(copy), "silver_jobs", "--format", "orc"]
    told = CliRunner().invoke(app, [*words, "--tables", str(out), "--json"], catch_exceptions=False)
    assert msgspec.json.decode(told.stdout)["batch"] == 1
    table = loader(spark, out)("silver_jobs")
    found = spark.read.orc(str(copy / "silver_jobs"))
    assert found.columns == table.columns
    assert counted(found.toArrow()) == lake_rows(spark, out, "silver_jobs")


def test_rows_of_a_client_leave_tables_and_files(
    spark: SparkSession, tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, out = tmp_path / "state", tmp_path / "out"
    lives = Lives(8, turn_ms=TURN_MS)
    pipeline = Pipeline(spark, Feed(path=str(folder)), out, form=form)
    for _ in range(2):
        seal_lives(folder, lives, 150)
        before = pipeline.run()
    known, chosen = read(folder), Selection(client="client3")
    left = staying(known, "client3")
    with broken_off(monkeypatch, LakeBatch, "replace", 1), pytest.raises(BrokenOffError):
        forget(spark, out, chosen)
    assert wrong(spark, out, ("default", folder)) == []

    done = forget(spark, out, chosen)
    assert (done.manifest.number, done.failed) == (before.number + 1, [])
    removed = {name: rows - done.rows_after[name] for name, rows in done.rows_before.items()}
    assert removed["bronze_events"] == len(known) - len(left) > 0
    plain = Plain("default", left)
    plain.horizon = max(row["ts"] for row in known)
    assert differences(out, [plain], partial(lake_rows, spark)) == []
    files = [
        each for each in (out / BRONZE.name).rglob("*.parquet") if "_delta_log" not in str(each)
    ]
    found = [pq.read_table(path, partitioning=None).to_pylist() for path in files]
    assert {(row["_index"], row["_ordinal"]) for rows in found for row in rows} == {
        (row["index"], row["ordinal"]) for row in left
    }

    seal_lives(folder, lives, 100)
    assert pipeline.run().number == before.number + 2
    index = before.marks["default"].index
    new = [row for row in read(folder) if row["index"] > index]
    plain = Plain("default", left + new)
    assert differences(out, [plain], partial(lake_rows, spark)) == []

    forget(spark, out, Selection(group="default"))
    assert loader(spark, out)("bronze_events").count() == 0
    assert loader(spark, out)("gold_hourly").count() == 0


def test_a_table_goes_back_and_forgets(
    spark: SparkSession, tmp_path: Path, form: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lake_formats, "USUAL_COMMITS", 2)
    words = LAKES[form](spark, str(tmp_path))
    words.create("numbers", "n bigint")
    assert words.version("numbers") == ""
    assert words.committed("numbers", "") == ("", [])
    name = words.name("numbers")

    def add(number: int) -> None:
        with changed(spark, words.settings(f"stamp-{number}")):
            spark.sql(f"SELECT {number}L AS n").writeTo(name).append()

    def numbers() -> list[int]:
        return sorted(row["n"] for row in spark.table(name).collect())

    add(1)
    first = words.version("numbers")
    for number in (2, 3, 4):
        add(number)
    newest, commits = words.committed("numbers", first)
    assert newest == words.version("numbers")
    assert sorted(one.stamp for one in commits) == ["stamp-2", "stamp-3", "stamp-4"]
    assert [one.written.rows for one in commits] == [1, 1, 1]
    assert words.committed("numbers", newest) == (newest, [])

    words.restore("numbers", first)
    assert numbers() == [1]
    words.expire("numbers", int(time.time() * 1000) + 60_000, 1)
    assert numbers() == [1]
    files = [each for each in tmp_path.rglob("*.parquet") if each.parent.name != "_delta_log"]
    assert len(files) == 1
    now = words.version("numbers")
    add(5)
    [last] = words.committed("numbers", now)[1]
    assert last.stamp == "stamp-5"  # expiry is no commit
    words.compact("numbers")
    assert numbers() == [1, 5]
    words.restore("numbers", "")
    assert numbers() == []


@contextmanager
def broken_off(patch: pytest.MonkeyPatch, kind: type, method: str, place: int) -> Iterator[None]:
    """The call of this number does its work and then ends everything."""
    function: Callable[..., Any] = getattr(kind, method)
    numbers = count(1)

    def called(*arguments: Any, **named: Any) -> Any:
        number = next(numbers)  # several threads call it
        result = function(*arguments, **named)
        if number == place:
            raise BrokenOffError
        return result

    with patch.context() as patched:
        patched.setattr(kind, method, called)
        yield
