"""What commands about the tables write where nobody can, and where somebody else reads."""

from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from rollq.base.errors import ErrorCode, LocalError
from rollq.base.hints import ExecHint
from rollq.cli.main import app
from rollq.cli.report import PageLanguage, write_report
from rollq.spark.asking import figures
from rollq.spark.pipeline import hints, tables
from rollq.spark.report import page
from rollq.spark.report.words import LANGUAGES


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
