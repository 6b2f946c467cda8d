"""Directories of a worker, if nobody says."""

from __future__ import annotations

from pathlib import Path

import pytest

from rollq.cli.places import WorkerDirs, find_dirs


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Below it are the legacy directories, if any; the working directory is empty."""
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    return tmp_path


def test_without_anything_there_is_nothing_to_run(root: Path) -> None:
    assert find_dirs(None, None, root) == WorkerDirs(None, Path("jobs"), own_execs=False)


def test_legacy_directories_are_used_where_they_are(root: Path) -> None:
    Path("exec").mkdir()
    assert find_dirs(None, None, root) == WorkerDirs(Path("exec"), Path("jobs"), own_execs=False)
    (root / "opt/grid/exe").mkdir(parents=True)
    found = find_dirs(None, None, root)
    assert found == WorkerDirs(root / "opt/grid/exe", Path("jobs"), own_execs=True)
    (root / "tmp/jobs").mkdir(parents=True)
    assert find_dirs(None, None, root).jobs_dir == root / "tmp/jobs"
    (root / "opt/grid/cache").mkdir()
    assert find_dirs(None, None, root).cache_dir == root / "opt/grid/cache"


def test_what_is_given_counts(root: Path) -> None:
    (root / "opt/grid/exe").mkdir(parents=True)
    (root / "tmp/jobs").mkdir(parents=True)
    (root / "opt/grid/cache").mkdir()
    found = find_dirs(Path("bin"), None, root)
    assert found == WorkerDirs(Path("bin"), Path("jobs"), own_execs=False)
    assert find_dirs(None, Path("work"), root).jobs_dir == Path("work")
