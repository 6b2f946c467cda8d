"""Time and randomness as parameters: the pure packages read neither by themselves."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """The shell's clock; the simulator has a virtual one."""

    def now_ms(self) -> int:
        """Monotonic milliseconds: for timers. Never goes back, may start anywhere."""

    def now_us(self) -> int:
        """As `now_ms`, in microseconds: for measurements."""

    def wall_ms(self) -> int:
        """Milliseconds since 1970 UTC: for stamps that people read. May jump."""


class Jitter(Protocol):
    """A seeded source of randomness."""

    def draw(self, low: int, high: int) -> int:
        """An integer, low <= x < high."""

    def draw_id(self) -> bytes:
        """Sixteen random bytes: a new id."""


class Calendar(Protocol):
    """When local clocks show what a cron line names; zone data is read outside of the core."""

    def next_ms(self, cron: str, zone: str, after_ms: int) -> int:
        """The first instant of the line after another; raises RemoteError if there is none."""
