"""A demonstration ends well, with a page or without."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from rollq.base.errors import ErrorCode, LocalError
from rollq.cli.demo import write_page


def test_without_spark_it_says_what_to_install(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert not write_page(tmp_path, "g", tmp_path / "tables", tmp_path / "page.html")
    said = capsys.readouterr().err
    assert said == "no report: Spark is not installed; pip install 'rollq[spark]'\n"


def test_a_spark_that_does_not_start_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_java(*_args: object, **_conf: object) -> None:
        raise LocalError(ErrorCode.BAD_SETUP, "there is no Java", "install one")

    monkeypatch.setattr("rollq.cli.spark.quiet_spark", no_java)
    assert not write_page(tmp_path, "g", tmp_path / "tables", tmp_path / "page.html")
    assert capsys.readouterr().err == (
        "running the pipeline over the history, in Spark: half a minute or so\n"
        "no report: there is no Java; install one\n"
    )
