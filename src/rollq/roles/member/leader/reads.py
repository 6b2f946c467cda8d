"""Linearizable reads: a query is answered from the applied state, once consensus has named the
index from which on the answer is not stale (read-index)."""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from rollq.base.errors import DiskError, ErrorCode, RemoteError, StateError
from rollq.base.limits import (
    ACTION_BYTES_MAX,
    ANSWER_BYTES_MAX,
    CLIENT_ID_BYTES_MAX,
    EXEC_NAME_BYTES_MAX,
    QUEUE_NAME_BYTES_MAX,
)
from rollq.grid import pages, views
from rollq.grid.hints import listed_hints
from rollq.grid.readers import reader_views
from rollq.raft.node import RaftNode
from rollq.raft.ready import ReadReady
from rollq.roles.member.leader.caches import GroupCaches
from rollq.roles.member.leader.replies import Replies
from rollq.roles.member.leader.sessions import ClientSession
from rollq.roles.member.replica import Replica
from rollq.roles.member.reports import Reports
from rollq.roles.member.status import cluster_view
from rollq.subjects.grammar import fold
from rollq.wire.messages import Answer, Error, Query
from rollq.wire.rules import Free, Int, Text, bounds, compile_bounds

PENDING_READS_MAX = 4_096
PLACE_BYTES_MAX = 8  # of a key that is a number, big-endian
PLACE_MAX = 2**62  # far beyond any log; with room to count on from there
DIGITS_MAX = 32  # of an id
PLACE_KEYS = ("dead", "history")
# What no state says, only the leader that is in touch with workers and members.
HOLDERS = "holders"  # of a cache
CLUSTER = "cluster"
LEADERS_OWN = (HOLDERS, CLUSTER)
TEXT_KEYS = ("queue", "queues", "client", "clients", "cache", "caches", HOLDERS)


class Reads:
    """Queries that wait for their index."""

    def __init__(
        self,
        replica: Replica,
        replies: Replies,
        caches: GroupCaches,
        reports: Reports,
        raft: Callable[[], RaftNode],
    ) -> None:
        self._replica = replica
        self._replies = replies
        self._caches = caches
        self._reports = reports
        self._raft = raft
        self._last_request = 0  # as consensus knows them; never reused
        # A query is in `_asked` until consensus names its index, then in `_waiting` until that is
        # applied; both together hold at most PENDING_READS_MAX.
        self._asked: dict[int, tuple[int, Query]] = {}
        self._waiting: list[tuple[int, int, Query]] = []  # index, session, query

    def query(self, session: ClientSession, query: Query) -> None:
        """Take a query; the answer is sent by `answer` later."""
        self._ask(session.number, query)

    def _ask(self, session: int, query: Query) -> None:
        if query.what not in VIEWS and query.what not in LEADERS_OWN:
            raise RemoteError(
                ErrorCode.BAD_PAYLOAD,
                f"unknown view {query.what[:64]!r}",
                f"use one of: {', '.join(sorted((*VIEWS, *LEADERS_OWN)))}",
            )
        _check_key(query)
        if len(self._asked) + len(self._waiting) >= PENDING_READS_MAX:
            raise StateError(
                ErrorCode.OVERLOADED, f"{PENDING_READS_MAX} reads are pending", "ask again"
            )
        self._last_request += 1
        self._asked[self._last_request] = (session, query)
        self._raft().read_index(self._last_request)

    def ready(self, reads: list[ReadReady]) -> None:
        """Consensus answered: the index to wait for, or 0 to ask once more under a new number."""
        for read in reads:
            asked = self._asked.pop(read.request, None)
            if asked is None:
                continue
            if read.index:
                self._waiting.append((read.index, *asked))
            else:
                self._ask(*asked)

    def answer(self) -> None:
        """Once a turn: answer everything that can be answered from what is applied now."""
        if not self._waiting:
            return
        applied = self._replica.state.applied_index
        due = [read for read in self._waiting if read[0] <= applied]
        self._waiting = [read for read in self._waiting if read[0] > applied]
        for _, session, query in due:
            answer = self._answer(query)
            if isinstance(answer, Exception):
                self._replies.failed(session, query, answer)
            else:
                self._replies.send(session, answer)

    def _answer(self, query: Query) -> Answer | Error | Exception:
        replica, raft = self._replica, self._raft()
        try:
            if query.what == HOLDERS:
                value = _encode(self._caches.holders(query.key.decode()))
            elif query.what == CLUSTER:
                value = _encode(cluster_view(replica.state, raft, self._reports))
            else:
                value = _encode(VIEWS[query.what](replica, raft, query))
        except DiskError:
            raise  # of the history: the member must not go on
        except Exception as error:
            return error
        return _within_bounds(replica, query, value)

    def clear(self) -> None:
        """Leadership is lost: clients ask the next leader."""
        self._asked.clear()
        self._waiting.clear()


def _check_key(query: Query) -> None:
    """Refuse a key that is not what its view needs."""
    try:
        if query.what in TEXT_KEYS:
            query.key.decode()
        elif query.what in PLACE_KEYS and _place(query) > PLACE_MAX:
            raise RemoteError(
                ErrorCode.BAD_PAYLOAD,
                f"the place to go on from in {query.what!r} is beyond all places",
                f"send a number up to {PLACE_MAX}, big-endian, in {PLACE_BYTES_MAX} bytes at most",
            )
        elif query.what == "jobs" and query.key:
            _check_filter(_decode_filter(query.key))
        elif query.what == "ids":
            _check_ids(_decode_ids(query.key))
    except (UnicodeDecodeError, msgspec.MsgspecError) as error:
        raise RemoteError(
            ErrorCode.BAD_PAYLOAD,
            f"the key of {query.what!r}: {error}",
            "send an id, a name or a filter, as the view needs it",
        ) from None


def _place(query: Query) -> int:
    return int.from_bytes(query.key, "big")


def _within_bounds(replica: Replica, query: Query, value: bytes) -> Answer | Error:
    if len(value) > ANSWER_BYTES_MAX:
        return Error(
            query.request_id,
            int(ErrorCode.ANSWER_TOO_LARGE),
            f"the answer has {len(value)} bytes; at most {ANSWER_BYTES_MAX} fit",
            "ask for fewer rows",
        )
    return Answer(query.request_id, replica.state.applied_index, value)


def _dead(replica: Replica, query: Query) -> views.DeadPage:
    return views.dead_page(replica.state, _place(query), query.limit)


def _jobs(replica: Replica, query: Query) -> pages.JobPage:
    wanted = _decode_filter(query.key) if query.key else pages.JobFilter()
    return pages.job_page(replica.state, wanted, query.limit)


def _ids(replica: Replica, query: Query) -> pages.IdPage:
    return pages.id_page(replica.state, _decode_ids(query.key), query.limit)


def _history(replica: Replica, query: Query) -> tuple[int, int, tuple[bytes, ...]]:
    """(first index, last index, lines): whole indexes from the key on, as many as fit. What this
    member lacks is passed over; `last` is before `first` if there is nothing from there on."""
    applied = replica.state.applied_index
    first = max(1, _place(query))
    for low, high in replica.history.gaps(applied):
        if low <= first <= high:
            first = high + 1
    rows = replica.history.rows(first, applied)
    return (first, first - 1, ()) if rows is None else (rows.first, rows.last, rows.lines)


_encode = msgspec.msgpack.Encoder().encode
_decode_ids = msgspec.msgpack.Decoder(pages.IdFilter).decode
_decode_filter = msgspec.msgpack.Decoder(pages.JobFilter).decode
_check_ids = compile_bounds(
    pages.IdFilter,
    bounds(first=Text(DIGITS_MAX), last=Text(DIGITS_MAX), before=Int(0, PLACE_MAX)),
    {},
)
_check_filter = compile_bounds(
    pages.JobFilter,
    bounds(
        state=Text(ACTION_BYTES_MAX),
        queue=Text(QUEUE_NAME_BYTES_MAX),
        client_id=Text(CLIENT_ID_BYTES_MAX),
        exec_name=Text(EXEC_NAME_BYTES_MAX),
        after=Int(0, PLACE_MAX),
        newest=Free(),
    ),
    {},
)

# What may be asked, and how it is read. `key` is an id, a name, a filter (jobs), or a place to go
# on from (arrays, queues, workers, clients, caches: the last one seen; dead, history: a number).
VIEWS: dict[str, Callable[[Replica, RaftNode, Query], object]] = {
    "job": lambda replica, _, query: views.job_view(replica.state, query.key),
    "ids": lambda replica, _, query: _ids(replica, query),
    "jobs": lambda replica, _, query: _jobs(replica, query),
    "array": lambda replica, _, query: views.array_view(replica.state, query.key),
    "arrays": lambda replica, _, query: pages.array_page(replica.state, query.key, query.limit),
    "queue": lambda replica, _, query: views.queue_view(replica.state, fold(query.key.decode())),
    "queues": lambda replica, _, query: views.queue_page(
        replica.state, query.key.decode(), query.limit
    ),
    "client": lambda replica, _, query: views.client_view(replica.state, query.key.decode()),
    "clients": lambda replica, _, query: pages.client_page(
        replica.state, query.key.decode(), query.limit
    ),
    "worker": lambda replica, _, query: views.worker_view(replica.state, query.key),
    "workers": lambda replica, _, query: pages.worker_page(replica.state, query.key, query.limit),
    "dead": lambda replica, _, query: _dead(replica, query),
    "cache": lambda replica, _, query: views.cache_view(replica.state, query.key.decode()),
    "caches": lambda replica, _, query: views.cache_page(
        replica.state, query.key.decode(), query.limit
    ),
    "counts": lambda replica, _, __: views.grid_counts(replica.state),
    "explain": lambda replica, _, query: replica.dispatcher.explain(query.key),
    "unserved": lambda replica, _, query: replica.dispatcher.unserved(query.limit),
    "readers": lambda replica, _, __: reader_views(replica.state),
    "settings": lambda replica, _, __: replica.state.settings,
    "hints": lambda replica, _, __: listed_hints(replica.state),
    "history": lambda replica, _, query: _history(replica, query),
}
