"""Throttles blob transfers while jobs start and end.

Jobs wait for CPU, the GIL and the disk, and blob transfers use all three. So while there are jobs,
each step of a transfer is followed by a rest in proportion to its duration: a faster machine
transfers more, and a saturated one less.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")

REST: Final = 16  # rest per duration of a step; 6 measurably delayed the slowest jobs
REST_S_MAX: Final = 0.05  # upper bound, so that transfers progress on a slow machine too
REST_S_MIN: Final = 0.001  # the resolution of the loop's timers


class Throttle:
    """A throttle shared by several links and their threads.

    Args:
        is_busy: Whether there is work with priority. Called from threads.
        now_s: A clock.
    """

    def __init__(
        self, is_busy: Callable[[], bool], now_s: Callable[[], float] = time.monotonic
    ) -> None:
        self.is_busy = is_busy
        self._now_s = now_s
        self._rest_until_s = 0.0
        self._lock = threading.Lock()

    def step(self, task: Callable[[], T]) -> T:
        """Run a step and account for its duration. Called from a thread."""
        began_s = self._now_s()
        try:
            return task()
        finally:
            if self.is_busy():
                ended_s = self._now_s()
                with self._lock:
                    due_s = max(self._rest_until_s, ended_s) + REST * (ended_s - began_s)
                    self._rest_until_s = min(due_s, ended_s + REST_S_MAX)

    def rest_s(self) -> float:
        """For how long no step may start."""
        left_s = self._rest_until_s - self._now_s()
        return max(left_s, REST_S_MIN) if left_s > 0 and self.is_busy() else 0.0
