"""A bound per address on links without a hello.

Their peers are unauthenticated: TLS, login and hello are still to come. A silent one holds a
descriptor for HELLO_MS_MAX, and descriptors are shared with working sessions.
"""

from __future__ import annotations


class HalfOpen:
    """Counts half-open links by address.

    Args:
        each_max: The maximum per address.
    """

    __slots__ = ("_counts", "_each_max", "refused_count")

    def __init__(self, each_max: int) -> None:
        self._each_max = each_max
        self._counts: dict[str, int] = {}
        self.refused_count = 0

    def enter(self, host: str) -> str:
        """Count a new link; returns why it must be refused, or nothing. `leave` must follow in
        either case."""
        count = self._counts.get(host, 0) + 1
        self._counts[host] = count
        if count <= self._each_max:
            return ""
        self.refused_count += 1
        return f"more than {self._each_max} connections of {host} without a hello"

    def leave(self, host: str) -> None:
        """A link got its hello, or is closed."""
        count = self._counts.pop(host) - 1
        if count:
            self._counts[host] = count
