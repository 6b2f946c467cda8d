"""Read indexes on any member: an index at or after everything committed at the time of the request.
Pure. Requests of a leader's queries have other numbers (`reads`), far below those used here."""

from __future__ import annotations

from collections.abc import Callable

from rollq.raft.node import RaftNode
from rollq.raft.ready import ReadReady

FIRST_REQUEST = 2**62


class ReadPoints:
    """Requests for a read index that raft has not answered yet."""

    def __init__(self) -> None:
        self._last_request = FIRST_REQUEST
        self._pending: dict[int, Callable[[int], None]] = {}

    def ask(self, raft: RaftNode, done: Callable[[int], None]) -> None:
        """Request a read index; `done` is called with it, or with 0 if there is no leader."""
        self._last_request += 1
        self._pending[self._last_request] = done
        raft.read_index(self._last_request)

    def ready(self, reads: list[ReadReady]) -> None:
        """Raft answered requests."""
        for read in reads:
            done = self._pending.pop(read.request, None)
            if done is not None:
                done(read.index)
