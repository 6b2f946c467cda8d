"""A leader with timers, whose clock stands still until a test moves it."""

from __future__ import annotations

from collections.abc import Callable

from rollq.grid.commands import (
    Command,
    LostAttempt,
    Settings,
)
from rollq.grid.effects import Applied
from rollq.policy.expiry import STALL_MS, Expiry
from tests.unit.grid.kit import Grid, job_id, worker_id
from tests.unit.roles.chance import MiddleJitter

LEASE_MS = 5_000  # what the kit's assignments ask for
AGAIN_MS = Settings().lease_ms  # when a proposal that came to nothing is made again
BACKOFF_MS = Settings().retry_base_ms


class AwakeExpiry(Expiry):
    """Of a process that never stands still, however far a test moves the clock at once."""

    def _lease_clock_ms(self, now_ms: int) -> int:
        while now_ms - self._now_ms > STALL_MS:
            super()._lease_clock_ms(self._now_ms + STALL_MS)
        return super()._lease_clock_ms(now_ms)


class Leader(Grid):
    """A grid with timers; time passes only by `at`."""

    def __init__(self, make_expiry: Callable[[], Expiry] = AwakeExpiry) -> None:
        self._make_expiry = make_expiry
        self.expiry = make_expiry()
        self.now_ms = 0
        super().__init__()
        self.expiry.gain(self.state, 0, self.stamp_ms)
        self.expiry.worker_returned(worker_id("w1"))

    def apply(self, *commands: Command) -> Applied:
        applied = super().apply(*commands)
        self.expiry.observe(applied.events, self.state, self.now_ms)
        return applied

    def at(self, now_ms: int, count_max: int = 1_000) -> list[Command]:
        """Let time pass; what is due then."""
        self.now_ms = now_ms
        return self.expiry.due(self.state, now_ms, MiddleJitter(), count_max)

    def next_due_ms(self) -> int | None:
        """The earliest of all timers; None if nothing is timed."""
        due = [timers.next_ms() for timers in self.expiry._timers]
        return min((one for one in due if one is not None), default=None)

    @property
    def is_reading(self) -> bool:
        """Whether records are left whose timers are not known."""
        return self.expiry._scan is not None

    def run(self, now_ms: int) -> list[Command]:
        """Let time pass and apply what is due."""
        due = self.at(now_ms)
        if due:
            self.apply(*due)
        return due

    def take_over(self, now_ms: int, wall_ms: int) -> None:
        """Another member becomes the leader, with other clocks."""
        self.now_ms = now_ms
        self.expiry = self._make_expiry()
        self.expiry.gain(self.state, now_ms, wall_ms)


def lost(name: str, attempt: int = 1, delay_ms: int = BACKOFF_MS) -> LostAttempt:
    return LostAttempt(job_id(name), attempt, delay_ms)
