"""Runs an event loop until a signal ends it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Iterator
from typing import Any, Final, TypeVar

from rollq.cli.failures import EXIT_INTERRUPTED
from rollq.net.loops import new_loop
from rollq.security.tls import reload_all

Value = TypeVar("Value")
SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)
ENDING: Final = (signal.SIGTERM, signal.SIGHUP)


# How long a disk thread waits for the interpreter lock before it can report a write. Python's
# default of 5 ms is many times the duration of a sync.
SWITCH_S: Final = 0.000_05


def run(main: Coroutine[Any, Any, Value]) -> Value:
    """Run a coroutine on the fastest available loop."""
    sys.setswitchinterval(SWITCH_S)
    # Closed, so that Ctrl-C before it begins has no warning of a coroutine that never ran.
    with contextlib.closing(main), asyncio.Runner(loop_factory=new_loop) as runner:
        return runner.run(main)


@contextlib.contextmanager
def on_signals(stop: Callable[[], None]) -> Iterator[None]:
    """Within this, the first SIGTERM or SIGINT calls `stop`; the second exits at once. SIGHUP
    reloads certificates."""
    loop = asyncio.get_running_loop()
    seen: list[int] = []

    def signalled(number: int) -> None:
        if seen:
            os._exit(EXIT_INTERRUPTED)
        seen.append(number)
        stop()

    for number in SIGNALS:
        loop.add_signal_handler(number, signalled, number)
    loop.add_signal_handler(signal.SIGHUP, reload_all)
    try:
        yield
    finally:
        for number in (*SIGNALS, signal.SIGHUP):
            loop.remove_signal_handler(number)


@contextlib.contextmanager
def interrupted_by_signals() -> Iterator[None]:
    """Outside of a loop: SIGTERM and SIGHUP raise KeyboardInterrupt, so that cleanup code runs."""

    def interrupt(_number: int, _frame: object) -> None:
        raise KeyboardInterrupt

    before = {number: signal.signal(number, interrupt) for number in ENDING}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
