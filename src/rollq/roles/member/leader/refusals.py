"""Who was refused what, on its way into the history: joined and counted, so that whoever asks a
million times for what they may not do fills neither the log nor the memory. Pure.
"""

from __future__ import annotations

from typing import Final

from rollq.base.limits import (
    ACCESS_RESOURCE_BYTES_MAX,
    ADDRESS_BYTES_MAX,
    REFUSALS_NOTE_MS,
    REFUSALS_PER_NOTE_MAX,
)
from rollq.grid.access_commands import NoteRefusals, Refusal

OTHERS: Final = "…"  # in place of what there is no room for
ALL_OTHERS: Final = (OTHERS, OTHERS, OTHERS, OTHERS)


class Refusals:
    """What one leader has refused and not put into the log yet."""

    __slots__ = ("_counts", "_due_ms")

    def __init__(self) -> None:
        # By account, action, resource and host; at most REFUSALS_PER_NOTE_MAX.
        self._counts: dict[tuple[str, str, str, str], int] = {}
        self._due_ms = 0

    def add(self, account: str, action: str, resource: str, address: str) -> None:
        """Somebody was refused. Where there is no room for another row it is counted without its
        resource, or at last with all others that there is no room for."""
        host = _cut(address.rpartition(":")[0] or address, ADDRESS_BYTES_MAX)
        row = (account, action, _cut(resource, ACCESS_RESOURCE_BYTES_MAX), host)
        joined = (account, action, OTHERS, host)
        counts = self._counts
        for key, left_free in ((row, 2), (joined, 1), (ALL_OTHERS, 0)):
            if key in counts or len(counts) < REFUSALS_PER_NOTE_MAX - left_free:
                counts[key] = counts.get(key, 0) + 1
                return

    def due(self, now_ms: int) -> list[NoteRefusals]:
        """What to propose now: the first refusals at once, and those of the next seconds together
        afterwards."""
        if not self._counts or now_ms < self._due_ms:
            return []
        self._due_ms = now_ms + REFUSALS_NOTE_MS
        rows = tuple(Refusal(*key, count) for key, count in self._counts.items())
        self._counts.clear()
        return [NoteRefusals(rows)]

    def clear(self) -> None:
        """Leadership is lost: what is not noted is in the log of this process alone."""
        self._counts.clear()


def _cut(text: str, bytes_max: int) -> str:
    """A text of at most so many bytes."""
    return text.encode()[:bytes_max].decode(errors="ignore")
