"""CPU seconds of this process by function of rollq, sampled: a timer of CPU time, not of the clock.

Every tick charges what the main thread has used since the last one to the innermost function of
rollq on its stack, `module:function`. What C code does (msgspec, system calls) counts where it was
called. What other threads used in the meantime is charged to THREADS, and time without rollq on the
stack to LOOP.
"""

from __future__ import annotations

import signal
import time
from collections import defaultdict
from types import FrameType
from typing import Final

TICK_S: Final = 0.001
ROLLQ: Final = "rollq."
HELPERS: Final = "rollq.base."  # they work for whoever called them
THREADS: Final = "(other threads)"
LOOP: Final = "(loop)"


class Sampler:
    """One of a process; in its main thread."""

    def __init__(self) -> None:
        self.seconds: defaultdict[str, float] = defaultdict(float)
        self._main_s = 0.0
        self._all_s = 0.0

    def start(self) -> None:
        """From now on."""
        self._main_s, self._all_s = time.thread_time(), time.process_time()
        signal.signal(signal.SIGPROF, self._on_tick)
        signal.setitimer(signal.ITIMER_PROF, TICK_S, TICK_S)

    def stop(self) -> None:
        """No more."""
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, signal.SIG_IGN)

    def charge(self, place: str, main_s: float, all_s: float) -> None:
        """What the main thread and the whole process have used until now."""
        used_s = main_s - self._main_s
        self.seconds[place] += used_s
        self.seconds[THREADS] += max(0.0, all_s - self._all_s - used_s)
        self._main_s, self._all_s = main_s, all_s

    def _on_tick(self, _signal: int, frame: FrameType | None) -> None:
        self.charge(place_of(frame), time.thread_time(), time.process_time())


def place_of(frame: FrameType | None) -> str:
    """The innermost function of rollq that is at work; LOOP if there is none."""
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if name.startswith(ROLLQ) and not name.startswith(HELPERS):
            return f"{name}:{frame.f_code.co_qualname}"
        frame = frame.f_back
    return LOOP
