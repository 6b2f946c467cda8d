"""How many jobs to fetch beyond the free slots, so that a slot does not wait for the network.

Fetching ahead hides jobs behind others, so it is bounded by time: by the mean of recent runs,
what waits here is done within AHEAD_MS. What the leader says to expect of a job counts as a run
that was seen, so that the window closes when something long comes, and not only when it has run.
While something runs for longer than AHEAD_MS, nothing more is fetched ahead at all. Pure: run times
in, numbers out.
"""

from __future__ import annotations

from typing import Final

from rollq.wire.messages import AssignJob

AHEAD_MS: Final = 50
GIVE_BACK_MS: Final = 2_000  # what waited so long after all goes back to the grid
WEIGHT: Final = 0.1  # of the newest run in the mean


class Lookahead:
    """The window of one worker: 0 until runs are known to be short."""

    def __init__(self, slots: int, ahead_max: int) -> None:
        self._slots = slots
        self._ahead_max = ahead_max
        self._mean_ms = float(2 * AHEAD_MS * slots)  # no window before the first runs
        self.stuck = False  # something runs for longer than AHEAD_MS

    def ran(self, run_ms: float) -> None:
        """A run took so long."""
        self._mean_ms += (run_ms - self._mean_ms) * WEIGHT

    def grant(self, banked: int, unspent: int, load: int) -> int:
        """How much of the banked credit to give now, with so much unspent, and so many running or
        waiting. Small change is kept back while there is enough to do: a frame costs more."""
        window = 0
        if self._ahead_max and not self.stuck:
            mean_ms = max(self._mean_ms, 0.01)
            window = min(self._ahead_max, int(self._slots * AHEAD_MS / mean_ms))
        in_hand = unspent + load
        count = min(banked, self._slots + window - in_hand)
        is_change = count < window // 4 and in_hand > self._slots + window // 2
        return 0 if is_change else max(count, 0)


def may_run_again(job: AssignJob) -> bool:
    """Whether giving it back leaves it another attempt."""
    return job.attempt == 1 and (job.options is None or job.options.max_attempts != 1)
