"""The group's time, as one member knows it: the stamp of the last entry, and what its own monotonic
clock measured since. Wall clocks only start it; after that they move it through the log alone
(`AdvanceTime`), or slow it down where it is ahead of them."""

from __future__ import annotations

from typing import Final

from rollq.base.stamp import Clock

SLOWER_BY: Final = 10  # one part in so many, while the group's time is ahead of the wall clocks


class GroupClock:
    """Follows the log; the leader stamps entries with it."""

    __slots__ = ("_base_ms", "_clock", "_is_slow", "_since_ms")

    def __init__(self, clock: Clock, time_ms: int) -> None:
        self._clock = clock
        self._is_slow = False
        self._base_ms = time_ms
        self._since_ms = clock.now_ms()

    def now_ms(self) -> int:
        """The group's time now. A leader's never goes back."""
        passed_ms = max(0, self._clock.now_ms() - self._since_ms)
        if self._is_slow:
            passed_ms -= passed_ms // SLOWER_BY
        return self._base_ms + passed_ms

    def follow(self, time_ms: int) -> None:
        """An entry of another leader was applied: it is so late now."""
        self._base_ms = time_ms
        self._since_ms = self._clock.now_ms()

    def lead(self, time_ms: int) -> None:
        """This member stamps from now on. A group that never had a stamp starts with its clock."""
        self._is_slow = False
        if not time_ms:
            self.follow(self._clock.wall_ms())

    def reach(self, time_ms: int) -> None:
        """An own entry was applied; it may have moved the group's time forward."""
        if time_ms > self.now_ms():
            self.follow(time_ms)

    def slow_down(self, is_ahead: bool) -> None:
        """Whether the group's time is ahead of what the members' wall clocks say."""
        if is_ahead is not self._is_slow:
            self.follow(self.now_ms())
            self._is_slow = is_ahead
