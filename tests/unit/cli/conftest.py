"""What several files of tests of the command line use."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture(autouse=True)
def _logs_as_before() -> Iterator[None]:
    """A role that was started here logs to the stderr of its test, which is closed afterwards."""
    ours = logging.getLogger("rollq")
    before = ours.handlers[:], ours.level, ours.propagate
    yield
    ours.handlers[:], ours.level, ours.propagate = before


@pytest.fixture
def no_config(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An empty working directory, and no configuration in the home of the user."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "none"))
    monkeypatch.chdir(tmp_path)
