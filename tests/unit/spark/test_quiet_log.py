"""Spark says nothing about its start."""

from __future__ import annotations

from pathlib import Path

from rollq.spark.java import quiet_log


def test_only_errors_are_written_and_the_file_is_made_once(tmp_path: Path) -> None:
    path = quiet_log(tmp_path)
    lines = path.read_text().splitlines()
    assert "rootLogger.level = error" in lines
    assert "logger.gateway.level = error" in lines  # else it says which level it takes
    before = path.stat()
    assert quiet_log(tmp_path).stat().st_ino == before.st_ino
    path.write_text("other")
    assert quiet_log(tmp_path).read_text().splitlines() == lines
