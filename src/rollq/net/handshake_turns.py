"""Schedules the steps of TLS handshakes, so that dialers do not starve connected sessions."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final, TypeAlias

REST_S_MIN: Final = 0.001  # the resolution of timers in all loops

Step: TypeAlias = Callable[[], None]


class HandshakeTurns:
    """One step at a time, followed by a pause of at least the same length. So handshakes use at
    most half of the loop's time, however many are pending.

    Round-robin by address, so that hundreds from one address do not delay a member at another one.
    Within one address, started handshakes come before new ones: few are open at a time, and waiting
    ones have cost nothing yet.

    Args:
        loop: Its clock and its timers.
        used_s: The CPU time of this thread, which excludes time used by others.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, used_s: Callable[[], float] = time.thread_time
    ) -> None:
        self._loop = loop
        self._used_s = used_s
        self._hosts: OrderedDict[str, _Host] = OrderedDict()  # round-robin, next first
        self._free_at = 0.0  # when the next step may be done
        self._is_planned = False

    def enter(self, host: str, step: Step, *, has_begun: bool) -> None:
        """Queue a step of a handshake."""
        steps = self._hosts.setdefault(host, _Host())
        (steps.begun if has_begun else steps.new).append(step)
        self._plan()

    def _plan(self) -> None:
        if self._is_planned or not self._hosts:
            return
        self._is_planned = True
        rest_s = self._free_at - self._loop.time()
        if rest_s > 0:
            self._loop.call_later(max(rest_s, REST_S_MIN), self._next)
        else:
            self._loop.call_soon(self._next)

    def _next(self) -> None:
        self._is_planned = False
        began = self._used_s()
        try:
            self._take()()
        finally:
            self._free_at = self._loop.time() + self._used_s() - began
            self._plan()

    def _take(self) -> Step:
        host, steps = self._hosts.popitem(last=False)
        step = (steps.begun or steps.new).popleft()
        if steps.begun or steps.new:
            self._hosts[host] = steps
        return step


class _Host:
    """The pending steps of one address."""

    __slots__ = ("begun", "new")

    def __init__(self) -> None:
        self.begun: deque[Step] = deque()
        self.new: deque[Step] = deque()
