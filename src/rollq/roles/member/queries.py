"""What may be asked by `Query`: one row of `VIEWS` a view, with how its key is read, what an access
check asks for, whether any member can answer it, and the function that makes the answer.

The leader answers once consensus has named an index (`leader.reads`), any member at once from what
it has applied (`readers.queries`): both by `answer`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec

from rollq.base.access import Action, Resource, ResourceKind
from rollq.base.counters import Family
from rollq.base.errors import ErrorCode, RemoteError, StateError
from rollq.base.ids import GUID_BYTES, JobId, WorkerId
from rollq.base.limits import (
    ACTION_BYTES_MAX,
    ANSWER_BYTES_MAX,
    CLIENT_ID_BYTES_MAX,
    EXEC_NAME_BYTES_MAX,
    JOB_KEY_BYTES_MAX,
    QUEUE_NAME_BYTES_MAX,
)
from rollq.base.outcomes import ENDED
from rollq.grid import access, matching, pages, views
from rollq.grid.explanations import RawExplanation
from rollq.grid.hints import listed_hints
from rollq.grid.readers import reader_views
from rollq.grid.state import GridState
from rollq.history.tables import said_in
from rollq.policy.endings import Said
from rollq.raft.node import RaftNode
from rollq.roles.member.leader.caches import GroupCaches
from rollq.roles.member.leader.sessions import Sessions
from rollq.roles.member.replica import Replica
from rollq.roles.member.reports import Reports
from rollq.roles.member.status import cluster_view
from rollq.subjects.grammar import fold
from rollq.wire.messages import Answer, Error, Query
from rollq.wire.rules import Free, Int, Text, bounds, compile_bounds

PLACE_BYTES_MAX = 8  # of a key that is a number, big-endian
PLACE_MAX = 2**62  # far beyond any log; with room to count on from there
DIGITS_MAX = 32  # of an id
SEARCH_BYTES_MAX = 256  # of a text that jobs are searched for


def answer(sources: Sources, query: Query) -> Answer | Error:
    """The answer to a query, from what is applied now. Raises as `read`."""
    return as_answer(query, sources.state.applied_index, read(sources, query))


def read(sources: Sources, query: Query) -> object:
    """What a query asks for, from what is applied now: a msgpack value.

    Raises:
        RemoteError: BAD_PAYLOAD; there is no such view, or its key is none.
        StateError: NOT_LEADER; this member does not lead, and knows nothing of that.
        DiskError: of the history.
    """
    view, key = must_be_of_state(query)
    if view.of_leader and not sources.leads:
        raise StateError(
            ErrorCode.NOT_LEADER,
            f"the view {query.what!r} is known to the leader alone, and this member does not lead",
            f"ask {sources.raft.leader_address or 'again when a leader is elected'}",
        )
    return view.read(sources, key, query.limit)


def as_answer(query: Query, index: int, read: object) -> Answer | Error:
    """What was read, as it is sent."""
    value = _encode(read)
    if len(value) > ANSWER_BYTES_MAX:
        return Error(
            query.request_id,
            int(ErrorCode.ANSWER_TOO_LARGE),
            f"the answer has {len(value)} bytes; at most {ANSWER_BYTES_MAX} fit",
            "ask for fewer rows",
        )
    return Answer(query.request_id, index, value)


def rest_of(query: Query, read: object) -> Query | None:
    """What to ask for to fill a page of jobs that is not full because there was much to look at;
    None: it is full, or no page, or there is no more."""
    if isinstance(read, pages.JobPage) and read.after and len(read.jobs) < query.limit:
        wanted = msgspec.structs.replace(_job_filter(query.key), after=read.after)
        limit = query.limit - len(read.jobs)
        return msgspec.structs.replace(query, key=_encode(wanted), limit=limit)
    return None


def must_be_of_state(query: Query) -> tuple[ViewRow, Any]:
    """The view that a query names, which is made of the state, and its key.

    Raises:
        RemoteError: BAD_PAYLOAD.
    """
    view = must_find(query)
    if view.of_files:
        raise RemoteError(
            ErrorCode.BAD_PAYLOAD,
            f"the view {query.what!r} is made of files, and not in the turns of jobs",
            "ask for it on the link of a reader",
        )
    return view, decode_key(view, query)


def must_find(query: Query) -> ViewRow:
    """The view that a query names.

    Raises:
        RemoteError: BAD_PAYLOAD.
    """
    view = VIEWS.get(query.what)
    if view is None:
        raise RemoteError(
            ErrorCode.BAD_PAYLOAD,
            f"unknown view {query.what[:64]!r}",
            f"use one of: {', '.join(sorted(VIEWS))}",
        )
    return view


class Sources(NamedTuple):
    """What views are made of: the applied state, and what a leader alone knows."""

    replica: Replica
    raft: RaftNode
    caches: GroupCaches
    reports: Reports
    sessions: Sessions
    leads: bool
    metrics: Callable[[], list[Family]]
    account: str = ""  # whose jobs are listed; empty: those of all

    def worker(self, worker_id: WorkerId) -> views.RawWorkerView | None:
        """A worker, with what its session has told."""
        view = views.worker_view(self.state, worker_id)
        return None if view is None else self._told(view)

    def workers(self, after: WorkerId, limit: int) -> list[views.RawWorkerView]:
        """The same of a page of workers."""
        return [self._told(view) for view in pages.worker_page(self.state, after, limit)]

    def explanation(self, job_id: JobId) -> RawExplanation | None:
        """Why a job does not run, or how it ended."""
        return self.replica.dispatcher.explain(
            job_id, is_capped=self._is_capped, address=self.raft.leader_address, read=_read_result
        )

    def explain(self, job_id: JobId) -> str:
        """The same in a sentence, as clients of earlier versions ask for it: they know by its
        first words whether a job has ended."""
        told = self.explanation(job_id)
        if told is None:
            return "no such job"
        return f"it has ended: {told.state}: {told.why}" if told.state in ENDED else told.why

    def _is_capped(self, worker_id: WorkerId) -> bool:
        session = self.sessions.worker(worker_id)
        return session is not None and session.is_capped

    def _told(self, view: views.RawWorkerView) -> views.RawWorkerView:
        if not self.leads:
            return view
        session = self.sessions.worker(view.worker_id)
        if session is None:
            return msgspec.structs.replace(view, connected=False)
        told = {"is_capped": session.is_capped, "layers": session.layers}
        return msgspec.structs.replace(view, connected=True, **told)

    @property
    def state(self) -> GridState:
        """As it is applied now."""
        return self.replica.state


class ViewRow(NamedTuple):
    """What may be asked by `Query.what`.

    Attributes:
        key: Reads `Query.key`; raises what `decode_key` turns into an error.
        action: What it is to an access check.
        resource: What it is on; with `key`, the one that the query names; else where its filter
            names it.
        read: The answer: a msgpack value, of the sources, the key and the limit of rows.
        also: What it is on beside that.
        of_files: It is made of files, by `readers.handlers`, on the link of a reader alone: `read`
            is not called.
        of_leader: Only the leader can answer: nothing in the state says it. Of other views a member
            that does not lead leaves out what it does not know.
    """

    key: Callable[[bytes], Any]
    action: Action
    resource: Resource
    read: Callable[[Sources, Any, int], object]
    also: tuple[Resource, ...] = ()
    of_leader: bool = False
    of_files: bool = False


class JobPlace(NamedTuple):
    """A job, and a log index to go back from; 0: from the end."""

    job_id: JobId
    before: int


def decode_key(view: ViewRow, query: Query) -> Any:
    """What the key of a query names.

    Raises:
        RemoteError: BAD_PAYLOAD.
    """
    try:
        return view.key(query.key)
    except (UnicodeDecodeError, msgspec.MsgspecError) as error:
        raise RemoteError(
            ErrorCode.BAD_PAYLOAD,
            f"the key of {query.what!r}: {error}",
            "send an id, a name or a filter, as the view needs it",
        ) from None


def _history(sources: Sources, key: int, limit: int) -> tuple[int, int, tuple[bytes, ...]]:
    """(first index, last index, lines): whole indexes from the key on, as many as fit. What this
    member lacks is passed over; `last` is before `first` if there is nothing from there on."""
    applied = sources.state.applied_index
    history = sources.replica.history
    first = max(1, key)
    for low, high in history.gaps(applied):
        if low <= first <= high:
            first = high + 1
    rows = history.rows(first, applied)
    return (first, first - 1, ()) if rows is None else (rows.first, rows.last, rows.lines)


def _read_result(result: bytes) -> Said:
    said = said_in(result)
    return Said(said.note or "", said.stderr or "")


# --- keys


def _no_key(key: bytes) -> None:
    """All of it is shown, whatever is asked for."""


def _id(key: bytes) -> bytes:
    return key


def _text(key: bytes) -> str:
    return key.decode()


def _place(key: bytes) -> int:
    """Where to go on from: a number, big-endian."""
    place = int.from_bytes(key, "big")
    if place > PLACE_MAX:
        raise RemoteError(
            ErrorCode.BAD_PAYLOAD,
            "the place to go on from is beyond all places",
            f"send a number up to {PLACE_MAX}, big-endian, in {PLACE_BYTES_MAX} bytes at most",
        )
    return place


def _job_place(key: bytes) -> JobPlace:
    """An id, and the number behind it."""
    return JobPlace(key[:GUID_BYTES], _place(key[GUID_BYTES:]))


def _job_filter(key: bytes) -> matching.JobFilter:
    wanted = _decode_filter(key) if key else matching.JobFilter()
    _check_filter(wanted)
    return wanted


def _id_filter(key: bytes) -> pages.IdFilter:
    wanted = _decode_ids(key)
    _check_ids(wanted)
    return wanted


_encode = msgspec.msgpack.Encoder().encode
_decode_ids = msgspec.msgpack.Decoder(pages.IdFilter).decode
_decode_filter = msgspec.msgpack.Decoder(matching.JobFilter).decode
_check_ids = compile_bounds(
    pages.IdFilter,
    bounds(first=Text(DIGITS_MAX), last=Text(DIGITS_MAX), before=Int(0, PLACE_MAX)),
    {},
)
_check_filter = compile_bounds(
    matching.JobFilter,
    bounds(
        state=Text(ACTION_BYTES_MAX),
        queue=Text(QUEUE_NAME_BYTES_MAX),
        client_id=Text(CLIENT_ID_BYTES_MAX),
        exec_name=Text(EXEC_NAME_BYTES_MAX),
        after=Int(0, PLACE_MAX),
        newest=Free(),
        key=Text(JOB_KEY_BYTES_MAX),
        text=Text(SEARCH_BYTES_MAX),
        since_ms=Int(0, PLACE_MAX),
        until_ms=Int(0, PLACE_MAX),
    ),
    {},
)

K = ResourceKind
ONE_JOB = Resource(K.JOB, "key")
JOBS = Resource(K.JOB)
ONE_QUEUE = Resource(K.QUEUE, "key")
ONE_CLIENT = Resource(K.CLIENT, "key")
ONE_WORKER = Resource(K.WORKER, "key")
ONE_CACHE = Resource(K.CACHE, "key")
GRID = Resource(K.GRID)

# Those of which `Query.account` asks for a part.
JOB_LISTS: Final = frozenset({"ids", "jobs", "arrays", "dead"})

# A key is an id (bytes), a name, a filter, or a place to go on from: the last one seen (pages of
# arrays, queues, clients, workers, caches, accounts, roles) or a number (dead, history).
VIEWS: Final[dict[str, ViewRow]] = {
    "job": ViewRow(_id, Action.JOBS_READ, ONE_JOB, lambda o, key, _: views.job_view(o.state, key)),
    "ids": ViewRow(
        _id_filter,
        Action.JOBS_READ,
        JOBS,
        lambda o, key, n: pages.id_page(o.state, key, n, o.account),
    ),
    "jobs": ViewRow(
        *(_job_filter, Action.JOBS_READ, Resource(K.CLIENT, "client_id")),
        lambda o, key, n: pages.job_page(o.state, key, n, o.account),
        (Resource(K.QUEUE, "queue"),),
    ),
    "array": ViewRow(
        _id, Action.JOBS_READ, ONE_JOB, lambda o, key, _: views.array_view(o.state, key)
    ),
    "arrays": ViewRow(
        _id, Action.JOBS_READ, JOBS, lambda o, key, n: pages.array_page(o.state, key, n, o.account)
    ),
    "dead": ViewRow(
        _place,
        Action.JOBS_READ,
        JOBS,
        lambda o, key, n: views.dead_page(o.state, key, n, o.account),
    ),
    "explain": ViewRow(
        _id, Action.JOBS_READ, ONE_JOB, lambda o, key, _: o.explain(key), of_leader=True
    ),
    "explanation": ViewRow(
        _id, Action.JOBS_READ, ONE_JOB, lambda o, key, _: o.explanation(key), of_leader=True
    ),
    "timeline": ViewRow(
        *(_job_place, Action.JOBS_READ, Resource(K.JOB, "job_id")),
        lambda *_: None,
        of_files=True,
    ),
    "queue": ViewRow(
        *(_text, Action.QUEUES_READ, ONE_QUEUE),
        lambda o, key, _: views.queue_view(o.state, fold(key)),
    ),
    "queues": ViewRow(
        *(_text, Action.QUEUES_READ, Resource(K.QUEUE)),
        lambda o, key, n: views.queue_page(o.state, key, n),
    ),
    "unserved": ViewRow(
        *(_no_key, Action.QUEUES_READ, Resource(K.QUEUE)),
        lambda o, _, n: o.replica.dispatcher.unserved(n),
        of_leader=True,
    ),
    "client": ViewRow(
        *(_text, Action.CLIENTS_READ, ONE_CLIENT),
        lambda o, key, _: views.client_view(o.state, key),
    ),
    "clients": ViewRow(
        *(_text, Action.CLIENTS_READ, Resource(K.CLIENT)),
        lambda o, key, n: pages.client_page(o.state, key, n),
    ),
    "worker": ViewRow(
        *(_id, Action.WORKERS_READ, ONE_WORKER),
        lambda o, key, _: o.worker(key),
    ),
    "workers": ViewRow(
        *(_id, Action.WORKERS_READ, Resource(K.WORKER)),
        lambda o, key, n: o.workers(key, n),
    ),
    "drained": ViewRow(
        *(_id, Action.WORKERS_READ, Resource(K.WORKER)),
        lambda o, key, n: views.drain_page(o.state, key, n),
    ),
    "cache": ViewRow(
        _text, Action.CACHES_READ, ONE_CACHE, lambda o, key, _: views.cache_view(o.state, key)
    ),
    "caches": ViewRow(
        *(_text, Action.CACHES_READ, Resource(K.CACHE)),
        lambda o, key, n: views.cache_page(o.state, key, n),
    ),
    "holders": ViewRow(
        *(_text, Action.CACHES_READ, ONE_CACHE),
        lambda o, key, _: o.caches.holders(key),
        of_leader=True,
    ),
    "counts": ViewRow(
        _no_key, Action.CLUSTER_READ, GRID, lambda o, _, __: views.grid_counts(o.state)
    ),
    "cluster": ViewRow(
        *(_no_key, Action.CLUSTER_READ, GRID),
        lambda o, _, __: cluster_view(o.state, o.raft, o.reports),
    ),
    "metrics": ViewRow(_no_key, Action.CLUSTER_READ, GRID, lambda o, _, __: o.metrics()),
    "settings": ViewRow(_no_key, Action.SETTINGS_READ, GRID, lambda o, _, __: o.state.settings),
    "hints": ViewRow(_no_key, Action.SETTINGS_READ, GRID, lambda o, _, __: listed_hints(o.state)),
    "history": ViewRow(_place, Action.HISTORY_READ, GRID, _history),
    "readers": ViewRow(
        _no_key, Action.HISTORY_READ, Resource(K.READER), lambda o, _, __: reader_views(o.state)
    ),
    "account": ViewRow(
        *(_text, Action.ACCESS_READ, Resource(K.ACCOUNT, "key")),
        lambda o, key, _: access.account_view(o.state, key),
    ),
    "accounts": ViewRow(
        *(_text, Action.ACCESS_READ, Resource(K.ACCOUNT)),
        lambda o, key, n: access.account_page(o.state, key, n),
    ),
    "roles": ViewRow(
        *(_text, Action.ACCESS_READ, Resource(K.ROLE)),
        lambda o, key, n: access.role_page(o.state, key, n),
    ),
}
