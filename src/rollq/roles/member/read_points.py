"""Points to read at, on any member: an index that is not before anything committed when it was
asked for. Pure. A leader's queries have their own numbers (`reads`); these begin far above them."""

from __future__ import annotations

from collections.abc import Callable

from rollq.raft.node import RaftNode
from rollq.raft.ready import ReadReady

FIRST_REQUEST = 2**62


class ReadPoints:
    """Who waits for consensus to say how far it has come."""

    def __init__(self) -> None:
        self._last_request = FIRST_REQUEST
        self._asked: dict[int, Callable[[int], None]] = {}

    def ask(self, raft: RaftNode, told: Callable[[int], None]) -> None:
        """Have `told` called with the index; with 0 if there is no leader to ask."""
        self._last_request += 1
        self._asked[self._last_request] = told
        raft.read_index(self._last_request)

    def ready(self, reads: list[ReadReady]) -> None:
        """Consensus answered."""
        for read in reads:
            told = self._asked.pop(read.request, None)
            if told is not None:
                told(read.index)
