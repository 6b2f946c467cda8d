"""A bound on links that have not said a hello, for each address that they come from.

They are strangers: TLS, login and hello are to come. One that dials and says nothing costs a
descriptor for HELLO_MS_MAX, and all descriptors are shared with those who work here.
"""

from __future__ import annotations


class HalfOpen:
    """Counts them.

    Args:
        each_max: So many of one address.
    """

    __slots__ = ("_counts", "_each_max", "refused_count")

    def __init__(self, each_max: int) -> None:
        self._each_max = each_max
        self._counts: dict[str, int] = {}
        self.refused_count = 0

    def enter(self, host: str) -> str:
        """One came: why it must go, or nothing. It leaves in either case."""
        count = self._counts.get(host, 0) + 1
        self._counts[host] = count
        if count <= self._each_max:
            return ""
        self.refused_count += 1
        return f"more than {self._each_max} connections of {host} without a hello"

    def leave(self, host: str) -> None:
        """One has said its hello, or is gone."""
        count = self._counts.pop(host) - 1
        if count:
            self._counts[host] = count
