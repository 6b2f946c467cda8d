"""The sessions of the elected leader: its connected clients and workers.

Sessions are not replicated. A new leader has none; clients and workers send it a hello. Sockets
belong to the shell; here a session is a number, which is never reused.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

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
from rollq.base.needs import WorkerLoad
from rollq.policy.needs import ANYTHING, ProgramSet
from rollq.wire.features import ALIVE, COMPACT, DRAIN, LEASE, RUNS, agree
from rollq.wire.messages import Announce, HelloWorker


class SessionEnd(enum.Enum):
    """How the session of a worker ended; decides when its attempts are lost."""

    VANISHED = "vanished"  # the connection broke: lost after the grace period
    # One side receives nothing from the other, but the process may live: lost when their leases
    # expire.
    SILENT = "silent"
    LEFT = "left"  # it will not return: lost now
    REPLACED = "replaced"  # it has a newer session, which holds them


@dataclass(slots=True)
class ClientSession:
    """One connected client. The fields with defaults are features that a legacy client lacks."""

    number: int
    client_id: ClientId
    confirms: bool  # it confirms results; if not, sending a result confirms it
    # Owed results are sent up to this sequence number; it only grows.
    owed_after: int = 0
    is_alone: bool = False  # it alone gets the results of its requests, and no others
    # If `is_alone`: accepted requests without a result, oldest first; at most CLIENT_ASKED_MAX.
    asked: dict[bytes, None] = field(default_factory=dict)
    knows_blobs: bool = True  # it fetches files of results
    reads_errors: bool = True
    takes_runs: bool = False  # it supports runs of jobs
    account: str = ""  # that its link has logged in to; empty: none

    @property
    def by(self) -> str:
        """The requester's name in the history."""
        return self.account or self.client_id


@dataclass(slots=True)
class WorkerSession:
    """One connected worker. It is *opened* when its OpenWorker is applied, and gets no job before:
    until then `credit_early` collects its credit."""

    number: int
    worker_id: WorkerId
    incarnation: int
    name: str
    patterns: tuple[str, ...]
    features: tuple[str, ...]  # offered in its hello
    blob_address: str = ""  # where other workers may fetch blobs from it
    opened: bool = False
    credit_early: int = 0  # 0 <= credit_early <= CREDIT_MAX, and 0 once it is opened
    programs: ProgramSet = ANYTHING  # last announced
    is_capped: bool = False  # its host was above its CPU cap at its last heartbeat
    load: WorkerLoad | None = None  # of its host at its last heartbeat; None: not reported
    layers: tuple[str, ...] = ()  # sandbox layers of its jobs, last announced
    renews: bool = field(init=False)  # it renews leases by heartbeats
    names_attempts: bool = field(init=False)  # its acks have attempt and fence
    takes_runs: bool = field(init=False)  # it supports runs of jobs
    knows_drain: bool = field(init=False)  # when drained, it returns jobs that have not started
    pings: bool = field(init=False)  # it sends at least a ping every `ping_ms`
    quiet_checks: int = 0  # calls of `Sessions.check_silence` since its last message
    results_kept: int = 0  # results being stored as blobs; their acks are not proposed yet
    has_left: bool = False  # it left while `results_kept` > 0
    ending: SessionEnd = SessionEnd.VANISHED  # set before the session is removed
    # Without `names_attempts`: the attempts that it was sent and has not acked.
    sent: dict[JobId, AttemptRef] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Derive what the worker supports; a legacy worker offers none of it."""
        self.renews = LEASE in self.features
        self.names_attempts = COMPACT in self.features
        self.takes_runs = RUNS in agree(self.features)
        self.knows_drain = DRAIN in agree(self.features)
        self.pings = ALIVE in self.features

    def announced(self, message: Announce) -> None:
        """Update its programs and sandbox layers."""
        known = self.programs.names or frozenset()
        names = known.difference(message.removed).union(message.added)
        is_any = message.is_any or len(names) > PROGRAMS_MAX
        self.programs = ProgramSet(None if is_any else names, message.ships)
        self.layers = message.layers

    def attempt_of(self, job_id: JobId, attempt: int, fence: int) -> AttemptRef:
        """The attempt of an ack. A legacy worker gives only the job: it means the attempt that it
        was sent last."""
        if attempt or fence:
            return AttemptRef(job_id, attempt, fence)
        ref = self.sent.get(job_id)
        if ref is None:
            raise StateError(ErrorCode.UNKNOWN_JOB, "this worker was not sent the job")
        return ref


@dataclass(slots=True)
class Greeting:
    """A worker's hello whose counted attempts have not all arrived: not a session yet. An older
    session of the worker continues, and so do grace period and leases."""

    hello: HelloWorker
    held: list[AttemptRef] = field(default_factory=list)  # fewer than `hello.holding_count`
    checks: int = 0  # calls of `Sessions.check_greetings` since the hello


Session: TypeAlias = ClientSession | WorkerSession


class Sessions:
    """All sessions by number, clients by id (several may share one), workers by id.

    Attributes:
        greetings: Incomplete hellos of workers, by connection number.
        owing: Clients with results that were owed when they connected and are not sent yet.
        on_opened: Called in order with a worker when it is opened.
        on_gone: Called in order with every removed session; not by `clear`.
    """

    def __init__(self) -> None:
        self.greetings: dict[int, Greeting] = {}
        self.owing: dict[int, ClientSession] = {}
        self.on_opened: list[Callable[[WorkerSession], None]] = []
        self.on_gone: list[Callable[[Session], None]] = []
        self._by_number: dict[int, Session] = {}
        self._clients: dict[ClientId, dict[int, ClientSession]] = {}
        self._workers: dict[WorkerId, WorkerSession] = {}  # the newest session of each
        # Sessions that get all results of their client id, and those that get only their own, by
        # request id. A session is in `_askers` under exactly the ids in its `asked`.
        self._listeners: dict[ClientId, dict[int, ClientSession]] = {}
        self._askers: dict[bytes, tuple[ClientSession, ...]] = {}

    def get(self, number: int) -> Session | None:
        """The session with this number, after its hello."""
        return self._by_number.get(number)

    @property
    def client_count(self) -> int:
        """The number of connected client ids."""
        return len(self._clients)

    def takes_runs(self, number: int) -> bool:
        """Whether a session supports runs of jobs."""
        session = self._by_number.get(number)
        return session is not None and session.takes_runs

    def worker(self, worker_id: WorkerId) -> WorkerSession | None:
        """The newest session of a worker."""
        return self._workers.get(worker_id)

    def workers(self) -> Collection[WorkerSession]:
        """The sessions of all workers."""
        return self._workers.values()

    def clients(self, client_id: ClientId) -> Collection[ClientSession]:
        """All sessions of a client id."""
        sessions = self._clients.get(client_id)
        return sessions.values() if sessions is not None else ()

    def is_alone(self, session: Session) -> bool:
        """Whether a session gets only the results of its own requests; `asked` must be called."""
        return isinstance(session, ClientSession) and session.is_alone

    def asked(self, session: Session, request_id: MessageId) -> None:
        """A request was accepted; the request id of a job is its job id."""
        if isinstance(session, ClientSession) and session.is_alone:
            session.asked[request_id] = None
            others = self._askers.get(request_id, ())
            if not any(one is session for one in others):
                self._askers[request_id] = (*others, session)
            if len(session.asked) > CLIENT_ASKED_MAX:
                self._forget(session, next(iter(session.asked)))

    def receivers(self, client_id: ClientId, job_id: JobId) -> Collection[ClientSession]:
        """Sessions that get the result of a job: those that submitted it and get only their own,
        and those of the client that get all. If no submitter is connected: all of the client."""
        known = self._askers.get(job_id, ()) if self._askers else ()
        askers = [one for one in known if one.client_id == client_id]  # an id may be reused
        if not askers:
            return self.clients(client_id)
        for session in askers:
            self._forget(session, job_id)
        return (*askers, *self._listeners.get(client_id, {}).values())

    def common_receivers(
        self, client_id: ClientId, job_ids: Sequence[JobId]
    ) -> Collection[ClientSession] | None:
        """Sessions that get the results of all these jobs; None if they differ between jobs. The
        submitters are kept until `answered`."""
        if not self._askers:
            return self.clients(client_id)
        known = [self._askers.get(job_id) for job_id in job_ids]
        if not any(known):
            return self.clients(client_id)
        asker = known[0][0] if known[0] else None
        if asker is None or asker.client_id != client_id:
            return None
        if any(one is None or len(one) != 1 or one[0] is not asker for one in known):
            return None
        return (asker, *self._listeners.get(client_id, {}).values())

    def answered(self, job_ids: Iterable[JobId]) -> None:
        """The results of these jobs were sent to their common receivers."""
        if self._askers:
            for job_id in job_ids:
                for session in self._askers.get(job_id, ()):
                    self._forget(session, job_id)

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
        """After how much silence a peer must ping; longer when there are many sessions."""
        return max(PING_MS, len(self._by_number) * 1_000 // PINGS_PER_S_MAX)

    def check_silence(self) -> list[WorkerSession]:
        """Count a check of every pinging worker; returns those silent for too many checks."""
        silent = []
        for session in self._workers.values():
            if session.pings and session.opened:
                session.quiet_checks += 1
                if session.quiet_checks > SESSION_QUIET_LOOKS_MAX:
                    silent.append(session)
        return silent

    def check_greetings(self) -> list[int]:
        """Count a check of every incomplete hello; returns those that take too long."""
        for greeting in self.greetings.values():
            greeting.checks += 1
        return [
            number
            for number, greeting in self.greetings.items()
            if greeting.checks > SESSION_QUIET_LOOKS_MAX
        ]

    def numbers(self) -> list[int]:
        """The numbers of all sessions."""
        return list(self._by_number)

    def add_client(self, session: ClientSession) -> None:
        """Add the session of a client."""
        self._by_number[session.number] = session
        self._clients.setdefault(session.client_id, {})[session.number] = session
        if not session.is_alone:
            self._listeners.setdefault(session.client_id, {})[session.number] = session

    def add_worker(self, session: WorkerSession) -> WorkerSession | None:
        """Add the session of a worker; returns the older session that it replaces."""
        older = self._workers.get(session.worker_id)
        if older is not None:
            del self._by_number[older.number]
            older.ending = SessionEnd.REPLACED
            self._gone(older)
        self._by_number[session.number] = session
        self._workers[session.worker_id] = session
        return older

    def remove(self, number: int) -> Session | None:
        """The connection closed: remove its session."""
        session = self._by_number.pop(number, None)
        self.owing.pop(number, None)
        self.greetings.pop(number, None)
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
            self._gone(session)
        return session

    def opened(self, session: WorkerSession) -> None:
        """The OpenWorker of a session is applied."""
        session.opened = True
        for call in self.on_opened:
            call(session)

    def _gone(self, session: Session) -> None:
        for call in self.on_gone:
            call(session)

    def clear(self) -> list[int]:
        """Leadership is lost: remove all sessions; returns their numbers."""
        numbers = [*self._by_number, *self.greetings]
        self._by_number.clear()
        self._clients.clear()
        self._workers.clear()
        self._askers.clear()
        self._listeners.clear()
        self.owing.clear()
        self.greetings.clear()
        return numbers
