"""A pytest plugin for users of rollq. The fixture `rollq_grid` is a real grid of one member and one
worker for one test. Put `pytest_plugins = ["rollq.pytest_plugin"]` into conftest.py."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from rollq.local_grid import LocalGrid

MARKER = "rollq(*apps, **settings): modules of functions and settings of the worker of rollq_grid"


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", MARKER)


@pytest.fixture
def rollq_grid(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[LocalGrid]:
    """A grid for one test: `rollq_grid.client()`, `rollq_grid.address`, `rollq_grid.add_program`.

    `@pytest.mark.rollq("mytasks", slots=4)` gives the modules that register its functions, and
    settings of its worker. The modules must be importable by the test.
    """
    from rollq.local_grid import LocalGrid  # noqa: PLC0415 - only tests that use it import it

    marker = request.node.get_closest_marker("rollq")
    apps, settings = (marker.args, marker.kwargs) if marker is not None else ((), {})
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    with LocalGrid(tmp_path_factory.mktemp("rollq"), *apps, **settings) as grid:
        yield grid
