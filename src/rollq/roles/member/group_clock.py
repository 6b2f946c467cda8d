"""The group's time on one member: the stamp of the last entry, plus the time that its own monotonic
clock measured since. Wall clocks only start it; later they move it through the log alone
(`AdvanceTime`), or slow it down while it is ahead of them."""

from __future__ import annotations

from typing import Final

from rollq.base.stamp import Clock

SLOWER_BY: Final = 10  # slow by 1/10 while the group's time is ahead of the wall clocks


class GroupClock:
    """Follows the stamps of the log; the leader stamps entries with it."""

    __slots__ = ("_base_ms", "_clock", "_held_ms", "_is_slow", "_since_ms")

    def __init__(self, clock: Clock, time_ms: int) -> None:
        self._clock = clock
        self._is_slow = False
        self._base_ms = time_ms
        self._since_ms = clock.now_ms()
        self._held_ms: int | None = None  # the time at which the leap under way was proposed

    def now_ms(self) -> int:
        """The group's time now. A leader's never goes back."""
        passed_ms = max(0, self._clock.now_ms() - self._since_ms)
        if self._is_slow:
            passed_ms -= passed_ms // SLOWER_BY
        return self._base_ms + passed_ms

    def rates_ms(self) -> int:
        """The time for rate limits. It stands still while a leap is under way: entries behind the
        leap are stamped with its end, however long it took to be applied, so a start is decided
        only if the rate allowed it when the leap was proposed."""
        return self.now_ms() if self._held_ms is None else self._held_ms

    @property
    def is_leaping(self) -> bool:
        """Whether this leader has proposed a leap that is not applied yet."""
        return self._held_ms is not None

    def begin_leap(self) -> None:
        """This leader proposes a leap."""
        self._held_ms = self.now_ms()

    def end_leap(self) -> None:
        """The leap is applied, or refused."""
        self._held_ms = None

    def follow(self, time_ms: int) -> None:
        """Set the time to the stamp of an applied entry."""
        self._base_ms = time_ms
        self._since_ms = self._clock.now_ms()

    def lead(self, time_ms: int) -> None:
        """This member stamps from now on. A group without any stamp starts with its wall clock."""
        self._is_slow = False
        self.end_leap()  # one of an earlier term is applied or lost
        if not time_ms:
            self.follow(self._clock.wall_ms())

    def reach(self, time_ms: int) -> None:
        """An entry of this leader was applied; it may have moved the group's time forward."""
        if time_ms > self.now_ms():
            self.follow(time_ms)

    def slow_down(self, is_ahead: bool) -> None:
        """Slow down or go at full speed: whether the group's time is ahead of the wall clocks."""
        if is_ahead is not self._is_slow:
            self.follow(self.now_ms())
            self._is_slow = is_ahead
