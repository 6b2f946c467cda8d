"""Notifies a service manager (`sd_notify`): ready, status, stopping and watchdog. Does nothing
without NOTIFY_SOCKET.

Watchdog notifications come from the event loop: if it is blocked, the manager restarts the process
(WatchdogSec). During start and stop it extends the timeout, because a large state takes long to
read.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
from collections.abc import Callable, Iterator, MutableMapping
from typing import Final

PERIOD_S: Final = 5.0  # notification interval, unless the watchdog needs a shorter one
EAGER_S: Final = 0.5  # while it is not ready
MORE_USEC: Final = 60_000_000  # timeout extension during start and stop
STATUS_MAX: Final = 200


class ServiceNotes:
    """Notifications of one process. Used in the event loop only."""

    def __init__(self, environ: MutableMapping[str, str] = os.environ) -> None:
        """Remove the variables from the environment, so that children do not inherit them."""
        self._address = _address_in(environ.pop("NOTIFY_SOCKET", ""))
        watchdog_s = _watchdog_s(environ.pop("WATCHDOG_USEC", ""), environ.pop("WATCHDOG_PID", ""))
        self._has_watchdog = watchdog_s > 0
        self._period_s = min(watchdog_s / 3, PERIOD_S) if watchdog_s else PERIOD_S
        self._status: Callable[[], str] = lambda: "starting"
        self._sent_status = ""
        self._asks_ready: Callable[[], bool] = lambda: False
        self._is_ready = False
        self._is_ending = False
        self._timer: asyncio.TimerHandle | None = None

    @contextlib.contextmanager
    def running(self) -> Iterator[ServiceNotes]:
        """Context manager that sends notifications periodically."""
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
        """The process has started.

        Args:
            status: Returns a short description of the current state.
            is_ready: Whether it can be used; READY is sent when it returns true.
        """
        self._status, self._asks_ready = status, is_ready
        self._tick()

    def ending(self) -> None:
        """The process is stopping, without a time limit."""
        self._is_ending = True
        self._send("STOPPING=1")
        self._tick()

    def _tick(self) -> None:
        if not self._address:
            return
        lines: list[str] = []
        if not self._is_ready and not self._is_ending and self._asks_ready():
            self._is_ready = True
            lines.append("READY=1")
        if self._has_watchdog:
            lines.append("WATCHDOG=1")
        if self._is_ending or not self._is_ready:
            lines.append(f"EXTEND_TIMEOUT_USEC={MORE_USEC}")
        status = " ".join(self._status().split())[:STATUS_MAX]
        if status != self._sent_status:
            self._sent_status = status
            lines.append(f"STATUS={status}")
        self._send("\n".join(lines))
        if self._timer is not None:
            self._timer.cancel()
        period_s = self._period_s if self._is_ready else min(self._period_s, EAGER_S)
        self._timer = asyncio.get_running_loop().call_later(period_s, self._tick)

    def _send(self, lines: str) -> None:
        """Send to the manager; errors are ignored."""
        if not lines or not self._address:
            return
        with contextlib.suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as end:
            end.setblocking(False)
            end.sendto(lines.encode(), self._address)


def _address_in(text: str) -> str:
    """The socket address; a leading @ means an abstract socket."""
    if text.startswith("@"):
        return "\0" + text[1:]
    return text if text.startswith("/") else ""


def _watchdog_s(usec: str, pid: str) -> float:
    """The watchdog interval; 0 if there is none, or it is for another process."""
    if not usec.isdecimal() or (pid and pid != str(os.getpid())):
        return 0.0
    return int(usec) / 1_000_000
