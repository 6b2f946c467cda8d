"""Rows that leave the tables for good: a client, old history, a group."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from typer.testing import CliRunner

from bench.pipeline.lives import Lives, seal_lives
from rollq.cli.main import app
from rollq.grid.events import Event
from rollq.spark.asking.queries import loader
from rollq.spark.pipeline.feed import Feed
from rollq.spark.pipeline.forgetting import Selection
from rollq.spark.pipeline.manifest import Book
from rollq.spark.pipeline.run import Pipeline
from rollq.spark.pipeline.upkeep import forget, rebuild
from tests.spark.comparing import differences, rows_of
from tests.spark.plain import Row, read
from tests.spark.plain_forget import staying
from tests.spark.plain_gold import Plain
from tests.spark.test_pipeline_upkeep import event, run_once, sealed

pytestmark = pytest.mark.any_spark
TURN_MS = 40_000
CLIENT = "client3"


def places(rows: list[Row]) -> set[tuple[int, int]]:
    return {(row["index"], row["ordinal"]) for row in rows}


def in_table(out: Path, group: str = "default") -> set[tuple[int, int]]:
    found = [dict(row) for row in rows_of(out, "bronze_events")]
    return {(row["_index"], row["_ordinal"]) for row in found if row["_group"] == group}


def on_disk(out: Path) -> set[tuple[int, int]]:
    """The events in all files that there are, whether a manifest names them or not."""
    found = set()
    for path in out.rglob("bronze_events/**/*.parquet"):
        table = pq.read_table(path, columns=["_index", "_ordinal"], partitioning=None)
        found |= {(row["_index"], row["_ordinal"]) for row in table.to_pylist()}
    return found


def plain(rows: list[Row], known: list[Row], group: str = "default") -> Plain:
    """Tables of some events, of a group that has been read further than that."""
    made = Plain(group, rows)
    made.horizon = max(row["ts"] for row in known)
    return made


def outcomes(spark: SparkSession, out: Path) -> set[str]:
    return {row["outcome"] for row in loader(spark, out)("gold_checks").collect()}


@pytest.mark.parametrize("by", ["client", "before", "both"])
def test_what_is_left_is_as_if_the_rest_had_never_been(
    spark: SparkSession, tmp_path: Path, by: str
) -> None:
    folder, out = tmp_path / "state", tmp_path / "out"
    lives = Lives(21, turn_ms=TURN_MS)
    pipeline = Pipeline(spark, Feed(path=str(folder)), out)
    for _ in range(2):
        seal_lives(folder, lives, 500)
        before = pipeline.run()
    known = read(folder)
    middle_ms = sorted(row["ts"] for row in known)[len(known) * 2 // 3]
    client = "" if by == "before" else CLIENT
    before_ms = None if by == "client" else middle_ms
    left = staying(known, client, before_ms)
    assert 0 < len(left) < len(known)
    held = loader(spark, out)("gold_execs")  # by somebody who goes on reading

    done = forget(spark, out, Selection(client=client, before_ms=before_ms))
    assert in_table(out) == on_disk(out) == places(left)
    assert differences(out, [plain(left, known)]) == []
    assert (done.failed, outcomes(spark, out)) == ([], {"ok"})
    assert done.rows_before["bronze_events"] - done.rows_after["bronze_events"] == (
        len(known) - len(left)
    )
    after = Book(out).expect()
    assert after.number == before.number + 1
    assert after.marks["default"].index == before.marks["default"].index
    with pytest.raises(Exception, match="not exist"):
        held.collect()

    # Nothing of it comes again, not even when the tables are made anew; the history goes on.
    assert pipeline.run() == after
    made, failed = rebuild(spark, out)
    assert (made.marks, failed) == (after.marks, [])
    seal_lives(folder, lives, 200)
    pipeline.run()
    new = [row for row in read(folder) if row["index"] > after.marks["default"].index]
    assert new
    assert places(left) | places(new) == in_table(out)
    assert differences(out, [Plain("default", left + new)]) == []
    assert pipeline.failed == []


def test_a_group_is_removed_and_others_stay(spark: SparkSession, tmp_path: Path) -> None:
    one, two, out = tmp_path / "one", tmp_path / "two", tmp_path / "out"
    lives = Lives(22, turn_ms=TURN_MS)
    seal_lives(one, lives, 200)
    seal_lives(two, Lives(23, turn_ms=TURN_MS), 200)
    feed = Feed(path=f"{one};{two}", group="one,two")
    before = Pipeline(spark, feed, out).run()
    words = ["pipeline", "forget", "--tables", str(out), "--json"]
    told = CliRunner().invoke(app, [*words, "--group", "three", "--yes"])
    assert (told.exit_code, "no group 'three'" in told.stderr) == (2, True)

    told = CliRunner().invoke(app, [*words, "--group", "one", "--dry-run"], catch_exceptions=False)
    assert msgspec.json.decode(told.stdout)["events"] == len(read(one))
    assert Book(out).expect() == before

    told = CliRunner().invoke(app, [*words, "--group", "one", "--yes"], catch_exceptions=False)
    document = msgspec.json.decode(told.stdout)
    assert document["tables"]["bronze_events"] == {
        "removed": len(read(one)),
        "rows": len(read(two)),
    }
    assert (document["staying"], document["failed"]) == (0, [])
    assert differences(out, [Plain("two", read(two))]) == []
    assert on_disk(out) == in_table(out, "two") == places(read(two))

    # What comes of it later has no beginning, so much cannot be told; it is no failure.
    seal_lives(one, lives, 100)
    pipeline = Pipeline(spark, feed, out)
    pipeline.run()
    assert pipeline.failed == []
    index = before.marks["one"].index
    new = [row for row in read(one) if row["index"] > index]
    assert in_table(out, "one") == places(new)

    # The last group of a folder leaves tables without rows.
    forget(spark, out, Selection(group="one"))
    forget(spark, out, Selection(group="two"))
    assert on_disk(out) == set()
    assert loader(spark, out)("silver_jobs").count() == 0
    assert set(Book(out).expect().marks) == {"one", "two"}


def test_jobs_that_are_not_over_stay_and_are_told(spark: SparkSession, tmp_path: Path) -> None:
    """Of job 1 that has ended, 2 that waits, 3 that is dead and 4 that is dead and forgotten, all
    of one client."""
    folder, out = tmp_path / "state", tmp_path / "out"
    died: list[Event] = [
        each
        for number in (3, 4)
        for each in (event("enqueue", number), *run_once(number)[:1], event("dlq", number, cause=4))
    ]
    events = [event("enqueue", 1), *run_once(1), event("enqueue", 2), *died, event("forget", 4)]
    index = sealed(folder, 1, events)
    pipeline = Pipeline(spark, Feed(path=str(folder)), out)
    pipeline.run()

    words = ["pipeline", "forget", "--client", "c", "--tables", str(out)]
    told = CliRunner().invoke(app, words)
    assert (told.exit_code, "add --yes" in told.stderr) == (2, True)  # stdin is no terminal
    told = CliRunner().invoke(app, [*words, "--yes"], catch_exceptions=False)
    assert "2 jobs that matched stay" in told.stderr
    table = {line.split()[0]: line.split()[1:] for line in told.stdout.splitlines()[2:]}
    assert table["silver_jobs"] == ["2", "2"]
    jobs = {row["job_id"][-1]: row["state"] for row in loader(spark, out)("silver_jobs").collect()}
    assert jobs == {"2": "waiting", "3": "dead"}

    # When they end they are whole, and can go too.
    ends: list[Any] = [*run_once(2), event("purge", 3)]
    sealed(folder, index, ends)
    pipeline.run()
    assert pipeline.failed == []
    told = CliRunner().invoke(app, [*words, "--yes"], catch_exceptions=False)
    assert "stay" not in told.stderr
    assert on_disk(out) == set()
    told = CliRunner().invoke(app, [*words, "--yes"], catch_exceptions=False)
    assert told.stdout == "nothing to remove: no row matches\n"


def test_it_happens_whole_or_not_at_all(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, out = tmp_path / "state", tmp_path / "out"
    seal_lives(folder, Lives(24, turn_ms=TURN_MS), 200)
    before = Pipeline(spark, Feed(path=str(folder)), out).run()
    chosen = Selection(client=CLIENT)

    class KilledError(Exception):
        pass

    def killed(*arguments: Any, **named: Any) -> None:
        raise KilledError

    with monkeypatch.context() as patched:
        patched.setattr(Book, "commit", killed)
        with pytest.raises(KilledError):
            forget(spark, out, chosen)
    assert Book(out).expect() == before
    assert differences(out, [Plain("default", read(folder))]) == []

    left = staying(read(folder), CLIENT)
    with monkeypatch.context() as patched:
        patched.setattr(Book, "sweep", killed)
        with pytest.raises(KilledError):
            forget(spark, out, chosen)
    assert in_table(out) == places(left)
    assert on_disk(out) == places(read(folder))

    # Asked again there is nothing to remove any more but the files.
    number = Book(out).expect().number
    assert forget(spark, out, chosen).manifest.number == number
    assert on_disk(out) == places(left)
