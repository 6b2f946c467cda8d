"""The sessions of the elected leader: which clients and workers are connected.

Sessions are not replicated. A new leader has none, and clients and workers say hello to it. Bytes
and sockets are the shell's; here a session is a number, which is never used twice.
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
    """How the session of a worker ended: what becomes of the attempts that it held."""

    VANISHED = "vanished"  # its connection broke: they are lost when the grace is over
    # One side does not hear the other, and nothing says that its process is dead: they are lost
    # with their leases.
    SILENT = "silent"
    LEFT = "left"  # it will not come back: they are lost now
    REPLACED = "replaced"  # it has a newer session, which holds them


@dataclass(slots=True)
class ClientSession:
    """One connected client. A legacy client has none of the features behind these fields."""

    number: int
    client_id: ClientId
    confirms: bool  # it confirms results; for one that does not, sending one confirms it
    # Results that were owed when it came are sent up to this sequence number; it only grows.
    owed_after: int = 0
    is_alone: bool = False  # results of its requests go to no other session of its id
    # If so: requests without a result yet, oldest first; at most CLIENT_ASKED_MAX.
    asked: dict[bytes, None] = field(default_factory=dict)
    knows_blobs: bool = True  # it fetches files of results
    hears_errors: bool = True
    takes_runs: bool = False  # jobs come to it in runs
    account: str = ""  # that its link has proved; empty: none

    @property
    def by(self) -> str:
        """Who asks, as the history names them."""
        return self.account or self.client_id


@dataclass(slots=True)
class WorkerSession:
    """One connected worker. It is *opened* when its OpenWorker is applied, and is sent no job
    before: until then `credit_early` collects its credit."""

    number: int
    worker_id: WorkerId
    incarnation: int
    name: str
    patterns: tuple[str, ...]
    features: tuple[str, ...]  # what it offered in its hello
    blob_address: str = ""  # where other workers may fetch blobs from it
    opened: bool = False
    credit_early: int = 0  # 0 <= credit_early <= CREDIT_MAX, and 0 once it is opened
    programs: ProgramSet = ANYTHING  # that it announced
    is_capped: bool = False  # its computer is above its CPU cap, by its last heartbeat
    load: WorkerLoad | None = None  # of its computer, by its last heartbeat; None: not told
    layers: tuple[str, ...] = ()  # of the sandbox that its jobs run in, by its announcement
    renews: bool = field(init=False)  # it renews leases by heartbeats
    names_attempts: bool = field(init=False)  # its acks say which attempt they mean
    takes_runs: bool = field(init=False)  # jobs come to it in runs
    knows_drain: bool = field(init=False)  # it gives back what it has not begun when it is drained
    pings: bool = field(init=False)  # it is never silent for long while it lives
    quiet_looks: int = 0  # calls of `Sessions.look` since its last message
    results_kept: int = 0  # results being stored as blobs; their acks are not proposed yet
    has_left: bool = False  # it left while `results_kept` > 0
    ending: SessionEnd = SessionEnd.VANISHED  # set before the session is removed
    # If it does not name attempts: those that it was sent and has not acked.
    sent: dict[JobId, AttemptRef] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """A legacy worker offers none of these."""
        self.renews = LEASE in self.features
        self.names_attempts = COMPACT in self.features
        self.takes_runs = RUNS in agree(self.features)
        self.knows_drain = DRAIN in agree(self.features)
        self.pings = ALIVE in self.features

    def announced(self, message: Announce) -> None:
        """Its programs have changed."""
        known = self.programs.names or frozenset()
        names = known.difference(message.removed).union(message.added)
        is_any = message.is_any or len(names) > PROGRAMS_MAX
        self.programs = ProgramSet(None if is_any else names, message.ships)
        self.layers = message.layers

    def attempt_meant(self, job_id: JobId, attempt: int, fence: int) -> AttemptRef:
        """The attempt that an ack is of. A legacy worker names the job alone: it means the attempt
        that it was sent last."""
        if attempt or fence:
            return AttemptRef(job_id, attempt, fence)
        ref = self.sent.get(job_id)
        if ref is None:
            raise StateError(ErrorCode.UNKNOWN_JOB, "this worker was not sent the job")
        return ref


@dataclass(slots=True)
class Greeting:
    """A worker's hello that counts attempts which have not all come: no session yet. An older
    session of the worker goes on, and so do grace and leases."""

    hello: HelloWorker
    held: list[AttemptRef] = field(default_factory=list)  # fewer than `hello.holding_count`
    looks: int = 0  # calls of `Sessions.look_at_greetings` since the hello


Session: TypeAlias = ClientSession | WorkerSession


class Sessions:
    """All sessions by number, clients by id (several may share one), workers by id.

    Attributes:
        greetings: Hellos of workers that are not complete, by the number of the connection.
        owing: Clients to which not all results are sent that were owed when they came.
        on_opened: Called with a worker when it is opened, in order.
        on_gone: Called with every session that is removed, in order; not when all are cleared.
    """

    def __init__(self) -> None:
        self.greetings: dict[int, Greeting] = {}
        self.owing: dict[int, ClientSession] = {}
        self.on_opened: list[Callable[[WorkerSession], None]] = []
        self.on_gone: list[Callable[[Session], None]] = []
        self._by_number: dict[int, Session] = {}
        self._clients: dict[ClientId, dict[int, ClientSession]] = {}
        self._workers: dict[WorkerId, WorkerSession] = {}  # the newest session of each
        # Sessions that get all results of their id, and those that get their own, by request. A
        # session is in `_askers` under exactly the ids in its `asked`.
        self._listeners: dict[ClientId, dict[int, ClientSession]] = {}
        self._askers: dict[bytes, tuple[ClientSession, ...]] = {}

    def get(self, number: int) -> Session | None:
        """The session of that number, if it has said hello."""
        return self._by_number.get(number)

    @property
    def client_count(self) -> int:
        """How many clients are connected, by their ids."""
        return len(self._clients)

    def takes_runs(self, number: int) -> bool:
        """Whether a session is told of jobs in runs."""
        session = self._by_number.get(number)
        return session is not None and session.takes_runs

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

    def is_alone(self, session: Session) -> bool:
        """Whether a session gets the results of what it asked for alone: `asked` is to be told."""
        return isinstance(session, ClientSession) and session.is_alone

    def asked(self, session: Session, request_id: MessageId) -> None:
        """A request was accepted; that of a job has the job's id."""
        if isinstance(session, ClientSession) and session.is_alone:
            session.asked[request_id] = None
            others = self._askers.get(request_id, ())
            if not any(one is session for one in others):
                self._askers[request_id] = (*others, session)
            if len(session.asked) > CLIENT_ASKED_MAX:
                self._forget(session, next(iter(session.asked)))

    def receivers(self, client_id: ClientId, job_id: JobId) -> Collection[ClientSession]:
        """Sessions that get the result of a job: those that submitted it and get only their own,
        with those of the client that get all. If no submitter is connected: all of the client."""
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
        """Sessions that get the results of all these jobs; None if they are not the same for all.
        Nothing is forgotten before `answered`."""
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
        """The results of these jobs are on their way to their common receivers."""
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
        """After how much silence a session pings; more when there are many sessions."""
        return max(PING_MS, len(self._by_number) * 1_000 // PINGS_PER_S_MAX)

    def look(self) -> list[WorkerSession]:
        """Count a look at every worker that pings; returns those that were silent for too many."""
        silent = []
        for session in self._workers.values():
            if session.pings and session.opened:
                session.quiet_looks += 1
                if session.quiet_looks > SESSION_QUIET_LOOKS_MAX:
                    silent.append(session)
        return silent

    def look_at_greetings(self) -> list[int]:
        """Count a look at every hello that is not complete; returns those that take too long."""
        for greeting in self.greetings.values():
            greeting.looks += 1
        return [
            number
            for number, greeting in self.greetings.items()
            if greeting.looks > SESSION_QUIET_LOOKS_MAX
        ]

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
            older.ending = SessionEnd.REPLACED
            self._gone(older)
        self._by_number[session.number] = session
        self._workers[session.worker_id] = session
        return older

    def remove(self, number: int) -> Session | None:
        """The connection is gone."""
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
        """Leadership is lost; returns the numbers of all sessions."""
        numbers = [*self._by_number, *self.greetings]
        self._by_number.clear()
        self._clients.clear()
        self._workers.clear()
        self._askers.clear()
        self._listeners.clear()
        self.owing.clear()
        self.greetings.clear()
        return numbers
