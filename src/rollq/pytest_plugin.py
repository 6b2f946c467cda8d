"""For the tests of those who use rollq: the fixture `rollq_grid`, a real grid of one member and one
worker that is there for one test. `pytest_plugins = ["rollq.pytest_plugin"]` in conftest.py."""

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
    """Make the marker known."""
    config.addinivalue_line("markers", MARKER)


@pytest.fixture
def rollq_grid(
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[LocalGrid]:
    """A grid for this test: `rollq_grid.client()`, `rollq_grid.address`, `rollq_grid.add_program`.

    `@pytest.mark.rollq("mytasks", slots=4)` names modules whose functions it runs, and settings of
    its worker. Modules are found as the test finds them.
    """
    from rollq.local_grid import LocalGrid  # noqa: PLC0415 - only whoever asks for one pays for it

    marker = request.node.get_closest_marker("rollq")
    apps, settings = (marker.args, marker.kwargs) if marker is not None else ((), {})
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(path for path in sys.path if path))
    with LocalGrid(tmp_path_factory.mktemp("rollq"), *apps, **settings) as grid:
        yield grid
