"""The sessions of the elected leader: who is connected, as what, and what is owed to whom.

Sessions are not replicated. They begin empty on a new leader, and clients and workers declare
themselves anew. Bytes and sockets are the shell's; here a session is a number.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from rollq.base.errors import ErrorCode, StateError
from rollq.base.ids import ClientId, JobId, MessageId, WorkerId
from rollq.base.jobs import AttemptRef
from rollq.base.limits import (
    CLIENT_ASKED_MAX,
    PING_MS,
    PINGS_PER_S_MAX,
    PROGRAMS_MAX,
    SESSION_QUIET_LOOKS_MAX,
)
from rollq.policy.pools import ANYTHING, Programs
from rollq.wire.features import ALIVE, COMPACT, LEASE
from rollq.wire.messages import Announce


@dataclass(slots=True)
class ClientSession:
    """One connected client."""

    number: int
    client_id: ClientId
    confirms: bool  # it answers results; a legacy one does not
    owed_after: int = 0  # results that were owed when it came are sent up to this place
    is_alone: bool = False  # results of what it asks for are for no other session of its id
    asked: dict[bytes, None] = field(default_factory=dict)  # if so: what it asked for, and waits
    knows_blobs: bool = True  # it fetches files of results; a legacy one does not
    hears_errors: bool = True  # the same


@dataclass(slots=True)
class WorkerSession:
    """One connected worker."""

    number: int
    worker_id: WorkerId
    incarnation: int
    name: str
    patterns: tuple[str, ...]
    features: tuple[str, ...]  # what it offered in its hello
    blob_address: str = ""  # where other workers may fetch blobs from it
    opened: bool = False  # its OpenWorker is applied: it may be given work
    credit_early: int = 0  # granted before it was opened
    programs: Programs = ANYTHING  # what it said it can run
    renews: bool = field(init=False)  # it holds leases by heartbeats
    names_attempts: bool = field(init=False)  # its acks say which attempt they mean
    pings: bool = field(init=False)  # it is never silent for long while it lives
    quiet_looks: int = 0  # looks since it was heard of
    results_kept: int = 0  # results on their way into blobs
    has_left: bool = False  # it hung up before they were
    # What one that does not name them was sent and has not settled.
    sent: dict[JobId, AttemptRef] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """A legacy worker does neither."""
        self.renews = LEASE in self.features
        self.names_attempts = COMPACT in self.features
        self.pings = ALIVE in self.features

    def announced(self, message: Announce) -> None:
        """It can run other programs from now on."""
        known = self.programs.names or frozenset()
        names = known.difference(message.removed).union(message.added)
        is_any = message.is_any or len(names) > PROGRAMS_MAX
        self.programs = Programs(None if is_any else names, message.ships)

    def attempt_meant(self, job_id: JobId, attempt: int, fence: int) -> AttemptRef:
        """A legacy worker acks the job alone: it means what it was sent last."""
        if attempt or fence:
            return AttemptRef(job_id, attempt, fence)
        ref = self.sent.get(job_id)
        if ref is None:
            raise StateError(ErrorCode.UNKNOWN_JOB, "this worker was not sent that job")
        return ref


class Sessions:
    """All sessions by number, clients by id (several may share one), workers by id."""

    def __init__(self) -> None:
        self._by_number: dict[int, ClientSession | WorkerSession] = {}
        self._clients: dict[ClientId, dict[int, ClientSession]] = {}
        self._workers: dict[WorkerId, WorkerSession] = {}
        self.owing: dict[int, ClientSession] = {}  # those with owed results not yet sent
        self._listeners: dict[ClientId, dict[int, ClientSession]] = {}  # who want all results
        self._askers: dict[bytes, tuple[ClientSession, ...]] = {}  # who want no other's results
        self.on_gone: Callable[[ClientSession | WorkerSession], None] = lambda _: None

    def get(self, number: int) -> ClientSession | WorkerSession | None:
        """The session of that number, if it has said hello."""
        return self._by_number.get(number)

    def worker(self, worker_id: WorkerId) -> WorkerSession | None:
        """The one session of a worker."""
        return self._workers.get(worker_id)

    def workers(self) -> Collection[WorkerSession]:
        """Every worker that said hello."""
        return self._workers.values()

    def clients(self, client_id: ClientId) -> Collection[ClientSession]:
        """Every session under this client id."""
        sessions = self._clients.get(client_id)
        return sessions.values() if sessions is not None else ()

    def asked(self, session: ClientSession | WorkerSession, request_id: MessageId) -> None:
        """A request was taken; a job's has the job's id."""
        if isinstance(session, ClientSession) and session.is_alone:
            session.asked[request_id] = None
            others = self._askers.get(request_id, ())
            if not any(one is session for one in others):
                self._askers[request_id] = (*others, session)
            if len(session.asked) > CLIENT_ASKED_MAX:
                self._forget(session, next(iter(session.asked)))

    def receivers(self, client_id: ClientId, job_id: JobId) -> Collection[ClientSession]:
        """Who is to be told how a job ended: those who asked for it and want no other's results,
        with those who want all; every session of its client, if nobody like that is here."""
        known = self._askers.get(job_id, ()) if self._askers else ()
        askers = [one for one in known if one.client_id == client_id]  # others may name any id
        if not askers:
            return self.clients(client_id)
        for session in askers:
            self._forget(session, job_id)
        return (*askers, *self._listeners.get(client_id, {}).values())

    def _forget(self, session: ClientSession, request_id: bytes) -> None:
        session.asked.pop(request_id, None)
        left = tuple(one for one in self._askers.get(request_id, ()) if one is not session)
        if left:
            self._askers[request_id] = left
        else:
            self._askers.pop(request_id, None)

    def __len__(self) -> int:
        return len(self._by_number)

    @property
    def ping_ms(self) -> int:
        """How much silence a session bears before it pings: more where there are many."""
        return max(PING_MS, len(self._by_number) * 1_000 // PINGS_PER_S_MAX)

    def look(self) -> list[WorkerSession]:
        """Count a look at every worker that pings; those that said nothing for too many."""
        silent = []
        for session in self._workers.values():
            if session.pings and session.opened:
                session.quiet_looks += 1
                if session.quiet_looks > SESSION_QUIET_LOOKS_MAX:
                    silent.append(session)
        return silent

    def numbers(self) -> list[int]:
        """Every session."""
        return list(self._by_number)

    def add_client(self, session: ClientSession) -> None:
        """A client said hello."""
        self._by_number[session.number] = session
        self._clients.setdefault(session.client_id, {})[session.number] = session
        if not session.is_alone:
            self._listeners.setdefault(session.client_id, {})[session.number] = session

    def add_worker(self, session: WorkerSession) -> WorkerSession | None:
        """A worker said hello; returns the older session of the same worker that it replaces."""
        older = self._workers.get(session.worker_id)
        if older is not None:
            del self._by_number[older.number]
            self.on_gone(older)
        self._by_number[session.number] = session
        self._workers[session.worker_id] = session
        return older

    def remove(self, number: int) -> ClientSession | WorkerSession | None:
        """The connection is gone."""
        session = self._by_number.pop(number, None)
        self.owing.pop(number, None)
        if isinstance(session, ClientSession):
            for request_id in list(session.asked):
                self._forget(session, request_id)
            for table in (self._clients, self._listeners):
                same_id = table.get(session.client_id, {})
                same_id.pop(number, None)
                if not same_id:
                    table.pop(session.client_id, None)
        elif isinstance(session, WorkerSession):
            del self._workers[session.worker_id]
        if session is not None:
            self.on_gone(session)
        return session

    def clear(self) -> list[int]:
        """Leadership is lost: forget everybody; returns whom to send away."""
        numbers = list(self._by_number)
        self._by_number.clear()
        self._clients.clear()
        self._workers.clear()
        self._askers.clear()
        self._listeners.clear()
        self.owing.clear()
        return numbers


class WorkerNames:
    """Which names are taken by workers that the group knows; several may share one."""

    def __init__(self) -> None:
        self._name_of: dict[WorkerId, str] = {}
        self._workers_of: dict[str, dict[WorkerId, None]] = {}

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._workers_of

    def set(self, worker_id: WorkerId, name: str) -> None:
        """A worker goes by this name now; empty: it is gone, or has none."""
        older = self._name_of.pop(worker_id, "")
        if older:
            workers = self._workers_of[older]
            del workers[worker_id]
            if not workers:
                del self._workers_of[older]
        key = name.lower()
        if key:
            self._name_of[worker_id] = key
            self._workers_of.setdefault(key, {})[worker_id] = None
