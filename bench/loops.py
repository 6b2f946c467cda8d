"""The event loop of clients and of peers' Python workers, the same for both sides.

rollq's members and workers choose their own, as they do for users: uvloop where it is installed.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from typing import Any, Final, TypeVar

Value = TypeVar("Value")

UVLOOP: Final = "uvloop"
ASYNCIO: Final = "asyncio"
NAMES: Final = (UVLOOP, ASYNCIO)
LOOP: Final = "ROLLQ_BENCH_LOOP"  # the environment tells a case's processes

_used: dict[str, None] = {}


def choose(name: str) -> None:
    """Which loop `run` takes, here and in the processes that are started from here."""
    os.environ[LOOP] = name


def run(main: Coroutine[Any, Any, Value], name: str = "") -> Value:
    """Run a coroutine on the loop that was chosen, or on the one named."""
    name = name or os.environ.get(LOOP, UVLOOP)
    _used[name] = None
    factory = None
    if name == UVLOOP:
        import uvloop  # noqa: PLC0415 - not on Windows

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(main)


def used() -> str:
    """The loops on which this process ran something; empty if it ran nothing on any."""
    return ", ".join(_used)
