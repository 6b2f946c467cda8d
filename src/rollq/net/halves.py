"""Frames that have begun and not ended, of all connections together: each may be large, and there
may be many, so what they take in all is bounded. Whoever has kept its peer waiting for longest for
the rest of a frame is cut off first: an honest one sends it in a moment."""

from __future__ import annotations

from typing import Protocol


class Waiting(Protocol):
    """A connection in the middle of a frame."""

    def abort(self, reason: str) -> None:
        """Hang up at once."""


class Halves:
    """How many bytes of unfinished frames every connection has sent."""

    __slots__ = ("_bytes_max", "_of", "total_bytes")

    def __init__(self, bytes_max: int) -> None:
        self.total_bytes = 0
        self._bytes_max = bytes_max
        self._of: dict[Waiting, int] = {}  # by when the frame began, oldest first

    def note(self, link: Waiting, size_bytes: int, *, has_begun_anew: bool) -> None:
        """This is what a connection has sent of a frame by now; cuts off others, or this one, if
        all together are too much."""
        before = self._of.get(link)
        if before is not None:
            self.total_bytes -= before
            if has_begun_anew or not size_bytes:
                del self._of[link]
        if size_bytes:
            self._of[link] = size_bytes
            self.total_bytes += size_bytes
        while self.total_bytes > self._bytes_max:
            oldest = next(iter(self._of))
            self.forget(oldest)
            oldest.abort(
                f"more than {self._bytes_max} bytes of unfinished frames wait, and this one has "
                "waited for longest"
            )

    def forget(self, link: Waiting) -> None:
        """A connection is gone, and what it sent with it."""
        self.total_bytes -= self._of.pop(link, 0)
