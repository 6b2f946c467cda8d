"""Refused requests on their way into the history, grouped and counted, so that repeated requests
without permission fill neither the log nor the memory. Pure.
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

OTHERS: Final = "…"  # stands for fields beyond the bound
ALL_OTHERS: Final = (OTHERS, OTHERS, OTHERS, OTHERS)


class RefusalNotes:
    """Refusals of one leader that are not in the log yet."""

    __slots__ = ("_counts", "_due_ms")

    def __init__(self) -> None:
        # By account, action, resource and host; at most REFUSALS_PER_NOTE_MAX.
        self._counts: dict[tuple[str, str, str, str], int] = {}
        self._due_ms = 0

    def add(self, account: str, action: str, resource: str, address: str) -> None:
        """Count a refusal. Without room for another row it is counted without its resource, or at
        last in the one row for all others."""
        host = _cut(address.rpartition(":")[0] or address, ADDRESS_BYTES_MAX)
        row = (account, action, _cut(resource, ACCESS_RESOURCE_BYTES_MAX), host)
        joined = (account, action, OTHERS, host)
        counts = self._counts
        for key, left_free in ((row, 2), (joined, 1), (ALL_OTHERS, 0)):
            if key in counts or len(counts) < REFUSALS_PER_NOTE_MAX - left_free:
                counts[key] = counts.get(key, 0) + 1
                return

    def due(self, now_ms: int) -> list[NoteRefusals]:
        """The command to propose now: the first refusals at once, later ones once in
        REFUSALS_NOTE_MS."""
        if not self._counts or now_ms < self._due_ms:
            return []
        self._due_ms = now_ms + REFUSALS_NOTE_MS
        rows = tuple(Refusal(*key, count) for key, count in self._counts.items())
        self._counts.clear()
        return [NoteRefusals(rows)]

    def clear(self) -> None:
        """Leadership is lost: refusals that are not proposed are only in the log of this
        process."""
        self._counts.clear()


def _cut(text: str, bytes_max: int) -> str:
    """The text cut to at most `bytes_max`."""
    return text.encode()[:bytes_max].decode(errors="ignore")
