"""A task of `grid_map` without Spark: what becomes of its jobs when it ends early."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rollq import BlockingClient, DeadlineError
from rollq.roles.client.blocking.loop_thread import LoopThread
from rollq.roles.worker.node import WorkerNode
from rollq.roles.worker.setup import NodeSetup
from rollq.spark.grid.flow import BATCH_ROWS, Layout
from rollq.spark.grid.guard import TaskGuard
from rollq.spark.grid.task import GridTask
from tests.integration.procs import Members, until
from tests.integration.small_grid import SmallGrid
from tests.unit.spark.plans import PLAN

ADD = replace(PLAN, exec_name="add", client_id="", window=64, timeout_s=30.0)


@pytest.fixture
def grid(tmp_path: Path) -> Iterator[SmallGrid]:
    with SmallGrid(tmp_path, "tests.integration.sample_app") as grid:
        yield grid


def batches(count: int) -> Iterator[pa.RecordBatch]:
    for first in range(0, count, 500):
        numbers = range(first, min(first + 500, count))
        args = pa.array([[str(n), "1"] for n in numbers], pa.list_(pa.string()))
        yield pa.RecordBatch.from_arrays([pa.array(numbers), args], names=["id", "_args"])


def rows_of(task: GridTask, count: int) -> list[dict[str, Any]]:
    return [row for one in task(batches(count)) for row in one.to_pylist()]


def test_a_task_that_is_tried_again_runs_nothing_twice(grid: SmallGrid) -> None:
    task = GridTask(replace(ADD, servers=grid.address))
    first = rows_of(task, 1_200)
    assert sorted(row["id"] for row in first) == list(range(1_200))
    assert {(row["status"], row["resumed"]) for row in first} == {("OK", False)}
    again = rows_of(task, 1_200)
    assert {(row["status"], row["resumed"]) for row in again} == {("OK", True)}
    key = {row["id"]: (row["job_id"], row["value"]) for row in first}
    assert key == {row["id"]: (row["job_id"], row["value"]) for row in again}
    with BlockingClient(grid.address) as client:
        assert client.counts().ok == 1_200


def test_a_task_that_is_left_ends_its_jobs_and_they_run_when_it_comes_again(
    grid: SmallGrid,
) -> None:
    task = GridTask(replace(ADD, servers=grid.address, window=2_000))
    with BlockingClient(grid.address) as client:

        def then_nothing_runs() -> Iterator[pa.RecordBatch]:
            first, *others = batches(1_500)
            yield first
            until(lambda: client.counts().ok > 0)
            client.pause("add")
            yield from others

        left = task(then_nothing_runs())
        assert next(left).num_rows  # what has ended does not wait for the others
        assert client.counts().waiting >= 1_000
        left.close()  # type: ignore[attr-defined]
        until(lambda: not client.counts().waiting + client.counts().running)
        counts = client.counts()
        assert counts.cancelled >= 1_000
        assert counts.cancelled + counts.ok == 1_500
        client.resume("add")
        rows = rows_of(task, 1_500)
        assert sorted(row["id"] for row in rows) == list(range(1_500))
        assert {row["status"] for row in rows} == {"OK"}
        assert client.counts().ok == 1_500


def test_a_guard_ends_what_is_open_when_its_task_is_gone(grid: SmallGrid) -> None:
    with BlockingClient(grid.address, client_id="task") as client:
        client.pause("add")
        one, other, third = (client.submit("add", [str(n), "1"]) for n in range(3))
        guard = TaskGuard(grid.address, "task")
        guard.opened([one.job_id, other.job_id])
        guard.ended([other.job_id])
        assert guard._process.stdin is not None
        guard._process.stdin.close()  # as when the task is killed
        assert guard._process.wait(30) == 0
        assert one.result(30).status == "CANCELLED"
        polite = TaskGuard(grid.address, "task")
        polite.opened([third.job_id])
        polite.close()
        client.resume("add")
        assert [job.result(30).json() for job in (other, third)] == [2, 3]


def test_a_guard_that_was_killed_does_not_stop_its_task(grid: SmallGrid) -> None:
    guard = TaskGuard(grid.address, "task")
    guard._process.kill()
    guard._process.wait()
    guard.opened([bytes(16)] * 10_000)
    guard.close()


def test_what_two_threads_tell_a_guard_is_not_mixed(grid: SmallGrid) -> None:
    """More than a pipe holds, while nobody reads it."""
    with BlockingClient(grid.address, client_id="task") as client:
        client.pause("add")
        jobs = [client.submit("add", [str(n), "1"]) for n in range(2)]
        guard = TaskGuard(grid.address, "task")
        guard._process.send_signal(signal.SIGSTOP)
        guard.opened([jobs[0].job_id])
        others = [bytes(15) + bytes([n]) for n in range(1, 3)]
        telling = [
            threading.Thread(target=tell, args=([other] * 20_000,))
            for tell, other in zip((guard.opened, guard.ended), others, strict=True)
        ]
        for thread in telling:
            thread.start()
        guard._process.send_signal(signal.SIGCONT)
        for thread in telling:
            thread.join(30)
        guard.opened([jobs[1].job_id])
        guard.ended(others)
        assert guard._process.stdin is not None
        guard._process.stdin.close()
        assert guard._process.wait(30) == 0
        assert [job.result(30).status for job in jobs] == ["CANCELLED"] * 2


def test_rows_of_which_no_job_comes_do_not_pile_up(grid: SmallGrid) -> None:
    taken = []

    def refused() -> Iterator[pa.RecordBatch]:
        for number in range(10):
            taken.append(number)
            args = pa.nulls(BATCH_ROWS, pa.list_(pa.string()))
            ids = pa.array(range(BATCH_ROWS))
            yield pa.RecordBatch.from_arrays([ids, args], names=["id", "_args"])

    told = GridTask(replace(ADD, servers=grid.address))(refused())
    first = next(told)
    assert taken == [0]
    assert first.num_rows + sum(one.num_rows for one in told) == 10 * BATCH_ROWS


def test_when_nobody_answers_the_task_says_who_was_asked() -> None:
    task = GridTask(replace(ADD, servers="127.0.0.1:1", timeout_s=0.2))
    with pytest.raises(DeadlineError, match=r"127\.0\.0\.1:1"):
        rows_of(task, 10)


def keyed_batches(numbers: range) -> Iterator[pa.RecordBatch]:
    args = pa.array([[str(n), "1"] for n in numbers], pa.list_(pa.string()))
    keys = pa.array([f"k-{n}" for n in numbers])
    yield pa.RecordBatch.from_arrays([pa.array(numbers), args, keys], names=["id", "_args", "_key"])


def test_tasks_that_share_keys_go_on_when_the_leader_is_killed(tmp_path: Path) -> None:
    with Members(tmp_path / "members", 3) as members, working(tmp_path, members.addresses):
        servers = ",".join(members.addresses)
        plan = replace(ADD, servers=servers, client_id="work", layout=Layout(1, has_key=True))
        found: list[list[dict[str, Any]]] = [[], []]

        def run(number: int) -> None:
            rows = range(1_500) if number else range(500, 2_000)
            for one in GridTask(plan)(keyed_batches(rows)):
                found[number] += one.to_pylist()

        tasks = [threading.Thread(target=run, args=(number,)) for number in range(2)]
        for task in tasks:
            task.start()
        with BlockingClient(servers) as client:
            until(lambda: client.counts().ok > 200)
            members.at(client.leader).kill()
            for task in tasks:
                task.join(60)
            assert client.counts().ok == 2_000
        for number, rows in enumerate(found):
            assert len(rows) == 1_500
            assert {row["status"] for row in rows} == {"OK"}
            assert {int(row["value"]) - row["id"] for row in rows} == {1}, number


@contextmanager
def working(folder: Path, addresses: Sequence[str]) -> Iterator[None]:
    """A worker of three members."""
    setup = NodeSetup(
        tuple(addresses),
        jobs_dir=folder / "jobs",
        state_dir=folder / "worker",
        apps=("tests.integration.sample_app",),
        slots=2,
        cpu_cap=1.0,
    )
    thread, worker = LoopThread("worker"), WorkerNode(setup)
    thread.start()
    thread.run(worker.start())
    try:
        yield
    finally:
        thread.run(worker.stop())
        thread.stop()
