"""Functions with Python values, against a real member and a real worker."""

from __future__ import annotations

import asyncio
import contextlib
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import rollq
from rollq import BlockingClient, Client, Executor, JobError, LocalError, RemoteError
from rollq.net.ports import free_ports
from tests.integration import functions_app as app
from tests.integration.patience import DEADLINE_S
from tests.integration.processes import Processes
from tests.integration.small_grid import SmallGrid
from tests.integration.workers import write_program

ROOT = Path(__file__).parents[2]
APP = "tests.integration.functions_app"
LARGE = 64 * 1024 * 1024


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallGrid]:
    directory = tmp_path_factory.mktemp("grid")
    write_program(directory, "lines", "seq 1 30000 > numbers.txt")
    with SmallGrid(directory, APP) as running:
        yield running


@pytest.fixture
def client(grid: SmallGrid) -> Iterator[BlockingClient]:
    running = rollq.connect(grid.address)
    yield running
    running.stop()


def test_a_function_runs_here_and_there(client: BlockingClient) -> None:
    assert app.plus(1, 2) == 3
    assert app.plus.delay(1, 2).get(DEADLINE_S) == 3
    assert app.plus.delay(1).get(DEADLINE_S) == 11
    assert app.plus.delay(right=4, left=1).get(DEADLINE_S) == 5
    assert client.submit(app.plus, 1, right=2, key="sum").get(DEADLINE_S) == 3
    assert app.plus_in_loop.delay(2, 3).get(DEADLINE_S) == 5
    later = app.plus.apply_async((1,), {"right": 1}, countdown=0.01, priority=3)
    assert later.get(DEADLINE_S) == 2


def test_text_from_the_command_line_still_calls_it(client: BlockingClient) -> None:
    result = client.submit("plus", ["1", "2"]).result(DEADLINE_S)
    assert (result.value, result.json(), result.is_value) == ("3", 3, False)
    assert client.submit("plus", payload=b"5").result(DEADLINE_S).json() == 15
    with pytest.raises(LocalError, match="one list"):
        client.submit("plus", "1", "2")


def test_a_value_comes_back_as_it_went(client: BlockingClient) -> None:
    values = ((1, {2}), 2**90, b"\0", None, {"k": (1.5, [app.Order("pear", 2)])})
    args, kwargs = app.given.delay(*values, named=values).get(DEADLINE_S)
    assert args == values
    assert kwargs == {"named": values}
    assert type(args[4]["k"][1][0]) is app.Order
    assert app.doubled.delay(app.Order("pear", 2)).get(DEADLINE_S) == app.Order("pear", 4)
    result = app.given.delay("日本").result(DEADLINE_S)
    assert result.stdout == "(('日本',), {})", "a short form for people"


def test_annotations_convert_and_check(client: BlockingClient) -> None:
    plus: Any = app.plus
    doubled: Any = app.doubled
    halves = app.halves.delay([1, 2]).get(DEADLINE_S)
    assert halves == [0.5, 1.0]
    assert doubled.delay({"item": "fig", "count": 3}).get(DEADLINE_S) == app.Order("fig", 6)
    assert plus.delay(np.int64(1), 2).get(DEADLINE_S) == 3
    with pytest.raises(TypeError, match="argument 'left' must be int, and 'x' is not"):
        plus.delay("x", 2).get(DEADLINE_S)


def test_a_call_that_cannot_be_is_refused_here(client: BlockingClient) -> None:
    plus: Any = app.plus
    before = client.counts()
    wrong: list[tuple[Callable[[], Any], str]] = [
        (plus.delay, r"plus\(\): missing a required argument: 'left'"),
        (lambda: plus.delay(1, 2, 3), r"plus\(\): too many positional arguments"),
        (lambda: plus.delay(1, wrong=2), r"plus\(\): .* unexpected keyword argument 'wrong'"),
        (lambda: plus.delay(object()), "argument 'left': object cannot be serialized"),
        (lambda: app.given.delay(1, x=[open]), "argument 'x': builtin_function_or_method cannot"),
    ]
    for call, words in wrong:
        with pytest.raises(TypeError, match=words):
            call()
    assert client.counts() == before
    with pytest.raises(LocalError, match="not registered"):
        client.submit_call(len, ["abc"])  # type: ignore[arg-type]
    with pytest.raises(LocalError, match="'<lambda>' is not registered; decorate it"):
        client.submit(lambda x: x, 1)  # type: ignore[arg-type]
    assert client.submit(app.plus.function, 1, 2).get(DEADLINE_S) == 3  # type: ignore[arg-type]


def test_what_it_raises_is_raised_here(client: BlockingClient) -> None:
    with pytest.raises(ZeroDivisionError, match="division by zero") as caught:
        app.divide.delay(1, 0).get(DEADLINE_S)
    (note,) = caught.value.__notes__
    assert "in divide\n    return left / right" in note
    assert "site-packages" not in note
    assert "rollq/roles" not in note
    for function, left in ((app.sell, 0), (app.sell_in_loop, 3)):
        with pytest.raises(app.StockError, match="pear") as sold:
            function.delay("pear").get(DEADLINE_S)
        assert sold.value.left == left
    with pytest.raises(TypeError, match="what was returned: object cannot be serialized"):
        app.unsendable.delay().get(DEADLINE_S)
    failed = client.submit("divide", ["1", "0"]).result(DEADLINE_S)
    assert failed.error is None
    with pytest.raises(JobError, match="exit code 1"):
        failed.get()


def test_a_class_that_is_not_imported_here_is_told(
    client: BlockingClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delattr(app, "StockError")
    with pytest.raises(RemoteError, match="StockError: pear") as caught:
        app.sell.delay("pear").get(DEADLINE_S)
    assert caught.value.code is rollq.ErrorCode.JOB_FAILED


def test_exceptions_that_are_named_are_tried_again(client: BlockingClient, tmp_path: Path) -> None:
    job = app.flaky.delay(str(tmp_path / "twice"), 2)
    assert job.get(DEADLINE_S) == 3
    assert job.result().attempts == 3
    with pytest.raises(ConnectionError, match="attempt 3"):
        app.flaky.delay(str(tmp_path / "always"), 9).get(DEADLINE_S)
    assert (tmp_path / "always").read_text() == "xxx"


def test_a_large_array_goes_from_worker_to_worker(client: BlockingClient) -> None:
    made = app.ones.delay(LARGE)
    result = made.result(DEADLINE_S)
    assert result.data_size > LARGE
    assert app.total.delay(made).get(DEADLINE_S) == LARGE + 1
    assert app.total.delay(result).get(DEADLINE_S) == LARGE + 1, "the first has changed its own"
    assert app.total_later.delay(made).get(DEADLINE_S) == LARGE
    assert result._mapped is None, "not through here"
    array = made.get(DEADLINE_S)
    assert (array.nbytes, int(array.sum())) == (LARGE, LARGE)
    assert made.get() is array


def test_a_large_argument_goes_up_once(client: BlockingClient) -> None:
    numbers = np.zeros(1_000_000, "u1")
    told: list[tuple[int, int]] = []
    for _ in range(2):
        job = client.submit(app.total, numbers, progress=lambda *moved: told.append(moved))
        assert job.get(DEADLINE_S) == 1
    (whole,) = {all_of_it for _, all_of_it in told}
    assert [done for done, _ in told].count(whole) == 2


def test_a_script_that_sent_what_is_large_ends_without_a_word(grid: SmallGrid) -> None:
    """Its client is stopped when the interpreter has ended its threads."""
    code = (
        f"import rollq; from {APP} import given; rollq.connect('{grid.address}'); "
        f"print(len(given.delay(b'x' * 1_000_000).get({DEADLINE_S})[0][0]))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert (ended.stdout, ended.stderr) == ("1000000\n", "")


def test_small_results_are_arguments_too(client: BlockingClient) -> None:
    first = app.plus.delay(1, 2)
    second = app.plus.delay(first, right=app.plus.delay(3, 4))
    assert second.get(DEADLINE_S) == 10
    text = client.submit("plus", ["1", "2"])
    assert app.given.delay([text, {"a": second}]).get(DEADLINE_S) == ((["3", {"a": 10}],), {})
    with pytest.raises(ZeroDivisionError):
        app.plus.delay(app.divide.delay(1, 0)).get(DEADLINE_S)


def test_a_job_that_has_not_ended_is_waited_for_in_the_grid(client: BlockingClient) -> None:
    """As a value, in a loop or a process, and as a file; large or small."""
    first = app.plus.apply_async((1, 2), countdown=0.3)
    second = app.plus.delay(first)
    in_loop = app.plus_in_loop.delay(first, second)
    assert not first.is_done
    assert in_loop.get(DEADLINE_S) == 16
    large = app.ones.apply_async((300_000,), countdown=0.3)
    total: Any = app.total
    assert total.delay(large).get(DEADLINE_S) == 300_001
    line_count: Any = app.line_count
    left = client.submit("lines", delay=0.3).file("numbers.txt")
    assert line_count.delay(left).get(DEADLINE_S) == ("numbers.txt", 30_000)
    child = app.plus.delay(app.plus.delay(app.divide.delay(1, 0)))
    assert child.result(DEADLINE_S).cause == "parent"
    with pytest.raises(ZeroDivisionError):
        child.get(DEADLINE_S)


def test_a_path_is_a_file_where_it_runs(client: BlockingClient, tmp_path: Path) -> None:
    for count in (3, 100_000):
        path = tmp_path / f"日本 {count}.csv"
        path.write_text("a,b\n" * count)
        assert app.line_count.delay(path).get(DEADLINE_S) == (path.name, count)
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep/inner.txt").write_text("x")
    names = ["deep/inner.txt", "日本 100000.csv", "日本 3.csv"]
    assert app.names_below.delay(tmp_path).get(DEADLINE_S) == names
    with pytest.raises(LocalError, match="No such file"):
        app.line_count.delay(tmp_path / "nowhere")


def test_an_output_of_a_program_is_an_argument(client: BlockingClient) -> None:
    output = client.submit("lines").result(DEADLINE_S).outputs["numbers.txt"]
    assert not output.is_here
    line_count: Any = app.line_count
    assert line_count.delay(output).get(DEADLINE_S) == ("numbers.txt", 30_000)


def test_its_variables_are_set_around_it(client: BlockingClient) -> None:
    for env, found in (({"MODE": "fast"}, "fast"), ({}, None)):
        job = app.variable.apply_async(("MODE",), env=env)
        assert job.get(DEADLINE_S) == found


def test_in_an_event_loop(client: BlockingClient, grid: SmallGrid) -> None:
    async def story() -> None:
        job = await app.plus.adelay(1, 2)
        assert await job == 3
        assert await job.aget(DEADLINE_S) == 3
        assert (await job.aresult(DEADLINE_S)).ok
        async with Client(grid.address) as own:
            first = await own.submit(app.ones, 100_000)
            assert await (await own.submit(app.total, first)).get(DEADLINE_S) == 100_001
            assert (await first.get(DEADLINE_S)).sum() == 100_000

    asyncio.run(story())


def test_an_executor_gives_values(grid: SmallGrid) -> None:
    with Executor(grid.address) as pool:
        assert list(pool.map(app.plus, range(5), range(5))) == [0, 2, 4, 6, 8]
        assert pool.submit(app.given, {1}, x=(2,)).result(DEADLINE_S) == (({1},), {"x": (2,)})
        assert isinstance(pool.submit(app.divide, 1, 0).exception(DEADLINE_S), ZeroDivisionError)
        assert pool.submit(app.ones, 100_000).result(DEADLINE_S).shape == (100_000,)
        assert pool.submit(app.total, np.ones(100_000)).result(DEADLINE_S) == 100_001


def test_a_function_knows_its_job(client: BlockingClient) -> None:
    for function in (app.whose, app.whose_in_loop):
        job = function.delay()
        assert job.get(DEADLINE_S) == (job.id, 1)
    with pytest.raises(LocalError, match="does not run in a job"):
        rollq.context()


def test_a_process_is_initialized_once(client: BlockingClient) -> None:
    assert app.MODEL == []
    assert list(client.map(app.model_of, range(20), chunksize=1)) == [["loaded"]] * 20
    assert app.model_too.delay().get(DEADLINE_S) == ["loaded"]


def test_a_failed_initializer_fails_its_jobs_with_the_cause(client: BlockingClient) -> None:
    words = "the initializer load_nothing raised FileNotFoundError: no model here"
    job = app.no_model.delay()
    with pytest.raises(RuntimeError, match=words):
        job.get(DEADLINE_S)
    assert job.result().attempts == 1, "another attempt would find the same"
    assert words in client.submit("no_model").result(DEADLINE_S).stderr
    told = list(client.map(app.no_model, range(4), chunksize=2, return_exceptions=True))
    assert [str(one) for one in told] == [words] * 4
    assert app.plus.delay(1, 2).get(DEADLINE_S) == 3, "the others run"


def test_a_notebook_shows_jobs(client: BlockingClient) -> None:
    job = app.given.delay("<b>")
    result = job.result(DEADLINE_S)
    assert html_of(job) == f"<b>Job</b> <code>{job.id}</code> ok"
    assert html_of(result).endswith("ok<pre>((&#x27;&lt;b&gt;&#x27;,), {})</pre>")
    batch = client.submit_many("plus", [["1", "2"]])
    batch.wait(DEADLINE_S)
    assert html_of(batch).endswith("1 of 1 ended")


def html_of(shown: Any) -> str:
    html = shown._repr_html_()
    assert isinstance(html, str)
    return html


def test_it_must_be_said_which_grid_is_meant(
    monkeypatch: pytest.MonkeyPatch, grid: SmallGrid
) -> None:
    monkeypatch.delenv("ROLLQ_SERVERS", raising=False)
    with pytest.raises(LocalError, match=r"rollq\.connect"):
        app.plus.delay(1, 2)
    monkeypatch.setenv("ROLLQ_SERVERS", grid.address)
    assert app.plus.delay(1, 2).get(DEADLINE_S) == 3


PAGE = (ROOT / "docs/functions.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
EXAMPLES = [block for block in BLOCKS if not block.startswith("# shop.py")]


@pytest.mark.parametrize("number", range(len(EXAMPLES)))
def test_the_examples_of_the_page_run(number: int, tmp_path: Path) -> None:
    (shop,) = set(BLOCKS) - set(EXAMPLES)
    (tmp_path / "shop.py").write_text(shop)
    address = f"127.0.0.1:{free_ports(1)[0]}"
    code = EXAMPLES[number].replace("127.0.0.1:5000", address)
    (tmp_path / "example.py").write_text(code)
    with processes(tmp_path, address, "shop", "rollq.pickled"):
        run = [sys.executable, "example.py"]
        told = subprocess.run(run, cwd=tmp_path, check=True, stdout=subprocess.PIPE, text=True)
    assert told.stdout.splitlines() == re.findall(r"# prints (.*)$", code, re.MULTILINE)


@contextlib.contextmanager
def processes(directory: Path, address: str, *apps: str) -> Iterator[None]:
    """A member and a worker with modules of functions, as a person starts them: both are ready."""
    port = address.rpartition(":")[2]
    with Processes(directory) as running:
        running.start("leader", "leader", port)
        running.until_said("leader", "rollq member")
        options = ["--slots", "2", *(f"--app={one}" for one in apps)]
        running.start("worker", "worker", "127.0.0.1", port, *options)
        running.until_said("worker", "connected to leader")
        yield
        running.stop("worker")
        running.stop("leader")
