"""How much of the machine blobs may take: all of it, or a small part while jobs come and go.

A job waits for a processor, for the lock of the interpreter, and for the disk, and what moves blobs
wants all three. So where there are jobs, blobs move in small steps with a rest after each, by how
long the step took: a faster machine moves more, and a machine that is short of something less.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Final, TypeVar

T = TypeVar("T")

REST: Final = 16  # so many times as long as a step took; with 6 the slowest jobs felt it
REST_S_MAX: Final = 0.05  # at once: blobs move on, however slow the machine is
REST_S_MIN: Final = 0.001  # what a timer of the loop can do


class Pace:
    """What several links share, and the threads that work for them.

    Args:
        is_busy: Whether there is work that must not wait. Called from threads.
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
        """Do something for blobs, and take note of how long it took. On a thread."""
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
        """For how long nothing is to be done for blobs now."""
        left_s = self._rest_until_s - self._now_s()
        return max(left_s, REST_S_MIN) if left_s > 0 and self.is_busy() else 0.0
