"""Code that was written for Celery, for Dask's futures and for `concurrent.futures` runs with at
most an import changed; functions that no module registers run where that is allowed."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import time
import weakref
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path
from typing import Any

import pytest

from rollq import BlockingClient, Executor, LocalError
from rollq.dask import Client, as_completed, wait
from rollq.net.ports import free_ports
from tests.integration.patience import DEADLINE_S
from tests.integration.small_grid import SmallGrid
from tests.integration.test_functions import processes

CELERY_TASKS = """
from rollq.celery import Celery

app = Celery('tasks', backend='rpc://', broker='pyamqp://guest@localhost//')
app.conf.task_serializer = 'json'
app.conf.update(task_serializer='json', accept_content=['json'], timezone='Europe/Oslo')

@app.task
def add(x, y):
    return x + y

@app.task(max_retries=1)
def divide(x, y):
    return x / y
"""
CELERY_CALLS = """
from tasks import add, divide

result = add.delay(4, 4)
assert result.get(timeout=60) == 8
assert result.ready() and result.successful() and result.state == 'SUCCESS'
assert add(4, 4) == 8
assert add.apply_async((2, 2), queue='lopri', countdown=0.1).get(timeout=60) == 4
failing = divide.delay(1, 0)
assert isinstance(failing.get(timeout=60, propagate=False), ZeroDivisionError)
assert failing.failed() and 'in divide' in failing.traceback
try:
    failing.get(timeout=60)
except ZeroDivisionError:
    print('done')
"""


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallGrid]:
    with SmallGrid(tmp_path_factory.mktemp("grid"), "rollq.pickled") as running:
        yield running


@pytest.fixture
def pool(grid: SmallGrid) -> Iterator[Executor]:
    with Executor(grid.address, allow_pickle=True) as running:
        yield running


def test_the_first_steps_of_celery(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "tasks.py").write_text(CELERY_TASKS)
    (tmp_path / "calls.py").write_text(CELERY_CALLS)
    address = f"127.0.0.1:{free_ports(1)[0]}"
    monkeypatch.setenv("ROLLQ_SERVERS", address)
    with processes(tmp_path, address, "tasks"):
        run = [sys.executable, "calls.py"]
        told = subprocess.run(run, cwd=tmp_path, check=True, stdout=subprocess.PIPE, text=True)
    assert told.stdout == "done\n"


# --- as in the pages of Dask on futures


def inc(x: int) -> int:
    return x + 1


def add(x: int, y: int) -> int:
    return x + y


def test_the_futures_of_dask(grid: SmallGrid) -> None:
    with Client(grid.address) as client:
        a = client.submit(inc, 10)
        b = client.submit(inc, 20)
        c = client.submit(add, a, b)
        assert c.result() == 32
        assert (c.done(), c.status) == (True, "finished")
        many = client.map(inc, range(10))
        assert client.gather(many) == list(range(1, 11))
        assert client.submit(sum, many).result() == 55
        assert sorted(one.result() for one in as_completed(many)) == list(range(1, 11))
        assert {value for _, value in as_completed(many, with_results=True)} == set(range(1, 11))
        data = client.scatter([1, 2, 3])
        assert client.submit(sum, data).result() == 6
        bad = client.submit(lambda: 1 / 0)
        wait([bad], DEADLINE_S)
        assert (bad.status, type(bad.exception())) == ("error", ZeroDivisionError)
        with pytest.raises(ZeroDivisionError):
            client.gather([a, bad])


# --- as any executor of Python


def capture(*args: Any, **kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    return args, kwargs


def test_submit(pool: Executor) -> None:
    assert pool.submit(pow, 2, 8).result(DEADLINE_S) == 256
    assert pool.submit(add, 2, y=8).result(DEADLINE_S) == 10
    named = {"self": 2, "fn": 3, "function": 4}
    assert pool.submit(capture, 1, **named).result(DEADLINE_S) == ((1,), named)
    with pytest.raises(TypeError):
        pool.submit(fn=capture, arg=1)  # type: ignore[call-arg]


def test_map(pool: Executor) -> None:
    expected = list(map(pow, range(10), range(10)))
    assert list(pool.map(pow, range(10), range(10))) == expected
    assert list(pool.map(pow, range(10), range(10), chunksize=3)) == expected
    results = pool.map(divmod, [1, 1, 1, 1], [2, 3, 0, 5])
    assert [next(results), next(results)] == [(0, 1), (0, 1)]
    with pytest.raises(ZeroDivisionError):
        next(results)


def test_map_within_a_time(pool: Executor, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    assert list(pool.map(pass_gate, ["", ""], timeout=DEADLINE_S)) == [None, None]
    results = pool.map(pass_gate, ["", str(gate)], timeout=0.05)
    with pytest.raises(TimeoutError):
        list(results)
    gate.touch()


def pass_gate(path: str) -> None:
    """Waits for a file."""
    while path and not Path(path).exists():
        time.sleep(0.01)


def test_wait_and_as_completed(pool: Executor, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    quick, slow = pool.submit(add, 21, 21), pool.submit(pass_gate, str(gate))
    done, left = futures.wait([quick, slow], return_when=futures.FIRST_COMPLETED)
    assert (done, left) == ({quick}, {slow})
    failing = pool.submit(divmod, 2, 0)
    done, left = futures.wait([failing, slow], return_when=futures.FIRST_EXCEPTION)
    assert (done, left) == ({failing}, {slow})
    done, left = futures.wait([quick, slow], timeout=0.05)
    assert (done, left) == ({quick}, {slow})
    with pytest.raises(TimeoutError, match=r"1 \(of 2\) futures unfinished"):
        list(futures.as_completed([quick, slow], timeout=0))
    gate.touch()
    assert set(futures.as_completed([quick, slow, slow, failing])) == {quick, slow, failing}


def test_callbacks_and_shutdown(grid: SmallGrid) -> None:
    pool = Executor(grid.address, allow_pickle=True)
    called = threading.Event()
    future = pool.submit(str, "abc")
    future.add_done_callback(lambda _: called.set())
    pool.map(str, range(5))
    pool.shutdown()
    assert called.wait(DEADLINE_S)
    assert (future.done(), future.result()) == (True, "abc")
    with pytest.raises(RuntimeError, match="after shutdown"):
        pool.submit(str, 1)


ENDS_AT_ONCE = """
import atexit, sys
from rollq import Executor

@atexit.register
def submit_late():
    try:
        pool.submit(str, 2)
    except RuntimeError:
        print('late')

pool = Executor(sys.argv[1], allow_pickle=True)
pool.submit(str, 1).add_done_callback(lambda future: print(future.result(), flush=True))
if sys.argv[2:]:
    pool.shutdown(wait=False)
"""


@pytest.mark.parametrize("more", [[], ["shutdown"]])
def test_a_program_that_ends_loses_nothing(grid: SmallGrid, more: list[str]) -> None:
    run = [sys.executable, "-c", ENDS_AT_ONCE, grid.address, *more]
    told = subprocess.run(run, check=True, stdout=subprocess.PIPE, text=True, timeout=DEADLINE_S)
    assert told.stdout == "1\nlate\n"


class Held:
    def method(self) -> None: ...


def test_nothing_holds_what_was_submitted(pool: Executor) -> None:
    held = Held()
    gone = weakref.ref(held)
    pool.submit(held.method).result(DEADLINE_S)
    del held
    gc.collect()
    assert gone() is None


# --- functions that no module registers


def test_a_function_goes_as_it_is_where_both_allow_it(grid: SmallGrid) -> None:
    factor = 3
    with BlockingClient(grid.address, allow_pickle=True) as client:
        assert client.run(lambda x, *, y: (x * factor, y), 2, y={4}).get(DEADLINE_S) == (6, {4})
        with pytest.raises(TypeError, match="what was returned: object cannot be serialized"):
            client.run(object).get(DEADLINE_S)
        with pytest.raises(TypeError, match="cannot be pickled"):
            client.run(lock.acquire)
    with BlockingClient(grid.address) as client, pytest.raises(LocalError, match="allow_pickle"):
        client.run(lambda: 1)
    with Executor(grid.address) as pool, pytest.raises(LocalError, match="not registered"):
        pool.submit(inc, 1)


def test_a_worker_without_the_switch_is_not_asked(tmp_path: Path) -> None:
    (tmp_path / "plain.py").write_text(
        "import rollq\n"
        "from rollq import Client, Executor\n"
        "@rollq.task\n"
        "def plus(left, right):\n"
        "    return left + right\n"
    )
    address = f"127.0.0.1:{free_ports(1)[0]}"
    with (
        processes(tmp_path, address, "plain"),
        BlockingClient(address, allow_pickle=True) as client,
    ):
        job = client.run(lambda: 1)
        assert client.submit("plus", ["1", "2"]).result(DEADLINE_S).ok
        told = client.explain(job.id)
        assert told is not None
        assert (told.code, job.is_done) == ("program_missing", False)
        assert job.cancel()


lock = threading.Lock()
