"""What a service manager is told (`sd_notify`): that the process serves, what it does, that it
ends, and that its loop goes round. Nothing is told where nobody wants to know (NOTIFY_SOCKET).

Signs of life come from the event loop: a process whose loop stands still gives none, and the
manager starts it anew (WatchdogSec). While it starts or ends it asks for more time: a large state
takes as long to read as it takes.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Iterator, MutableMapping
from typing import Final

PERIOD_S: Final = 5.0  # between two words, where no watchdog wants more
EAGER_S: Final = 0.5  # while it is not ready
MORE_USEC: Final = 60_000_000  # what is asked for while it starts or ends
STATUS_MAX: Final = 200


class ServiceNotes:
    """Words of one process to its service manager. Belongs to the loop."""

    def __init__(self, environ: MutableMapping[str, str] = os.environ) -> None:
        """Take the variables away from the environment: they are not for children."""
        self._address = _address_in(environ.pop("NOTIFY_SOCKET", ""))
        watchdog_s = _watchdog_s(environ.pop("WATCHDOG_USEC", ""), environ.pop("WATCHDOG_PID", ""))
        self._has_watchdog = watchdog_s > 0
        self._period_s = min(watchdog_s / 3, PERIOD_S) if watchdog_s else PERIOD_S
        self._status: Callable[[], str] = lambda: "starting"
        self._told_status = ""
        self._asks_ready: Callable[[], bool] = lambda: False
        self._is_ready = False
        self._is_ending = False
        self._timer: asyncio.TimerHandle | None = None

    @contextlib.contextmanager
    def running(self) -> Iterator[ServiceNotes]:
        """Within this, the process gives signs of life."""
        self._tick()
        try:
            yield self
        finally:
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None

    def serving(
        self,
        status: Callable[[], str],
        *,
        is_ready: Callable[[], bool] = lambda: True,
    ) -> None:
        """It is started.

        Args:
            status: what it does now, in a few words.
            is_ready: whether it is of use to others; that it is ready is told once it is.
        """
        self._status, self._asks_ready = status, is_ready
        self._tick()

    def ending(self) -> None:
        """It ends, and takes as long as that takes."""
        self._is_ending = True
        self._say("STOPPING=1")
        self._tick()

    def _tick(self) -> None:
        if not self._address:
            return
        words: list[str] = []
        if not self._is_ready and not self._is_ending and self._asks_ready():
            self._is_ready = True
            words.append("READY=1")
        if self._has_watchdog:
            words.append("WATCHDOG=1")
        if self._is_ending or not self._is_ready:
            words.append(f"EXTEND_TIMEOUT_USEC={MORE_USEC}")
        status = " ".join(self._status().split())[:STATUS_MAX]
        if status != self._told_status:
            self._told_status = status
            words.append(f"STATUS={status}")
        self._say("\n".join(words))
        if self._timer is not None:
            self._timer.cancel()
        period_s = self._period_s if self._is_ready else min(self._period_s, EAGER_S)
        self._timer = asyncio.get_running_loop().call_later(period_s, self._tick)

    def _say(self, words: str) -> None:
        """A manager that does not listen, or is gone, is no reason to do anything else."""
        if not words or not self._address:
            return
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
            end.setblocking(False)
            end.sendto(words.encode(), self._address)


def _address_in(text: str) -> str:
    """The socket; one that begins with @ has an abstract name."""
    if text.startswith("@"):
        return "\0" + text[1:]
    return text if text.startswith("/") else ""


def _watchdog_s(usec: str, pid: str) -> float:
    """How often a sign of life is expected; 0: not at all, or of another process."""
    if not usec.isdecimal() or (pid and pid != str(os.getpid())):
        return 0.0
    return int(usec) / 1_000_000
