"""Directories of a worker, if nobody says."""

from __future__ import annotations

from pathlib import Path

import pytest

from rollq.cli import places
from rollq.cli.places import WorkerDirs, find_dirs


@pytest.fixture
def legacy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the legacy directories would be; the working directory is empty."""
    monkeypatch.setattr(places, "LEGACY_EXEC_DIR", tmp_path / "opt/grid/exe")
    monkeypatch.setattr(places, "LEGACY_JOBS_DIR", tmp_path / "tmp/jobs")
    monkeypatch.setattr(places, "LEGACY_CACHE_DIR", tmp_path / "opt/grid/cache")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path


def test_without_anything_there_is_nothing_to_run(legacy: Path) -> None:
    assert find_dirs(None, None) == WorkerDirs(None, Path("jobs"), own_execs=False)


def test_legacy_directories_are_used_where_they_are(legacy: Path) -> None:
    Path("exec").mkdir()
    assert find_dirs(None, None) == WorkerDirs(Path("exec"), Path("jobs"), own_execs=False)
    (legacy / "opt/grid/exe").mkdir(parents=True)
    found = find_dirs(None, None)
    assert found == WorkerDirs(legacy / "opt/grid/exe", Path("jobs"), own_execs=True)
    (legacy / "tmp/jobs").mkdir(parents=True)
    assert find_dirs(None, None).jobs_dir == legacy / "tmp/jobs"
    (legacy / "opt/grid/cache").mkdir()
    assert find_dirs(None, None).cache_dir == legacy / "opt/grid/cache"


def test_what_is_given_counts(legacy: Path) -> None:
    (legacy / "opt/grid/exe").mkdir(parents=True)
    (legacy / "tmp/jobs").mkdir(parents=True)
    (legacy / "opt/grid/cache").mkdir()
    found = find_dirs(Path("bin"), None)
    assert found == WorkerDirs(Path("bin"), Path("jobs"), own_execs=False)
    assert find_dirs(None, Path("work")).jobs_dir == Path("work")
