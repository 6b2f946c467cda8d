"""The views of `Query`: each row of `VIEWS` has the decoder of its key, the permission that it
needs, whether any member can answer it, and the function that reads it.

The leader answers at a read index of raft (`leader.reads`), any member at once from its applied
state (`readers.queries`): both by `answer`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec

from rollq.base.access import Action, Resource, ResourceKind
from rollq.base.counters import Family
from rollq.base.errors import ErrorCode, RemoteError, StateError
from rollq.base.ids import JobId, WorkerId
from rollq.base.job_events import JobEvent
from rollq.base.limits import (
    ANSWER_BYTES_MAX,
)
from rollq.base.outcomes import ENDED
from rollq.gossip.map import FederationView
from rollq.grid import (
    access,
    batches,
    pages,
    rule_views,
    schedule_views,
    topic_views,
    views,
)
from rollq.grid.explanations import RawExplanation
from rollq.grid.hints import listed_hints
from rollq.grid.readers import reader_views
from rollq.grid.state import GridState
from rollq.history.tables import said_in
from rollq.policy.endings import ResultDetail
from rollq.raft.node import RaftNode
from rollq.roles.member.leader.caches import GroupCaches
from rollq.roles.member.leader.sessions import Sessions
from rollq.roles.member.query_keys import (
    batch_filter,
    batch_name,
    id_filter,
    job_filter,
    job_place,
    name_key,
    no_key,
    place_key,
    some_id,
)
from rollq.roles.member.replica import Replica
from rollq.roles.member.reports import Reports
from rollq.roles.member.status import cluster_view
from rollq.subjects.grammar import fold
from rollq.wire.messages import Answer, Error, Query


def answer(sources: Sources, query: Query) -> Answer | Error:
    """The answer to a query from the applied state. Raises as `read`."""
    return as_answer(query, sources.state.applied_index, read(sources, query))


def read(sources: Sources, query: Query) -> object:
    """The value of a query from the applied state, encodable by msgpack.

    Raises:
        RemoteError: BAD_PAYLOAD: unknown view, or an invalid key.
        StateError: NOT_LEADER: only the leader has this view.
        DiskError: while reading the history.
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
    """The answer message for a value; an error if it is too large."""
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
    """The query for the rest of a page of jobs that was cut because too many jobs were scanned;
    None: the page is full, this is no page, or there are no more jobs."""
    if isinstance(read, pages.JobPage) and read.after and len(read.jobs) < query.limit:
        wanted = msgspec.structs.replace(job_filter(query.key), after=read.after)
        limit = query.limit - len(read.jobs)
        return msgspec.structs.replace(query, key=_encode(wanted), limit=limit)
    return None


def must_be_of_state(query: Query) -> tuple[ViewRow, Any]:
    """The view of a query and its decoded key, if it is read from the state and not from files.

    Raises:
        RemoteError: BAD_PAYLOAD.
    """
    view = must_find(query)
    if view.of_files:
        raise RemoteError(
            ErrorCode.BAD_PAYLOAD,
            f"the view {query.what!r} is answered only on a reader connection",
            "use a reader: HelloReader",
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
    """What views are read from: the applied state, and what only a leader knows."""

    replica: Replica
    raft: RaftNode
    caches: GroupCaches
    reports: Reports
    sessions: Sessions
    leads: bool
    metrics: Callable[[], list[Family]]
    federation: Callable[[], FederationView]
    account: str = ""  # list only jobs of this account; empty: of all
    progress_of: Callable[[JobId], JobEvent | None] = lambda _: None

    def worker(self, worker_id: WorkerId) -> views.RawWorkerView | None:
        """A worker, with the state of its session."""
        view = views.worker_view(self.state, worker_id)
        return None if view is None else self._with_session(view)

    def workers(self, after: WorkerId, limit: int) -> list[views.RawWorkerView]:
        """A page of workers, with the states of their sessions."""
        return [self._with_session(view) for view in pages.worker_page(self.state, after, limit)]

    def explanation(self, job_id: JobId) -> RawExplanation | None:
        """Why a job does not run, or how it ended."""
        return self.replica.dispatcher.explain(
            job_id, is_capped=self._is_capped, address=self.raft.leader_address, read=_read_result
        )

    def explain(self, job_id: JobId) -> str:
        """The explanation as one sentence, for clients of earlier versions: they recognise an ended
        job by its first words."""
        found = self.explanation(job_id)
        if found is None:
            return "no such job"
        return f"it has ended: {found.state}: {found.why}" if found.state in ENDED else found.why

    def _is_capped(self, worker_id: WorkerId) -> bool:
        session = self.sessions.worker(worker_id)
        return session is not None and session.is_capped

    def _with_session(self, view: views.RawWorkerView) -> views.RawWorkerView:
        if not self.leads:
            return view
        session = self.sessions.worker(view.worker_id)
        if session is None:
            return msgspec.structs.replace(view, connected=False)
        return msgspec.structs.replace(
            view,
            connected=True,
            is_capped=session.is_capped,
            layers=session.layers,
            load=session.load,
        )

    @property
    def state(self) -> GridState:
        """The applied state."""
        return self.replica.state


class ViewRow(NamedTuple):
    """One view.

    Attributes:
        key: Decodes `Query.key`; its exceptions become errors in `decode_key`.
        action: The action for the permission check.
        resource: The resource for the check: named by the key (with `key`), or by a field of the
            filter.
        read: Makes the answer from sources, key and row limit.
        also: Further resources for the check.
        of_files: Read from files by `readers.handlers`, only on a reader's link: `read` is not
            called.
        of_leader: Only the leader can answer it. In other views a member that does not lead leaves
            out the fields that only a leader knows.
    """

    key: Callable[[bytes], Any]
    action: Action
    resource: Resource
    read: Callable[[Sources, Any, int], object]
    also: tuple[Resource, ...] = ()
    of_leader: bool = False
    of_files: bool = False


def decode_key(view: ViewRow, query: Query) -> Any:
    """Decode the key of a query.

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
    """(first index, last index, lines): as many whole indexes from the key on as fit. Gaps of this
    member are skipped; `last` is before `first` if there is nothing after the key."""
    applied = sources.state.applied_index
    history = sources.replica.history
    first = max(1, key)
    for low, high in history.gaps(applied):
        if low <= first <= high:
            first = high + 1
    rows = history.rows(first, applied)
    return (first, first - 1, ()) if rows is None else (rows.first, rows.last, rows.lines)


def _read_result(result: bytes) -> ResultDetail:
    said = said_in(result)
    return ResultDetail(said.note or "", said.stderr or "")


_encode = msgspec.msgpack.Encoder().encode

K = ResourceKind
ONE_JOB = Resource(K.JOB, "key")
JOBS = Resource(K.JOB)
ONE_QUEUE = Resource(K.QUEUE, "key")
ONE_CLIENT = Resource(K.CLIENT, "key")
ONE_WORKER = Resource(K.WORKER, "key")
ONE_CACHE = Resource(K.CACHE, "key")
GRID = Resource(K.GRID)

# The views that `Query.account` restricts.
JOB_LISTS: Final = frozenset({"ids", "jobs", "arrays", "batches", "dead"})
SCHEDULES: Final = "schedules"

# A key is an id (bytes), a name, a filter, or a page position: the last item of the page before
# (arrays, queues, clients, workers, caches, topics, schedules, accounts, roles) or a number (dead,
# history).
VIEWS: Final[dict[str, ViewRow]] = {
    "job": ViewRow(
        some_id, Action.JOBS_READ, ONE_JOB, lambda o, key, _: views.job_view(o.state, key)
    ),
    "ids": ViewRow(
        id_filter,
        Action.JOBS_READ,
        JOBS,
        lambda o, key, n: pages.id_page(o.state, key, n, o.account),
    ),
    "jobs": ViewRow(
        *(job_filter, Action.JOBS_READ, Resource(K.CLIENT, "client_id")),
        lambda o, key, n: pages.job_page(o.state, key, n, o.account),
        (Resource(K.QUEUE, "queue"),),
    ),
    "array": ViewRow(
        some_id, Action.JOBS_READ, ONE_JOB, lambda o, key, _: views.array_view(o.state, key)
    ),
    "arrays": ViewRow(
        some_id,
        Action.JOBS_READ,
        JOBS,
        lambda o, key, n: pages.array_page(o.state, key, n, o.account),
    ),
    "batch": ViewRow(
        *(batch_name, Action.JOBS_READ, Resource(K.CLIENT, "client_id")),
        lambda o, key, _: batches.batch_view(o.state, key),
        (Resource(K.QUEUE),),
    ),
    "batches": ViewRow(
        *(batch_filter, Action.JOBS_READ, Resource(K.CLIENT, "client_id")),
        lambda o, key, n: batches.batch_page(o.state, key, n, o.account),
        (Resource(K.QUEUE),),
    ),
    "dead": ViewRow(
        place_key,
        Action.JOBS_READ,
        JOBS,
        lambda o, key, n: views.dead_page(o.state, key, n, o.account),
    ),
    "explain": ViewRow(
        some_id, Action.JOBS_READ, ONE_JOB, lambda o, key, _: o.explain(key), of_leader=True
    ),
    "explanation": ViewRow(
        some_id, Action.JOBS_READ, ONE_JOB, lambda o, key, _: o.explanation(key), of_leader=True
    ),
    "progress": ViewRow(
        some_id, Action.JOBS_READ, ONE_JOB, lambda o, key, _: o.progress_of(key), of_leader=True
    ),
    "timeline": ViewRow(
        *(job_place, Action.JOBS_READ, Resource(K.JOB, "job_id")),
        lambda *_: None,
        of_files=True,
    ),
    "queue": ViewRow(
        *(name_key, Action.QUEUES_READ, ONE_QUEUE),
        lambda o, key, _: views.queue_view(o.state, fold(key)),
    ),
    "queues": ViewRow(
        *(name_key, Action.QUEUES_READ, Resource(K.QUEUE)),
        lambda o, key, n: views.queue_page(o.state, key, n),
    ),
    "unserved": ViewRow(
        *(no_key, Action.QUEUES_READ, Resource(K.QUEUE)),
        lambda o, _, n: o.replica.dispatcher.unserved(n),
        of_leader=True,
    ),
    "client": ViewRow(
        *(name_key, Action.CLIENTS_READ, ONE_CLIENT),
        lambda o, key, _: views.client_view(o.state, key),
    ),
    "clients": ViewRow(
        *(name_key, Action.CLIENTS_READ, Resource(K.CLIENT)),
        lambda o, key, n: pages.client_page(o.state, key, n),
    ),
    "worker": ViewRow(
        *(some_id, Action.WORKERS_READ, ONE_WORKER),
        lambda o, key, _: o.worker(key),
    ),
    "workers": ViewRow(
        *(some_id, Action.WORKERS_READ, Resource(K.WORKER)),
        lambda o, key, n: o.workers(key, n),
    ),
    "drained": ViewRow(
        *(some_id, Action.WORKERS_READ, Resource(K.WORKER)),
        lambda o, key, n: views.drain_page(o.state, key, n),
    ),
    "cache": ViewRow(
        name_key, Action.CACHES_READ, ONE_CACHE, lambda o, key, _: views.cache_view(o.state, key)
    ),
    "caches": ViewRow(
        *(name_key, Action.CACHES_READ, Resource(K.CACHE)),
        lambda o, key, n: views.cache_page(o.state, key, n),
    ),
    "holders": ViewRow(
        *(name_key, Action.CACHES_READ, ONE_CACHE),
        lambda o, key, _: o.caches.holders(key),
        of_leader=True,
    ),
    "topic": ViewRow(
        *(name_key, Action.TOPICS_READ, Resource(K.TOPIC, "key")),
        lambda o, key, _: topic_views.topic_view(o.state, key),
    ),
    "topics": ViewRow(
        *(name_key, Action.TOPICS_READ, Resource(K.TOPIC)),
        lambda o, key, n: topic_views.topic_page(o.state, key, n),
    ),
    "schedule": ViewRow(
        *(name_key, Action.SCHEDULES_READ, Resource(K.SCHEDULE, "key")),
        lambda o, key, _: schedule_views.schedule_view(o.state, key),
    ),
    SCHEDULES: ViewRow(
        *(name_key, Action.SCHEDULES_READ, Resource(K.SCHEDULE)),
        lambda o, key, n: schedule_views.schedule_page(o.state, key, n, o.account),
    ),
    "counts": ViewRow(
        no_key, Action.CLUSTER_READ, GRID, lambda o, _, __: views.grid_counts(o.state)
    ),
    "cluster": ViewRow(
        *(no_key, Action.CLUSTER_READ, GRID),
        lambda o, _, __: cluster_view(o.state, o.raft, o.reports),
    ),
    "groups": ViewRow(no_key, Action.CLUSTER_READ, GRID, lambda o, _, __: o.federation()),
    "metrics": ViewRow(no_key, Action.CLUSTER_READ, GRID, lambda o, _, __: o.metrics()),
    "settings": ViewRow(no_key, Action.SETTINGS_READ, GRID, lambda o, _, __: o.state.settings),
    "hints": ViewRow(no_key, Action.SETTINGS_READ, GRID, lambda o, _, __: listed_hints(o.state)),
    "policies": ViewRow(
        *(name_key, Action.SETTINGS_READ, GRID),
        lambda o, key, n: rule_views.policy_page(o.state, key, n),
    ),
    "limits": ViewRow(
        *(name_key, Action.SETTINGS_READ, GRID),
        lambda o, key, n: rule_views.limit_page(o.state, key, n),
    ),
    "weights": ViewRow(
        *(name_key, Action.SETTINGS_READ, GRID),
        lambda o, key, n: rule_views.weight_page(o.state, key, n),
    ),
    "history": ViewRow(place_key, Action.HISTORY_READ, GRID, _history),
    "readers": ViewRow(
        no_key, Action.HISTORY_READ, Resource(K.READER), lambda o, _, __: reader_views(o.state)
    ),
    "account": ViewRow(
        *(name_key, Action.ACCESS_READ, Resource(K.ACCOUNT, "key")),
        lambda o, key, _: access.account_view(o.state, key),
    ),
    "accounts": ViewRow(
        *(name_key, Action.ACCESS_READ, Resource(K.ACCOUNT)),
        lambda o, key, n: access.account_page(o.state, key, n),
    ),
    "roles": ViewRow(
        *(name_key, Action.ACCESS_READ, Resource(K.ROLE)),
        lambda o, key, n: access.role_page(o.state, key, n),
    ),
}
