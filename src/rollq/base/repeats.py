"""Rate limit for log lines: the first lines of a kind are written, then a count now and then. Pure:
the time is a parameter."""

from __future__ import annotations

from typing import Final

QUIET_MS: Final = 10_000  # after a line of a kind; twice as long after the next, up to the maximum
QUIET_MS_MAX: Final = 600_000
KINDS_MAX: Final = 1_024  # remembered; the oldest is forgotten first


class Repeats:
    """Counts what is not written.

    Args:
        burst: So many lines of a kind are written before it is counted.
    """

    __slots__ = ("_burst", "_kinds")

    def __init__(self, burst: int = 1) -> None:
        self._burst = burst
        # By kind: lines written, lines counted since, when the next is written, the pause after it.
        self._kinds: dict[str, tuple[int, int, int, int]] = {}

    def line(self, kind: str, text: str, now_ms: int) -> str:
        """The line to write: the text, perhaps with the number of similar lines that were
        suppressed, or nothing."""
        counted = self.admit(kind, now_ms)
        if counted is None:
            return ""
        return f"{text} ({counted} more like this since)" if counted else text

    def admit(self, kind: str, now_ms: int) -> int | None:
        """Whether to write a line of this kind: the number suppressed since the last one, or None
        if this one is suppressed too."""
        written, counted, next_ms, pause_ms = self._kinds.pop(kind, (0, 0, 0, QUIET_MS))
        if written and now_ms >= next_ms + QUIET_MS_MAX:
            written, counted, pause_ms = 0, 0, QUIET_MS  # so long ago that it counts as new
        if written < self._burst:
            self._kinds[kind] = (written + 1, 0, now_ms + pause_ms, pause_ms)
        elif now_ms < next_ms:
            self._kinds[kind] = (written, counted + 1, next_ms, pause_ms)
            return None
        else:
            pause_ms = min(2 * pause_ms, QUIET_MS_MAX)
            self._kinds[kind] = (written, 0, now_ms + pause_ms, pause_ms)
        if len(self._kinds) > KINDS_MAX:
            del self._kinds[next(iter(self._kinds))]
        return counted

    def over(self, kind: str) -> None:
        """The condition has ended: the next line of this kind is written."""
        self._kinds.pop(kind, None)
