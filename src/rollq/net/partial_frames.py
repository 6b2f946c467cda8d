"""Partly received frames of all connections: the memory that they take together is bounded. Over
the bound, the connection whose frame has been incomplete for longest is aborted first: an honest
peer sends the rest of a frame in a moment."""

from __future__ import annotations

from typing import Protocol


class Abortable(Protocol):
    """A connection with an incomplete frame."""

    def abort(self, reason: str) -> None:
        """Close at once, without flushing."""


class PartialFrames:
    """How many bytes of an incomplete frame each connection has sent.

    Invariant: `total_bytes` is the sum of `_sizes`, and at most `bytes_max` after every `note`.
    """

    __slots__ = ("_bytes_max", "_sizes", "total_bytes")

    def __init__(self, bytes_max: int) -> None:
        self.total_bytes = 0
        self._bytes_max = bytes_max
        self._sizes: dict[Abortable, int] = {}  # oldest frame first

    def note(self, link: Abortable, size_bytes: int, *, has_begun_anew: bool) -> None:
        """Record what a connection has sent of its current frame; aborts the oldest, maybe this
        one, while the total exceeds the bound."""
        before = self._sizes.get(link)
        if before is not None:
            self.total_bytes -= before
            if has_begun_anew or not size_bytes:
                del self._sizes[link]
        if size_bytes:
            self._sizes[link] = size_bytes
            self.total_bytes += size_bytes
        while self.total_bytes > self._bytes_max:
            oldest = next(iter(self._sizes))
            self.forget(oldest)
            oldest.abort(
                f"incomplete frames of all connections exceed {self._bytes_max} bytes, and this is "
                "the oldest"
            )

    def forget(self, link: Abortable) -> None:
        """A connection is closed: its incomplete frame is dropped."""
        self.total_bytes -= self._sizes.pop(link, 0)
