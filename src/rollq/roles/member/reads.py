"""Reads that are never stale: a query is answered from applied state, but only once consensus has
said at which index that is safe (read-index). Request numbers are never reused."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from rollq.base.errors import ErrorCode, RemoteError, StateError
from rollq.grid import views
from rollq.grid.state import GridState
from rollq.policy.dispatch import Dispatcher
from rollq.raft.node import RaftNode
from rollq.raft.ready import ReadReady
from rollq.wire.messages import Answer, Query

PENDING_READS_MAX = 4_096
PAGE_MAX = 1_000
KEY_BYTES_MAX = 256
TEXT_KEYS = ("queue", "queues", "client")


class Reads:
    """Queries that wait for their index."""

    def __init__(self) -> None:
        self._last_request = 0
        self._asked: dict[int, tuple[int, Query]] = {}
        self._waiting: list[tuple[int, int, Query]] = []  # index, session, query

    def ask(self, raft: RaftNode, session: int, query: Query) -> None:
        """Take a query; its answer comes from `answers` later."""
        if query.what not in VIEWS:
            raise RemoteError(
                ErrorCode.BAD_PAYLOAD,
                f"no view named {query.what[:64]!r}",
                f"ask for one of: {', '.join(sorted(VIEWS))}",
            )
        if not 0 < query.limit <= PAGE_MAX or len(query.key) > KEY_BYTES_MAX or not _is_text(query):
            raise RemoteError(
                ErrorCode.BAD_PAYLOAD, f"a page has 1 to {PAGE_MAX} rows, a key is an id or a name"
            )
        if len(self._asked) + len(self._waiting) >= PENDING_READS_MAX:
            raise StateError(ErrorCode.OVERLOADED, "too many reads at once", "ask again")
        self._last_request += 1
        self._asked[self._last_request] = (session, query)
        raft.read_index(self._last_request)

    def ready(self, raft: RaftNode, reads: list[ReadReady]) -> None:
        """Consensus answered: the index to wait for, or 0 to ask once more under a new number."""
        for read in reads:
            asked = self._asked.pop(read.request, None)
            if asked is None:
                continue
            if read.index:
                self._waiting.append((read.index, *asked))
            else:
                self.ask(raft, *asked)

    def answers(self, state: GridState, dispatcher: Dispatcher) -> list[tuple[int, Answer]]:
        """Everything that can be answered from what is applied now."""
        if not self._waiting:
            return []
        now = [read for read in self._waiting if read[0] <= state.applied_index]
        self._waiting = [read for read in self._waiting if read[0] > state.applied_index]
        return [
            (
                session,
                Answer(
                    query.request_id,
                    state.applied_index,
                    _encode(VIEWS[query.what](state, dispatcher, query)),
                ),
            )
            for _, session, query in now
        ]

    def clear(self) -> None:
        """Leadership is lost: whoever asked asks the next leader."""
        self._asked.clear()
        self._waiting.clear()


def _is_text(query: Query) -> bool:
    """Whether a key that must be a name is one."""
    if query.what not in TEXT_KEYS:
        return True
    try:
        query.key.decode()
    except UnicodeDecodeError:
        return False
    return True


def _dead(state: GridState, query: Query) -> views.DeadPage:
    return views.dead_page(state, int.from_bytes(query.key, "big"), query.limit)


_encode = msgspec.msgpack.Encoder().encode

# What may be asked, and how it is read. `key` is an id, a name, or (dead) a place to go on from.
VIEWS: dict[str, Callable[[GridState, Dispatcher, Query], object]] = {
    "job": lambda state, _, query: views.job_view(state, query.key),
    "array": lambda state, _, query: views.array_view(state, query.key),
    "queue": lambda state, _, query: views.queue_view(state, query.key.decode()),
    "queues": lambda state, _, query: views.queue_page(state, query.key.decode(), query.limit),
    "client": lambda state, _, query: views.client_view(state, query.key.decode()),
    "worker": lambda state, _, query: views.worker_view(state, query.key),
    "dead": lambda state, _, query: _dead(state, query),
    "counts": lambda state, _, __: views.grid_counts(state),
    "explain": lambda _, dispatcher, query: dispatcher.explain(query.key),
}
