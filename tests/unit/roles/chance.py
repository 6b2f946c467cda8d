"""A Jitter without chance, so that delays in tests are exact."""

from __future__ import annotations


class MiddleJitter:
    """Draws the middle of the range: no spread."""

    def draw(self, low: int, high: int) -> int:
        """The middle."""
        return (low + high) // 2

    def draw_id(self) -> bytes:
        """Always the same id."""
        return bytes(16)
