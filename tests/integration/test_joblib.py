"""The grid under joblib, with the real one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from joblib import Parallel, delayed, parallel_config

from rollq.base.errors import LocalError
from rollq.joblib_backend import register
from tests.integration import joblib_app
from tests.integration.joblib_app import refuse, square
from tests.integration.small_grid import SmallGrid

ROOT = Path(__file__).parents[2]


@pytest.fixture
def grid(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[SmallGrid]:
    """One whose worker has the functions, and which is the one that is meant."""
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    register()
    with SmallGrid(tmp_path, joblib_app.__name__, slots=3) as grid:
        monkeypatch.setenv("ROLLQ_SERVERS", grid.address)
        yield grid


def test_calls_run_in_the_grid_and_values_come_in_order(grid: SmallGrid) -> None:
    with parallel_config("rollq"):
        assert Parallel()(delayed(square)(n) for n in range(20)) == [n * n for n in range(20)]


def test_batches_and_keywords_and_several_runs_of_one(grid: SmallGrid) -> None:
    with parallel_config("rollq", servers=grid.address, queue="math"), Parallel(n_jobs=2) as run:
        assert run(delayed(square)(n, plus=1) for n in range(3)) == [1, 2, 5]
        assert run(delayed(square)(n) for n in range(3)) == [0, 1, 4]
    with parallel_config("rollq"):
        assert Parallel(batch_size=7)(delayed(square)(n) for n in range(20))[19] == 361


def test_as_many_at_once_as_there_are_slots(grid: SmallGrid) -> None:
    with parallel_config("rollq"):
        assert Parallel(n_jobs=-1)._effective_n_jobs() == 3


def test_what_a_function_raises_comes_here_and_the_rest_is_cancelled(grid: SmallGrid) -> None:
    with parallel_config("rollq"), pytest.raises(ValueError, match="not 2"):
        Parallel(n_jobs=1)(delayed(refuse)(n, 2) for n in range(1000))


def test_a_function_that_is_not_registered_is_named(grid: SmallGrid) -> None:
    with parallel_config("rollq"), pytest.raises(LocalError, match="not registered"):
        Parallel()(delayed(len)("abc") for _ in range(2))


def test_values_as_they_come(grid: SmallGrid) -> None:
    with parallel_config("rollq"):
        values = Parallel(return_as="generator")(delayed(square)(n) for n in range(5))
        assert list(values) == [0, 1, 4, 9, 16]
