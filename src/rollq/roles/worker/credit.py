"""Credit of a worker: for free slots, and for a prefetch of short jobs. Pure.

Prefetched jobs wait behind others, so the prefetch is bounded by time: by the mean of recent runs,
all waiting jobs start within AHEAD_MS. The run time that the leader expects of a job counts as a
run, so that the window closes when a long job arrives, and not only after it has run. While a run
takes longer than AHEAD_MS, nothing is prefetched.
"""

from __future__ import annotations

from typing import Final

AHEAD_MS: Final = 50
WEIGHT: Final = 0.1  # of the newest run in the mean
MEAN_MS_MIN: Final = 0.01


class PrefetchWindow:
    """How many jobs may be prefetched: 0 until runs are known to be short.

    Attributes:
        is_stuck: Some run takes longer than AHEAD_MS; set at each tick.
    """

    __slots__ = ("_mean_ms", "_most", "_slots", "is_stuck")

    def __init__(self, slots: int, most: int) -> None:
        self._slots = slots
        self._most = most
        self._mean_ms = float(2 * AHEAD_MS * slots)  # no window before the first runs
        self.is_stuck = False

    def ran(self, run_ms: float) -> None:
        """Add a run time to the mean."""
        self._mean_ms += (run_ms - self._mean_ms) * WEIGHT

    def ran_alike(self, run_ms: float, count: int) -> None:
        """Add a run time `count` times."""
        self._mean_ms = run_ms + (self._mean_ms - run_ms) * (1 - WEIGHT) ** count

    @property
    def size(self) -> int:
        """0 <= size <= the configured maximum of prefetched jobs."""
        if not self._most or self.is_stuck:
            return 0
        return min(self._most, int(self._slots * AHEAD_MS / max(self._mean_ms, MEAN_MS_MIN)))


class SessionCredit:
    """The credit of one session.

    Invariant: a grant leaves `in_hand + granted + owed` at or below slots + prefetch window, where
    `in_hand` counts the attempts whose work has not ended.

    Attributes:
        granted: Granted in this session and not spent, as far as the worker knows.
        owed: Assignments announced by Welcome; they take no credit.
        cpu_busy: The host is above its CPU cap.
        window: The prefetch window; it outlives sessions.
    """

    __slots__ = ("_slots", "cpu_busy", "granted", "owed", "window")

    def __init__(self, slots: int, prefetch_max: int) -> None:
        self._slots = slots
        self.window = PrefetchWindow(slots, prefetch_max)
        self.granted = 0
        self.owed = 0
        self.cpu_busy = False

    def reset(self, owed: int = 0) -> None:
        """Start a session: the credit of the previous one is void."""
        self.granted = 0
        self.owed = owed

    def spend(self, *, is_new: bool) -> None:
        """An assignment arrived. Owed ones count first; a repeated attempt takes no credit."""
        if self.owed:
            self.owed -= 1
        elif is_new and self.granted:
            self.granted -= 1

    def spend_many(self, count: int) -> None:
        """So many new assignments arrived."""
        owed = min(self.owed, count)
        self.owed -= owed
        self.granted = max(self.granted - (count - owed), 0)

    def grant(self, in_hand: int) -> int:
        """Grant as much as possible now; returns the amount."""
        count = self._due(in_hand + self.granted + self.owed)
        self.granted += count
        return count

    def _due(self, taken: int) -> int:
        if self.cpu_busy:
            # A busy host gets one job at a time, but not none: it may be busy for ever.
            return int(taken == 0)
        window = self.window.size
        count = self._slots + window - taken
        # Small amounts are held back while there is enough work: a frame costs more.
        is_small = count < window // 4 and taken > self._slots + window // 2
        return 0 if is_small else max(count, 0)
