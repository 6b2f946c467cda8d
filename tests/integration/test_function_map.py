"""`map` over a function, and the bundles that short calls are put into."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Iterator
from concurrent.futures import CancelledError
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rollq import BlockingClient, Client, Executor, JobError, LocalError, Result
from tests.integration import functions_app as app
from tests.integration.patience import DEADLINE_S
from tests.integration.small_grid import SmallGrid

APP = "tests.integration.functions_app"


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallGrid]:
    with SmallGrid(tmp_path_factory.mktemp("grid"), APP) as running:
        yield running


@pytest.fixture
def client(grid: SmallGrid) -> Iterator[BlockingClient]:
    with BlockingClient(grid.address) as running:
        yield running


def test_values_come_in_order(client: BlockingClient) -> None:
    assert list(client.map(app.plus, range(3_000), itertools.count())) == list(range(0, 6_000, 2))
    assert list(client.map(app.plus, range(5), right=1, priority=2)) == [1, 2, 3, 4, 5]
    assert list(client.map(app.plus_in_loop, range(300), right=1)) == list(range(1, 301))
    assert sorted(client.map(app.plus, range(300), ordered=False)) == list(range(10, 310))
    assert list(client.map(app.plus, [])) == []


def test_calls_are_put_together(client: BlockingClient) -> None:
    assert len({one for one, _ in client.map(app.whose_of, range(50), chunksize=20)}) == 3
    assert len({one for one, _ in client.map(app.whose_of, range(50), chunksize=1)}) == 50


def test_what_a_call_raises_is_its_own(client: BlockingClient) -> None:
    below = [1, 0, 2, 0]
    told = list(client.map(app.divide, [4] * 4, below, chunksize=4, return_exceptions=True))
    assert [type(one) for one in told] == [float, ZeroDivisionError, float, ZeroDivisionError]
    (note,) = told[1].__notes__
    assert "in call 2 of job" in note
    assert "in divide\n    return left / right" in note
    assert "rollq/roles" not in note
    values = client.map(app.divide, [4] * 4, below, chunksize=4)
    assert next(values) == 4.0
    with pytest.raises(ZeroDivisionError):
        next(values)
    wrong: Any = [1, "x", 3]
    told = list(client.map(app.plus, wrong, chunksize=3, return_exceptions=True))
    assert (told[0], told[2]) == (11, 13)
    assert str(told[1]).startswith("argument 'left' must be int, and 'x' is not")
    told = list(client.map(app.sell_in_loop, ["pear", "fig"], chunksize=2, return_exceptions=True))
    assert [(str(one), one.left) for one in told] == [("pear", 3), ("fig", 3)]


def test_values_of_a_bundle_are_as_those_of_a_call(client: BlockingClient) -> None:
    values = [(1, {2}), 2**90, b"\0", None, {"k": (1.5, [app.Order("pear", 2)])}, "日本"]
    assert list(client.map(app.given, values, chunksize=6)) == [((one,), {}) for one in values]
    arrays = list(client.map(app.ones, [3, 100_000, 5], chunksize=3))
    assert [one.sum() for one in arrays] == [3, 100_000, 5]
    arrays[1][0] = 7  # ours to change
    assert list(client.map(app.total, arrays, chunksize=3)) == [4, 100_007, 6]
    assert list(client.map(app.counted_up, range(3), chunksize=3)) == [[0], [0, 1], [0, 1, 2]]
    told = list(client.map(app.object_if, [False, True], chunksize=2, return_exceptions=True))
    assert told[0] is None
    assert str(told[1]) == "what was returned: object cannot be serialized"


def test_files_go_with_their_calls(client: BlockingClient, tmp_path: Path) -> None:
    paths = []
    for count in range(1, 6):
        paths.append(tmp_path / f"{count}.csv")
        paths[-1].write_text("a,b\n" * count)
    found = list(client.map(app.line_count, paths, chunksize=2))
    assert found == [(f"{count}.csv", count) for count in range(1, 6)]


def test_a_bundle_is_tried_again_as_a_whole(client: BlockingClient, tmp_path: Path) -> None:
    files = [str(tmp_path / "steady"), str(tmp_path / "flaky")]
    assert list(client.map(app.flaky, files, [0, 1], chunksize=2)) == [2, 2]
    files = [str(tmp_path / "once"), str(tmp_path / "always")]
    told = list(client.map(app.flaky, files, [0, 9], chunksize=2, return_exceptions=True))
    assert told[0] == 3
    assert str(told[1]) == "attempt 3"


def test_a_call_that_ends_its_process_ends_its_bundle(client: BlockingClient) -> None:
    told = list(client.map(app.leave_if, [0, 1, 0], chunksize=2, return_exceptions=True))
    assert [type(one) for one in told] == [JobError, JobError, type(None)]


def test_after_the_soft_limit_no_call_begins(client: BlockingClient, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    names = [str(begun)] * 3
    told = list(
        client.map(app.wait_long, names, chunksize=3, run_limit_soft=0.2, return_exceptions=True)
    )
    assert [type(one) for one in told] == [TimeoutError] * 3
    assert begun.read_text() == "x"


def test_what_cannot_be_called_so_is_refused_here(client: BlockingClient) -> None:
    with pytest.raises(TypeError, match=r"plus\(\): too many positional arguments"):
        list(client.map(app.plus, [1], [2], [3]))
    with pytest.raises(TypeError, match="argument 'right': object cannot be serialized"):
        list(client.map(app.plus, range(9), [object()] * 9, chunksize=3))
    with pytest.raises(TypeError, match="wait for its result"):
        list(client.map(app.plus, [client.submit(app.plus, 1)]))
    with pytest.raises(LocalError, match="chunksize=0"):
        list(client.map(app.plus, [1], chunksize=0))
    with pytest.raises(LocalError, match="not registered"):
        list(client.map(len, ["abc"]))
    with pytest.raises(LocalError, match="are for functions"):
        list(client.map("plus", [["1", "2"]], chunksize=3))
    (result,) = client.map("plus", [["1", "2"]])
    assert isinstance(result, Result)


def test_leaving_early_cancels_the_rest(client: BlockingClient) -> None:
    values = client.map(app.plus, itertools.count())
    assert list(itertools.islice(values, 100)) == list(range(10, 110))
    values.close()  # type: ignore[attr-defined]
    assert next(client.map(app.plus, [5])) == 15


def test_progress_counts_calls(client: BlockingClient) -> None:
    told: list[tuple[int, int | None]] = []
    values = client.map(app.plus, range(100), chunksize=10, progress=lambda *one: told.append(one))
    assert len(list(values)) == 100
    assert told[-1] == (100, 100)


def test_in_an_event_loop(grid: SmallGrid) -> None:
    async def story() -> None:
        async with Client(grid.address) as own:
            values = [one async for one in own.map(app.ones, [70_000, 2], chunksize=2)]
            assert [one.sum() for one in values] == [70_000, 2]

    asyncio.run(story())


def test_an_executor_maps_in_bundles(grid: SmallGrid) -> None:
    with Executor(grid.address) as pool:
        assert list(pool.map(app.plus, range(2_000), range(2_000))) == list(range(0, 4_000, 2))
        assert len({one for one, _ in pool.map(app.whose_of, range(50), chunksize=25)}) == 2
        with pytest.raises(ZeroDivisionError):
            list(pool.map(app.divide, [1], [0]))
        with pytest.raises(TimeoutError):
            list(pool.map(app.wait, [60], timeout=0.01))
        started = pool.map(app.plus, np.arange(3))
    assert list(started) == [10, 11, 12], "it began without being asked for values"
    with Executor(grid.address) as pool:
        left = pool.map(app.wait, [60] * 4)
        pool.shutdown(cancel_futures=True)
        with pytest.raises(CancelledError):
            next(left)


def test_pending_maps_end_with_an_iterator(grid: SmallGrid) -> None:
    with Executor(grid.address) as pool:
        values = pool.map(app.wait, [0, 60], chunksize=1)
        assert next(values) == 0
        values.close()  # type: ignore[attr-defined]
        assert pool.submit(app.plus, 1).result(DEADLINE_S) == 11
