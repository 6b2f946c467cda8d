"""Prefect itself, with a member and a worker: `make connectors`."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rollq import LocalError, RollqError
from rollq.local_grid import LocalGrid
from rollq.net.ports import free_ports
from tests.connectors.kit import RUN_S, jobs_of, read_line
from tests.integration.console import run_page
from tests.integration.processes import Processes
from tests.integration.procs import until

pytest.importorskip("prefect", reason="make connectors runs these where Prefect is")

from prefect import allow_failure, flow
from prefect.client.orchestration import get_client
from prefect.exceptions import CancelledRun, ObjectNotFound
from prefect.futures import as_completed, wait
from prefect.settings import (
    PREFECT_API_URL,
    PREFECT_HOME,
    PREFECT_LOCAL_STORAGE_PATH,
    temporary_settings,
)
from prefect.testing.utilities import prefect_test_harness

from rollq.prefect import RollqTaskRunner
from tests.connectors import prefect_flows as tasks

# Prefect's clients leave sockets to the garbage collector.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

PAGE = Path(__file__).parents[2] / "docs/connectors/prefect.md"


@pytest.fixture(scope="module", autouse=True)
def _server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Prefect's own, on loopback and with an empty database. It tells nobody about itself."""
    home = tmp_path_factory.mktemp("prefect")
    places = {PREFECT_HOME: home, PREFECT_LOCAL_STORAGE_PATH: home / "storage"}
    with pytest.MonkeyPatch.context() as patch, temporary_settings(places):
        patch.setenv("PREFECT_HOME", str(home))
        patch.setenv("DO_NOT_TRACK", "1")
        patch.setenv("PREFECT_SERVER_ANALYTICS_ENABLED", "false")
        with prefect_test_harness(server_startup_timeout=int(RUN_S)):
            yield


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalGrid]:
    with LocalGrid(tmp_path_factory.mktemp("grid"), "rollq.pickled") as grid:
        yield grid


@pytest.fixture
def begun(tmp_path: Path) -> Path:
    os.mkfifo(tmp_path / "begun")
    return tmp_path / "begun"


def test_the_page_is_true(tmp_path: Path) -> None:
    run_page(PAGE.read_text(encoding="utf-8"), tmp_path, command_s=RUN_S)


def test_tasks_run_in_the_grid(grid: LocalGrid, tmp_path: Path) -> None:
    def run() -> None:
        assert tasks.process_id.submit().result() != os.getpid()
        first = tasks.double.submit(3)
        later = tasks.double_later.submit(first)  # both in one job after the other
        assert (first.result(), later.result()) == (6, 12)
        assert tasks.nothing.submit().result() is None
        many = tasks.double.map(range(10))
        assert many.result() == [2 * number for number in range(10)]
        assert tasks.total.submit(many, wait_for=[first]).result() == 90
        assert tasks.third_time.submit(tmp_path / "marks").result() == 3
        assert {one.result() for one in as_completed(many)} == set(range(0, 20, 2))
        assert wait([first, later]).done == {first, later}
        assert first.state.is_completed()

    in_flow(grid, run)


def test_an_async_flow(grid: LocalGrid) -> None:
    @flow(task_runner=RollqTaskRunner(grid.address))
    async def numbers() -> list[int]:
        futures = tasks.double_later.map([1, 2])
        return [one.result() for one in futures]

    assert asyncio.run(numbers()) == [2, 4]


def test_an_exception_comes_back(grid: LocalGrid) -> None:
    def run() -> None:
        failed = tasks.fail.submit("no pears")
        with pytest.raises(ValueError, match="no pears"):
            failed.result()
        assert failed.state.is_failed()
        after = tasks.told.submit(failed)
        after.wait()
        assert after.state.name == "NotReady"
        assert tasks.told.submit(allow_failure(failed)).result() == "ValueError('no pears')"
        waited = tasks.double.submit(1, wait_for=[failed])
        waited.wait()
        assert waited.state.name == "NotReady"

    in_flow(grid, run)


def test_a_process_that_is_killed_is_a_crash(grid: LocalGrid, begun: Path) -> None:
    def run() -> None:
        future = tasks.wait_for_ever.submit(begun)
        after = tasks.told.submit(future)
        _, process_id = read_line(begun).split()
        until(lambda: state_of(future) == "Running")
        os.kill(int(process_id), signal.SIGKILL)
        after.wait()
        assert future.state.is_crashed()
        assert after.state.name == "NotReady"
        until(lambda: state_of(future) == "Crashed")

    in_flow(grid, run)


def test_a_cancelled_future_cancels_its_job(grid: LocalGrid, begun: Path) -> None:
    def run() -> None:
        future = tasks.wait_for_ever.submit(begun)
        after = tasks.double.submit(future)
        read_line(begun)
        until(lambda: state_of(future) == "Running")
        assert wait([future], timeout=0.01).not_done == {future}
        assert after.wrapped_future.cancel()  # it has no job yet
        assert future.wrapped_future.cancel()
        for one in (after, future):
            with pytest.raises(CancelledRun):
                one.result()
            assert one.state.is_cancelled()
        assert not future.wrapped_future.cancel()
        until(lambda: state_of(future) == "Cancelled")

    in_flow(grid, run)


def test_the_end_of_a_flow_cancels_what_it_left(grid: LocalGrid, begun: Path) -> None:
    ids: list[str] = []

    def run() -> None:
        tasks.double.submit(tasks.wait_for_ever.submit(begun))
        ids.append(read_line(begun).split()[0])

    in_flow(grid, run)
    assert {one["id"]: one["state"] for one in jobs_of(grid)}[ids[0]] == "cancelled"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_cancels_the_jobs(grid: LocalGrid, begun: Path, number: int) -> None:
    command = [sys.executable, "-m", "tests.connectors.prefect_flows", grid.address, str(begun)]
    with subprocess.Popen(
        command,
        env=os.environ | {"PREFECT_API_URL": str(PREFECT_API_URL.value())},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        job_id, _ = read_line(begun).split()
        process.send_signal(number)
        said, _ = process.communicate(timeout=RUN_S)
    assert process.returncode != 0, said
    assert {one["id"]: one["state"] for one in jobs_of(grid)}[job_id] == "cancelled", said


def test_a_result_that_cannot_travel_says_what_to_do(grid: LocalGrid) -> None:
    def run() -> None:
        with pytest.raises(TypeError, match="persist_result=True"):
            tasks.own.submit().result()
        assert tasks.own_kept.submit().result().content == b"pear"

    in_flow(grid, run)


def test_large_buffers_go_apart(grid: LocalGrid) -> None:
    def run() -> None:
        large = tasks.Large(bytearray(2_000_000))
        assert [tasks.last_of.submit(large, number).result() for number in (1, 2)] == [1, 2]

    in_flow(grid, run)


def test_what_cannot_be_pickled_is_told_at_once(grid: LocalGrid) -> None:
    def run() -> None:
        with pytest.raises(TypeError, match="task double cannot be pickled"):
            tasks.double.submit(threading.Lock())

    in_flow(grid, run)


def test_a_grid_that_is_not_there(tmp_path: Path) -> None:
    with (
        RollqTaskRunner("127.0.0.1:1", timeout=0.1) as runner,
        pytest.raises(RollqError, match=r"nothing listens at 127\.0\.0\.1:1"),
    ):
        runner.submit(tasks.double, {"number": 1})


def test_workers_that_take_no_pickled_functions(tmp_path: Path) -> None:
    port = str(free_ports(1)[0])
    (tmp_path / "exec").mkdir()
    with Processes(tmp_path) as running:
        running.start("leader", "leader", port)
        running.until_said("leader", "rollq member")
        running.start("worker", "worker", "127.0.0.1", port)
        running.until_said("worker", "connected to leader")
        with (
            RollqTaskRunner(f"127.0.0.1:{port}", timeout=5) as runner,
            pytest.raises(LocalError, match=r"--app rollq\.pickled"),
        ):
            runner.submit(tasks.double, {"number": 1})


def test_a_worker_that_is_not_there_is_told_and_waited_for(grid: LocalGrid) -> None:
    said: list[str] = []
    runner = RollqTaskRunner(grid.address, worker="nobody").duplicate()
    assert runner == RollqTaskRunner(grid.address, worker="nobody")
    handler = logging.Handler()
    handler.emit = lambda record: said.append(record.getMessage())  # type: ignore[method-assign]
    runner.logger.addHandler(handler)
    with runner:
        future = runner.submit(tasks.double, {"number": 1})
        assert not future.wrapped_future.done()
    runner.logger.removeHandler(handler)
    future.wait()
    assert future.state.is_cancelled()
    assert "no worker named nobody" in said[0]


def in_flow(grid: LocalGrid, run: Callable[[], None]) -> None:
    """Run a function as a flow."""

    # Its tasks get the flow with them: what `run` refers to would be pickled.
    running = {"run": run}

    @flow(task_runner=RollqTaskRunner(grid.address))
    def tests() -> None:
        running.pop("run")()

    tests(return_state=True).result()


def state_of(future: Any) -> str:
    """The state that Prefect's server knows a task run to be in."""
    with get_client(sync_client=True) as api, contextlib.suppress(ObjectNotFound):
        state = api.read_task_run(future.task_run_id).state
        return state.name if state is not None else ""
    return ""
