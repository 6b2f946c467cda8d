"""A forked child that uses the client of its parent is told so at once."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from rollq import BlockingClient, BlockingMultiClient, Client, Executor, LocalError
from tests.integration.patience import DEADLINE_S
from tests.integration.small_grid import SmallGrid

APPS = ("tests.integration.sample_app",)


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SmallGrid]:
    with SmallGrid(tmp_path_factory.mktemp("forks"), *APPS) as running:
        yield running


def in_child(call: Callable[[], Any]) -> str:
    """What a call raises in a forked child, as it would be printed."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid == 0:  # no cleaning up of the parent's things here: leave without it
        signal.alarm(int(DEADLINE_S))
        said = "nothing"
        try:
            call()
        except BaseException as error:
            said = f"{type(error).__name__}: {error}"
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    _, status = os.waitpid(pid, 0)
    assert status == 0, "the child waited for ever"
    return said


def test_a_blocking_client_says_so(grid: SmallGrid) -> None:
    with BlockingClient(grid.address) as client:
        job = client.submit("add", ["1", "2"])
        large = client.submit("big_list", ["20000"]).result(DEADLINE_S)
        waiting = client.submit("add", ["1", "2"], delay=3600)
        for call in (
            lambda: client.submit("add", ["5", "5"]).result(5),
            waiting.result,
            client.counts,
            lambda: list(client.map("add", [["1", "2"]])),
            lambda: large.value,
        ):
            said = in_child(call)
            assert said.startswith("LocalError"), said
            assert "make a client of its own in the child" in said
        assert in_child(client.stop) == "nothing"
        assert job.result(DEADLINE_S).value == "3", "the parent's goes on"
        assert client.submit("add", ["5", "5"]).result(DEADLINE_S).value == "10"


def test_futures_and_several_groups_say_so(grid: SmallGrid) -> None:
    with Executor(grid.address) as executor:
        said = in_child(lambda: executor.submit("add", "1", "2").result(5))
        assert "is a fork" in said
        assert executor.submit("add", "1", "2").result(DEADLINE_S) == "3"
    with BlockingMultiClient([grid.address]) as client:
        assert "is a fork" in in_child(lambda: client.submit("add", ["1", "2"]).result(5))
        assert client.submit("add", ["1", "2"]).result(DEADLINE_S).value == "3"


def test_an_asyncio_client_says_so(grid: SmallGrid) -> None:
    async def story() -> None:
        async with Client(grid.address) as client:
            waiting = await client.submit("add", ["1", "2"], delay=3600)

            def ask() -> None:
                asyncio.run(client.submit("add", ["1", "2"]))

            def wait() -> None:
                asyncio.run(waiting.result())

            for call in (ask, wait):
                assert "is a fork" in in_child(partial(in_thread_loop, call))
            job = await client.submit("add", ["1", "2"])
            assert (await job.result(DEADLINE_S)).value == "3"

    asyncio.run(story())


def in_thread_loop(call: Callable[[], Any]) -> Any:
    """In a forked child no loop runs, whatever the parent did."""
    with pytest.raises(LocalError) as caught:
        call()
    raise caught.value


def test_a_client_that_was_only_made_before_the_fork_works(grid: SmallGrid, tmp_path: Path) -> None:
    client = BlockingClient(grid.address)

    def use() -> None:
        with client:
            (tmp_path / "value").write_text(str(client.submit("add", ["2", "2"]).result(30).value))

    assert in_child(use) == "nothing"
    assert (tmp_path / "value").read_text() == "4"
