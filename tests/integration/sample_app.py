"""Functions that the worker's tests run."""

from __future__ import annotations

import asyncio
import contextvars
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass

from rollq import context, task


@dataclass
class Order:
    item: str
    count: int


@task("noop")
async def noop(payload: bytes = b"") -> None:
    await asyncio.sleep(0)


@task("greet_in_loop")
async def greet_in_loop(name: str) -> str:
    await asyncio.sleep(0)
    return f"hello {name}"


TRACE: contextvars.ContextVar[str] = contextvars.ContextVar("TRACE", default="")


@task("trace_in_loop")
async def trace_in_loop(name: str) -> str:
    """Never waits; what an earlier call set must not be seen."""
    before = TRACE.get()
    TRACE.set(name)
    return before


@task("leave_in_loop")
async def leave_in_loop() -> None:
    """Asks for its own end and returns before it comes."""
    current = asyncio.current_task()
    assert current is not None
    current.cancel()


@task("wait_in_loop")
async def wait_in_loop() -> None:
    await asyncio.Event().wait()


@task("exit_in_loop")
async def exit_in_loop() -> None:
    await asyncio.sleep(0)
    sys.exit(3)


@task("add")
def add(left: str, right: str) -> int:
    return int(left) + int(right)


@task()
def raw(payload: bytes) -> bytes:
    return payload[::-1]


@task("order")
def order(what: Order) -> dict[str, int]:
    return {what.item: what.count}


@task("fails")
def fails() -> None:
    raise ValueError("no such luck")


@task("odd")
def odd() -> object:
    return object()


@task("deaf")
def deaf() -> None:
    """As some libraries do: what is set here stays set in the process."""
    signal.signal(signal.SIGTERM, signal.SIG_IGN)


@task("dies")
def dies() -> None:
    os.abort()


@task("naps")
def naps(path: str) -> str:
    """Says who it is, then waits to be ended; tells in the file if it could clean up."""
    with open(path, "a") as file:
        file.write(f"{os.getpid()}\n")
    try:
        time.sleep(600)
    except TimeoutError:
        with open(path, "a") as file:
            file.write("cleaned up\n")
        raise
    return "slept"


@task("parent")
def parent(path: str) -> None:
    with subprocess.Popen(["sleep", "600"]) as child, open(path, "w") as file:
        file.write(f"{child.pid}\n")
        file.flush()
        child.wait()


@task("big_bytes")
def big_bytes(count: str) -> bytes:
    return bytes(range(256)) * (int(count) // 256)


@task("big_text")
def big_text(count: str) -> str:
    return "é\x07" * (int(count) // 2)


@task("big_list")
def big_list(count: str) -> list[int]:
    return list(range(int(count)))


@task("big_in_loop")
async def big_in_loop(count: str) -> list[int]:
    await asyncio.sleep(0)
    return list(range(int(count)))


@task("bytes_in_loop")
async def bytes_in_loop(count: str) -> bytes:
    return bytes(range(256)) * (int(count) // 256)


@task("environ")
def environ() -> dict[str, str]:
    return dict(os.environ)


@task("environment_of")
def environment_of(name: str) -> str | None:
    return os.environ.get(name)


@task("raise_with")
def raise_with(name: str) -> None:
    raise ValueError(os.environ[name])


@task("typed")
def typed(number: int) -> int:
    return number


@task("tells_parents")
def tells_parents() -> list[str]:
    """What its job waited for, in a warm process."""
    return [f"{one.exec} {one.state} {one.exit_code}" for one in context().parents]


@task("tells_parents_in_loop")
async def tells_parents_in_loop() -> list[str]:
    """The same in the worker's own loop."""
    await asyncio.sleep(0)
    return [f"{one.exec} {one.state} {one.exit_code}" for one in context().parents]
