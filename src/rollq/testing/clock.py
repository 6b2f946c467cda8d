"""Virtual time: a heap of scheduled actions, and clocks of nodes that drift and jump."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any, Final, TypeAlias

from rollq.testing.checkers.base import Violation

MS: Final = 1_000  # microseconds
SECOND: Final = 1_000_000
EPOCH_MS: Final = 1_700_000_000_000
PPM: Final = 1_000_000

# Within one virtual second. Runs have some thousand; more is a storm of messages.
EVENTS_PER_SECOND_MAX: Final = 200_000

Action: TypeAlias = Callable[..., None]


class VirtualTimeline:
    """The scheduled actions. Actions at the same time run in the order they were scheduled."""

    __slots__ = ("_heap", "_sequence", "event_count", "now_us")

    def __init__(self) -> None:
        self.now_us = 0
        self.event_count = 0
        self._sequence = 0
        self._heap: list[tuple[int, int, Action, tuple[Any, ...]]] = []

    def after(self, delay_us: int, action: Action, *arguments: Any) -> None:
        """Schedule an action."""
        self._sequence += 1
        heappush(self._heap, (self.now_us + delay_us, self._sequence, action, arguments))

    def run_until(self, end_us: int) -> None:
        """Run all actions up to this time."""
        heap = self._heap
        second_ends_us, count_max = 0, 0
        while heap and heap[0][0] <= end_us:
            self.now_us, _, action, arguments = heappop(heap)
            self.event_count += 1
            if self.now_us >= second_ends_us:
                second_ends_us = self.now_us + SECOND
                count_max = self.event_count + EVENTS_PER_SECOND_MAX
            elif self.event_count > count_max:
                raise Violation("storm", f"{EVENTS_PER_SECOND_MAX} events within a second")
            action(*arguments)
        self.now_us = end_us


class VirtualClock:
    """The clock of one node: its oscillator drifts, and its wall clock may be set."""

    __slots__ = ("_base_ms", "_drift_ppm", "_timeline", "_wall_offset_ms", "stalled_ms")

    def __init__(self, timeline: VirtualTimeline, drift_ppm: int = 0, base_ms: int = 0) -> None:
        self._timeline = timeline
        self._drift_ppm = drift_ppm
        self._base_ms = base_ms
        self._wall_offset_ms = 0
        self.stalled_ms = 0  # the sum of all leaps of monotonic time

    def now_ms(self) -> int:
        """Monotonic milliseconds."""
        now_us = self._timeline.now_us
        return self._base_ms + (now_us + now_us * self._drift_ppm // PPM) // MS

    def now_us(self) -> int:
        """Monotonic microseconds."""
        now_us = self._timeline.now_us
        return self._base_ms * MS + now_us + now_us * self._drift_ppm // PPM

    def wall_ms(self) -> int:
        """Milliseconds since 1970, by the node's wall clock."""
        return EPOCH_MS + self.now_ms() - self._base_ms + self._wall_offset_ms

    def jump(self, by_ms: int) -> None:
        """Set the wall clock."""
        self._wall_offset_ms += by_ms

    def stall(self, by_ms: int) -> None:
        """The machine is suspended: monotonic time leaps forward when it resumes."""
        self._base_ms += by_ms
        self.stalled_ms += by_ms

    def correct(self) -> None:
        """Set the wall clock right."""
        self._wall_offset_ms = 0
