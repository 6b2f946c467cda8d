"""Retention of history: whole segments are deleted, oldest first, by size and by age.

Nothing is deleted from the next index of a named reader on. The floor on disk records what was
deleted, so that it is not taken for a gap and fetched from a peer again.
"""

from __future__ import annotations

from dataclasses import dataclass

from rollq.history.segments import Segments

DAY_MS = 24 * 3_600_000


@dataclass(slots=True, frozen=True)
class Retention:
    """The bounds; 0: none."""

    bytes_max: int = 0
    age_ms_max: int = 0

    @property
    def is_bounded(self) -> bool:
        """Whether anything is ever deleted."""
        return bool(self.bytes_max or self.age_ms_max)

    def sweep(self, segments: Segments, now_ms: int, hold_from: int | None = None) -> int:
        """Delete segments beyond the bounds; durable when it returns.

        Args:
            segments: the history.
            now_ms: now, by the clock that stamps rows.
            hold_from: the lowest index that a named reader has not read; None: there is no reader.

        Returns:
            The floor: history up to it is deleted.
        """
        listed = segments.sizes()
        total = sum(size for _, _, size in listed)
        floor = segments.floor()
        forget_to = floor
        for first, last, size in listed:
            if hold_from is not None and last >= hold_from:
                break
            is_excess = self.bytes_max and total > self.bytes_max
            if not is_excess and not self._is_old(segments, first, last, now_ms):
                break
            total -= size
            forget_to = max(forget_to, last)
        if forget_to > floor or (listed and listed[0][1] <= floor):  # a crash left some behind
            segments.forget(forget_to)
        return forget_to

    def _is_old(self, segments: Segments, first: int, last: int, now_ms: int) -> bool:
        """Whether all rows of a segment are older than the bound. One without rows goes with those
        before it; a damaged one stays, until somebody fetches it anew."""
        if not self.age_ms_max:
            return False
        newest_ms = segments.newest_ms(first, last)
        return newest_ms is not None and now_ms - newest_ms > self.age_ms_max
