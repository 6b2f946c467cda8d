"""Workers of the leader: from hello to the end of the session.

The hello makes a session and proposes OpenWorker, once all attempts that it counts have arrived:
attempts that OpenWorker does not name are lost. When that is applied the worker gets Welcome and is
*opened*: from then on it gets jobs for its credit. The end of a session (`SessionEnd`) decides when
the worker's attempts are lost. Jobs themselves are in `attempts`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from msgspec.structs import replace

from rollq.base.errors import ErrorCode, RemoteError, StateError
from rollq.base.ids import NIL_ID, ClientId, WorkerId
from rollq.base.limits import CLIENT_ID_BYTES_MAX, CREDIT_MAX, PATTERNS_PER_WORKER_MAX
from rollq.base.stamp import Clock, Jitter
from rollq.grid import commands
from rollq.grid.effects import Applied, Outcome, Refused, SendAssign, SendDrain
from rollq.policy.expiry import Expiry
from rollq.policy.retry import backoff_ms
from rollq.roles.member.leader.addressing import WorkerNames, bounded
from rollq.roles.member.leader.origins import SILENT, Origin
from rollq.roles.member.leader.proposals import Proposals
from rollq.roles.member.leader.replies import Replies
from rollq.roles.member.leader.session_log import SessionLog
from rollq.roles.member.leader.sessions import (
    Greeting,
    Session,
    SessionEnd,
    Sessions,
    WorkerSession,
)
from rollq.roles.member.replica import Replica
from rollq.subjects.grammar import fold, parse_pattern
from rollq.subjects.queues import worker_pattern
from rollq.wire import messages


class Workers:
    """Handles the workers of one leader."""

    def __init__(
        self,
        replica: Replica,
        sessions: Sessions,
        proposals: Proposals,
        replies: Replies,
        *,
        expiry: Expiry,
        names: WorkerNames,
        log: SessionLog,
        clock: Clock,
        jitter: Jitter,
    ) -> None:
        self._replica = replica
        self._sessions = sessions
        self._proposals = proposals
        self._replies = replies
        self._expiry = expiry
        self._names = names
        self._log = log
        self._clock = clock
        self._jitter = jitter
        self._quiet_at_ms = 0  # time of the next check for silent workers
        self._closed: Final = Origin(self._settle_close)

    # --- hello

    def hello(self, number: int, hello: messages.HelloWorker) -> None:
        """A worker's hello; it may count attempts that follow in Holdings."""
        if hello.holding_count:
            self._sessions.greetings[number] = Greeting(hello)
        else:
            self._open(number, hello)

    def holding(self, number: int, message: messages.Holdings) -> None:
        """Some of the attempts that a hello counted; the last one completes the hello."""
        greeting = self._sessions.greetings.get(number)
        if greeting is None:
            raise RemoteError(ErrorCode.BAD_HANDSHAKE, "Holdings without a hello that counts it")
        count = greeting.hello.holding_count
        greeting.held += message.holding
        if len(greeting.held) > count:
            raise RemoteError(
                ErrorCode.BAD_HANDSHAKE,
                f"{len(greeting.held)} attempts are held, but the hello counted {count}",
            )
        if len(greeting.held) == count:
            del self._sessions.greetings[number]
            holding = (*greeting.hello.holding, *greeting.held)
            self._open(number, replace(greeting.hello, holding=holding))

    def _open(self, number: int, hello: messages.HelloWorker) -> None:
        """Open a session for a complete hello; it replaces an older one of the same worker."""
        if not 0 < len(hello.patterns) <= PATTERNS_PER_WORKER_MAX:
            raise RemoteError(
                ErrorCode.BAD_HANDSHAKE,
                f"{len(hello.patterns)} patterns; a worker serves 1 to {PATTERNS_PER_WORKER_MAX}",
            )
        patterns = tuple(worker_pattern(pattern) for pattern in hello.patterns)
        for pattern in patterns:
            parse_pattern(pattern)
        if hello.worker_id == NIL_ID:  # first form of the legacy protocol: it cannot reconnect
            hello = replace(hello, worker_id=self._jitter.draw_id())
        name = bounded("worker name", fold(hello.name), CLIENT_ID_BYTES_MAX, may_be_empty=True)
        session = WorkerSession(
            number,
            worker_id=hello.worker_id,
            incarnation=hello.incarnation,
            name=name,
            patterns=patterns,
            features=hello.features,
            blob_address=hello.blob_address,
        )
        older = self._sessions.add_worker(session)
        if older is not None:
            self._replies.close(older.number, "the worker opened another session")
        self._expiry.worker_returned(hello.worker_id)
        for ref in hello.holding:
            session.sent[ref.job_id] = ref
        settings = self._replica.state.settings
        self._proposals.add(
            commands.OpenWorker(
                hello.worker_id,
                hello.incarnation,
                name=name,
                patterns=patterns,
                slots=hello.slots,
                running=hello.holding,
                lost_delay_ms=backoff_ms(
                    1, settings.retry_base_ms, settings.retry_max_ms, self._jitter
                ),
                labels=hello.labels,
                resources=hello.resources,
            ),
            Origin(self._settle_open, number),
        )

    def _settle_open(
        self, origin: Origin, command: commands.OpenWorker, outcome: Outcome, applied: Applied
    ) -> None:
        self._follow_name(command.worker_id)
        session = self._sessions.get(origin.session)
        if not isinstance(session, WorkerSession):
            return
        if isinstance(outcome, Refused):
            error = messages.Error(messages.NOT_ASKED, int(outcome.code), outcome.message)
            self._replies.send(origin.session, error)
            self._replies.close(origin.session, outcome.message)
            return
        # Assignments that are sent again take slots that the worker still counts as free.
        owed = sum(
            1
            for effect in applied.effects
            if type(effect) is SendAssign and effect.worker_id == session.worker_id
        )
        self._replies.welcome(origin.session, session.features, owed)
        self._replica.dispatcher.open_worker(
            session.worker_id,
            session.incarnation,
            session.name,
            session.patterns,
            len(self._replica.state.workers[session.worker_id].held),
            programs=session.programs,
        )
        self._log.joined(session)
        self._sessions.opened(session)
        if session.worker_id in self._replica.state.drained:
            self.send_drain(SendDrain(session.worker_id, is_drained=True))
        early, session.credit_early = session.credit_early, 0
        self._replica.dispatcher.grant(session.worker_id, early)

    # --- messages of a session

    def credit(self, session: WorkerSession, message: messages.Credit) -> None:
        """Grant credit: the worker can take so many more jobs."""
        if message.count < 0:
            raise RemoteError(ErrorCode.BAD_CREDIT, f"negative credit: {message.count}")
        count = min(message.count, CREDIT_MAX)
        if session.opened:
            self._replica.dispatcher.grant(session.worker_id, count)
        else:
            session.credit_early = min(CREDIT_MAX, session.credit_early + count)

    def heartbeat(self, session: WorkerSession, message: messages.Heartbeat) -> None:
        """Renew the leases of its attempts, and note its load."""
        session.is_capped = message.is_capped
        if message.load is not None:
            session.load = message.load
            self._replica.dispatcher.report(session.worker_id, message.load)
        now_ms = self._clock.now_ms()
        for ref in message.holding:
            self._expiry.renew(ref.job_id, ref.attempt, now_ms)

    def announce(self, session: WorkerSession, message: messages.Announce) -> None:
        """Its programs have changed."""
        session.announced(message)
        self._replica.dispatcher.announce(session.worker_id, session.programs)

    def goodbye(self, session: WorkerSession, message: messages.Goodbye) -> None:
        """It leaves for good, or because it receives nothing from this member."""
        if message.returns:
            self._log.silent(session)
        session.ending = SessionEnd.SILENT if message.returns else SessionEnd.LEFT
        self._replies.close(session.number, f"goodbye: {message.reason}")

    # --- the end of a session

    def gone(self, session: Session) -> None:
        """A session was removed; see `SessionEnd`."""
        if not isinstance(session, WorkerSession):
            return
        self._replica.dispatcher.close_worker(session.worker_id)
        worker = session.worker_id, session.incarnation
        if session.ending is SessionEnd.VANISHED:
            self._expiry.worker_disconnected(*worker, self._clock.now_ms())
        elif session.ending is SessionEnd.SILENT:
            self._expiry.worker_silent(*worker, self._clock.now_ms())
        elif session.ending is SessionEnd.LEFT:
            if session.results_kept:
                session.has_left = True  # its attempts are lost after their results, not before
            else:
                self._close(*worker)

    def results_kept(self, session: WorkerSession) -> None:
        """All results of a worker that left are proposed."""
        if self._sessions.worker(session.worker_id) is None:
            self._close(session.worker_id, session.incarnation)

    def leave_silent(self, now_ms: int) -> None:
        """Once a turn: end sessions of silent workers, so that they get no more jobs.

        Counts checks instead of time: while this process stood still it received nothing, and while
        its backlog is large it reads nothing."""
        if now_ms < self._quiet_at_ms:
            return
        self._quiet_at_ms = now_ms + self._sessions.ping_ms
        if self._proposals.is_busy():
            return
        for number in self._sessions.check_greetings():
            self._replies.close(number, "the worker did not send all attempts that it counted")
        for session in self._sessions.check_silence():
            self._log.silent(session)
            session.ending = SessionEnd.SILENT
            self._replies.close(session.number, "the worker is silent")

    def dismiss(self, worker_ids: Iterable[WorkerId], by: ClientId) -> int:
        """Ask workers to stop now; their attempts are lost when they say goodbye. Returns how many
        are connected."""
        sessions = [self._sessions.worker(worker_id) for worker_id in worker_ids]
        opened = [session for session in sessions if session is not None and session.opened]
        for session in opened:
            error = StateError(ErrorCode.DISMISSED, f"dismissed by {by}")
            self._replies.error(session.number, messages.NOT_ASKED, error)
        return len(opened)

    def send_drain(self, effect: SendDrain) -> None:
        """Notify a worker of the begin or end of its drain. An older version is not notified: it
        runs the jobs that it has prefetched."""
        session = self._sessions.worker(effect.worker_id)
        if session is not None and session.opened and session.knows_drain:
            self._replies.send(session.number, messages.Drain(effect.is_drained))

    def propose_due(self, due: Iterable[commands.Command]) -> None:
        """Propose the commands of due timers, some of which close workers."""
        for command in due:
            is_close = isinstance(command, commands.CloseWorker)
            self._proposals.add(command, self._closed if is_close else SILENT)

    def learn_names(self) -> None:
        """Leadership is gained: load the names of all workers."""
        self._names.clear()
        for worker in self._replica.state.workers.values():
            self._names.set(worker.worker_id, worker.name)

    def _close(self, worker_id: WorkerId, incarnation: int) -> None:
        """Its attempts are lost now. Proposed even if the worker is unknown, as its OpenWorker may
        not be applied yet."""
        state = self._replica.state
        record = state.workers.get(worker_id)
        held = record.held if record is not None and record.incarnation == incarnation else ()
        lost = tuple(
            self._expiry.as_lost(state, state.jobs[job_id], self._jitter) for job_id in held
        )
        self._proposals.add(commands.CloseWorker(worker_id, incarnation, lost), self._closed)

    def _settle_close(
        self, origin: Origin, command: commands.CloseWorker, outcome: Outcome, applied: Applied
    ) -> None:
        self._follow_name(command.worker_id)

    def _follow_name(self, worker_id: WorkerId) -> None:
        # The record after the whole entry, which may have opened and closed the worker.
        record = self._replica.state.workers.get(worker_id)
        self._names.set(worker_id, record.name if record is not None else "")
