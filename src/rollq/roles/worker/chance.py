"""Chance for backoff."""

from __future__ import annotations

import secrets


class SystemChance:
    """The machine's chance."""

    def draw(self, low: int, high: int) -> int:
        """An integer, low <= x < high."""
        return low + secrets.randbelow(high - low)

    def draw_id(self) -> bytes:
        """Sixteen random bytes."""
        return secrets.token_bytes(16)
