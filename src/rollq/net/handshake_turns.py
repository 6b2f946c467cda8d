"""Which step of which TLS handshake is done next, and when: those who dial must not take the loop
away from those who are connected."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Final, TypeAlias

REST_S_MIN: Final = 0.001  # what timers of all loops can tell from nothing

Step: TypeAlias = Callable[[], None]


class HandshakeTurns:
    """One step at a time; then the loop is left to others for at least as long as the step took.
    So handshakes have half of it at most, however many dial, and the rest of them wait.

    Addresses take turns, so that hundreds that dial from one do not hold up a member that dials
    from another. Of one address, handshakes that have begun go on before others begin: few are open
    at a time, and those who wait have cost nothing yet.

    Args:
        loop: Its clock and its timers.
        used_s: The processor time of this thread: while others have the processor, a step costs
            nothing.
    """

    def __init__(
        self, loop: asyncio.AbstractEventLoop, used_s: Callable[[], float] = time.thread_time
    ) -> None:
        self._loop = loop
        self._used_s = used_s
        self._hosts: OrderedDict[str, _Host] = OrderedDict()  # whose turn it is, first
        self._free_at = 0.0  # when the next step may be done
        self._is_planned = False

    def enter(self, host: str, step: Step, *, has_begun: bool) -> None:
        """Have a step of a handshake done when its turn comes."""
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
    """What waits of one address."""

    __slots__ = ("begun", "new")

    def __init__(self) -> None:
        self.begun: deque[Step] = deque()
        self.new: deque[Step] = deque()
