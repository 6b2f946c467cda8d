"""What commands about the tables write where nobody can, and where somebody else reads."""

from __future__ import annotations

import contextlib
import errno
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.testing import CliRunner

from rollq.base.errors import ErrorCode, LocalError
from rollq.base.hints import ExecHint
from rollq.cli.main import app
from rollq.cli.report import PageLanguage, write_report
from rollq.spark.asking import figures
from rollq.spark.pipeline import hints, run, tables
from rollq.spark.pipeline.feed import Feed
from rollq.spark.pipeline.manifest import Mark, TableManifest
from rollq.spark.report import page
from rollq.spark.report.words import LANGUAGES
from rollq.spark.source.places import Extent


def test_a_page_that_cannot_be_written_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(figures, "gather", lambda spark, **_: None)
    monkeypatch.setattr(page, "page_of", lambda made, language: "page")
    spark: Any = None
    with pytest.raises(LocalError, match="/dev/null/page: ") as caught:
        write_report(spark, Path("tables"), Path("/dev/null/page"))
    assert caught.value.code is ErrorCode.BAD_OPTIONS


def test_a_full_disk_is_told_and_keeps_no_part_of_a_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(figures, "gather", lambda spark, **_: None)
    monkeypatch.setattr(page, "page_of", lambda made, language: "page")
    spark: Any = None
    with pytest.raises(LocalError, match="cannot write /dev/full: No space left") as caught:
        write_report(spark, Path("tables"), Path("/dev/full"))
    assert caught.value.code is ErrorCode.DISK_FULL

    def write_none(path: Path, text: str, encoding: str) -> None:
        path.touch()
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Path, "write_text", write_none)
    with pytest.raises(LocalError, match="No space left on device"):
        write_report(spark, Path("tables"), tmp_path / "page.html")
    assert list(tmp_path.iterdir()) == []


def test_a_page_can_be_in_every_language_that_there_is() -> None:
    assert {one.value for one in PageLanguage} == set(LANGUAGES)


def test_names_of_files_are_quoted_for_sql(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "paths", lambda folder, name: [Path("/a"), Path("/it's")])
    told = CliRunner().invoke(app, ["pipeline", "files", "gold_hourly", "--quoted"])
    assert told.stdout == "'/a', '/it''s'\n"


@pytest.mark.parametrize("source", [("--path", "history"), ("--servers", "one:5000")])
def test_a_run_over_a_folder_says_how_far_its_history_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: tuple[str, str]
) -> None:
    marks = {"one": Mark(40, 0, 1_700_000_000_000), "gone": Mark(9, 0, 0)}
    made = TableManifest(3, 5, "path history", 0, 120, marks, {})
    pipeline = SimpleNamespace(run=lambda every_s: made, failed=[])
    monkeypatch.setattr(run, "Pipeline", lambda *_, **__: pipeline)
    monkeypatch.setattr(Feed, "extents", lambda feed: [Extent("one", 1, 41)])
    monkeypatch.setattr("rollq.cli.tables.spark_with", lambda *_: contextlib.nullcontext())
    words = ["pipeline", "run", *source, "--tables", str(tmp_path)]
    ended = CliRunner().invoke(app, words)
    assert ended.stdout == "120 events up to batch 3\n"
    told = [line for line in ended.stderr.splitlines() if "sealed history" in line]
    expected = [
        "sealed history: group one up to index 40, 2023-11-14 22:13:20.000; "
        "later rows of a member that runs or was killed are not read"
    ]
    assert told == (expected if source[0] == "--path" else [])


def test_hints_are_told_as_the_grid_tells_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hints, "exec_rows", lambda folder: [])
    monkeypatch.setattr(hints, "hints_of", lambda *_: [ExecHint("calcA", 1, 20, 300, 7)])
    ask = ["pipeline", "hints", "--dry-run"]
    told = CliRunner().invoke(app, [*ask, "--json"]).stdout
    assert told == '[{"exec":"calcA","p50_ms":1,"p95_ms":20,"p99_ms":300,"count":7}]\n'
    assert CliRunner().invoke(app, ask).stdout.splitlines() == [
        "exec   p50_ms  p95_ms  p99_ms  count",
        "calcA       1      20     300      7",
    ]
