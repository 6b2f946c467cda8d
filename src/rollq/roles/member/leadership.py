"""The leader's office: everything that exists on the elected leader alone.

Sessions, credits, timers and waiting proposals are not replicated. They begin with `gain`, end
with `lose`, and in between this object turns outcomes and effects of applied entries into
messages, and timers and credits into commands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from rollq.base.errors import ErrorCode, LocalError, RollqError, StateError
from rollq.base.ids import ClientId, JobId, MessageId, WorkerId, guid_to_text
from rollq.base.jobs import AttemptRef
from rollq.base.limits import (
    CREDIT_MAX,
    OWED_BYTES_PER_TURN_MAX,
    OWED_RESULTS_PER_TURN_MAX,
    TURN_COMMANDS_MAX,
)
from rollq.base.stamp import Clock, Jitter
from rollq.grid import commands
from rollq.grid.effects import (
    Applied,
    Effect,
    Known,
    Outcome,
    Refused,
    SendAssign,
    SendCancel,
    SendResult,
)
from rollq.grid.outbox import is_still_to_come, owed_to_client
from rollq.grid.readers import silent_readers
from rollq.grid.refs import caches_of
from rollq.grid.state import GridState
from rollq.policy.dispatch import Dispatcher
from rollq.policy.expiry import Expiry
from rollq.policy.retry import give_back_delay_ms, retry_delay_ms
from rollq.raft.types import Config
from rollq.roles.member.cache_relay import CacheRelay
from rollq.roles.member.caches import CacheDesk
from rollq.roles.member.group_clock import GroupClock
from rollq.roles.member.keeping import Deliveries, Delivery, Keeping
from rollq.roles.member.knowledge import AllHeld, BlobKnowledge
from rollq.roles.member.leader_log import LeaderLog
from rollq.roles.member.letters import assignment, needs_blobs, outcome_of, refusal_of
from rollq.roles.member.outputs import Mishap, Outputs, Warn
from rollq.roles.member.proposals import ACK, REQUEST, Origin, Proposals
from rollq.roles.member.replica import Replica
from rollq.roles.member.sessions import ClientSession, Sessions, WorkerNames, WorkerSession
from rollq.roles.member.spellings import Spellings
from rollq.roles.member.staging import StagingDesk, left_lying
from rollq.roles.member.watches import Watches
from rollq.wire import messages
from rollq.wire.checks import request_id_of
from rollq.wire.features import ALIVE, agree

ASSIGNMENTS = commands.AssignJob | commands.AssignTask
LOOK_MS = 10_000  # how often batches and readers that are left lying are looked for


class Leadership:
    """What the leader knows and owes beside the replicated state."""

    def __init__(
        self,
        replica: Replica,
        group: str,
        clock: Clock,
        jitter: Jitter,
        *,
        outputs: Outputs,
        time: GroupClock,
    ) -> None:
        self.clock = clock
        self.time = time
        self.jitter = jitter
        self.sessions = Sessions()
        self.proposals = Proposals()
        self.expiry = Expiry()
        # Whether a session has read most of what it was sent: the shell knows.
        self.has_room: Callable[[int], bool] = lambda _: True
        # What content the group holds: the shell that keeps it knows.
        self.blobs: BlobKnowledge = AllHeld()
        self._replica = replica
        self._group = group
        self._outputs = outputs
        self._names = WorkerNames()
        self._member_id = 0
        self.relay = CacheRelay(self.sessions, self._send, jitter)
        self.caches = CacheDesk(self.sessions, lambda: self.state, self._send, clock)
        self.sessions.on_gone = self._gone
        self.watches = Watches(self, outputs)
        self.staging = StagingDesk()
        self._look_at_ms = 0
        self.log = LeaderLog(lambda: self.state, clock, outputs)
        self._quiet_at_ms = 0  # when to look next for workers that fell silent
        self.keeping = Keeping(outputs, clock)
        self.spellings = Spellings()
        self.deliveries = Deliveries(outputs, clock, self._may_send)

    @property
    def state(self) -> GridState:
        """The replicated state as applied so far."""
        return self._replica.state

    @property
    def dispatcher(self) -> Dispatcher:
        """The index of what can be assigned."""
        return self._replica.dispatcher

    # --- the term of office

    def gain(self, member_id: int) -> None:
        """This member leads, and its state holds everything that was ever committed."""
        self._member_id = member_id
        self.expiry.gain(self.state, self.clock.now_ms(), self.time.now_ms())
        self.dispatcher.nearest = self.caches.nearest
        self._names = WorkerNames()
        for worker in self.state.workers.values():
            self._names.set(worker.worker_id, worker.name)

    def lose(self, leader: str, config: Config) -> None:
        """Somebody else leads, or nobody: send everybody away, keep nothing."""
        members = tuple(member.address for member in config.voters)
        for number in self.sessions.clear():
            self._send(number, messages.NotLeader(leader, members))
            self.close(number, "not the leader any more")
        self.watches.clear()
        self.proposals.clear()
        self.staging = StagingDesk()
        self.relay.clear()
        self.caches.clear()
        self.keeping.clear()
        self.deliveries.clear()
        self.expiry.abdicate()
        self.dispatcher.abdicate()

    # --- once a turn: what the leader itself asks the group to agree on

    def propose_own(self) -> None:
        """Timers that are due, results that are owed, and jobs for free credits."""
        now_ms = self.clock.now_ms()
        due = self.expiry.due(self.state, now_ms, self.jitter, TURN_COMMANDS_MAX)
        if due:
            self.log.lost(due)
            self.proposals.add_own(due)
        if self.sessions.owing:
            self._send_pages()
        if self.keeping:
            self.keeping.pump()
        if self.deliveries:
            self.deliveries.pump()
        self.relay.expire(now_ms)
        self.caches.due()
        self.proposals.add_own(self.staging.due(self.state))
        if now_ms >= self._look_at_ms:  # what was asked for before is done by then
            self._look_at_ms = now_ms + LOOK_MS
            time_ms = self.time.now_ms()
            self.proposals.add_own(left_lying(self.state, time_ms))
            self.proposals.add_own(silent_readers(self.state, time_ms))
        if now_ms >= self._quiet_at_ms:
            self._leave_silent(now_ms)
        self.proposals.add_own(self.dispatcher.decide(TURN_COMMANDS_MAX))

    def _leave_silent(self, now_ms: int) -> None:
        """Close sessions of workers that say nothing, so that they are given no more work. Looks
        are counted and not the time: while this process stood still nobody could be heard, nor
        while it reads nothing because too much waits. What such a worker runs is taken from it no
        sooner than its lease ends, as nothing says that it is dead."""
        self._quiet_at_ms = now_ms + self.sessions.ping_ms
        if self.proposals.is_busy():
            return
        for session in self.sessions.look():
            self.sessions.remove(session.number)
            self.dispatcher.close_worker(session.worker_id)
            self.expiry.worker_silent(session.worker_id, session.incarnation, now_ms)
            self.log.silent(session)
            self._outputs.close(session.number, "the worker says nothing")

    # --- after every applied entry

    def settle(self, applied: Applied) -> None:
        """Tell whoever waits what became of the commands, and do what the entry asks for."""
        self.expiry.observe(applied.events, self.state, self.clock.now_ms())
        batch = self.proposals.settled(applied.index)
        if batch:
            for (command, origin, _), outcome in zip(batch, applied.outcomes, strict=True):
                waiter = origin.waiter
                if waiter is REQUEST:
                    self._reply(origin, outcome)
                elif waiter is ACK:
                    self._ack_taken(origin, outcome)
                elif isinstance(command, ASSIGNMENTS):
                    if type(outcome) is Refused:
                        self.dispatcher.refused(command)
                elif isinstance(command, commands.OpenWorker):
                    self._follow_name(command.worker_id)
                    self._worker_opened(origin, outcome, applied.effects)
                elif isinstance(command, commands.CloseWorker):
                    self._follow_name(command.worker_id)
                elif isinstance(command, commands.PutCache | commands.RemoveCache):
                    self._reply(origin, outcome)
                    self.caches.changed(command.cache_id)
        for effect in applied.effects:
            if type(effect) is SendAssign:
                self._assign(effect)
            elif type(effect) is SendResult:
                self._send_result(effect)
            elif type(effect) is SendCancel:
                self._stop(effect)
        if self.watches:
            self.watches.follow(applied.effects)

    # --- what the gateway uses

    def welcome(self, number: int, offered: tuple[str, ...], owed: int = 0) -> None:
        """Answer a hello with the features that both sides speak."""
        features = agree(offered)
        ping_ms = self.sessions.ping_ms if ALIVE in features else 0
        self._send(number, messages.Welcome(self._group, self._member_id, features, owed, ping_ms))

    def pong(self, number: int) -> None:
        """Answer a ping."""
        self._send(number, messages.Pong())

    def error(self, number: int, request_id: MessageId, error: RollqError) -> None:
        """Say what was wrong, to whoever asked."""
        self._send(
            number,
            messages.Error(request_id, int(error.code), error.message, error.hint, error.retryable),
        )

    def refuse_job(self, number: int, job_id: JobId, why: str) -> None:
        """A submit cannot be taken. A client that reads no errors is told by a failed result: else
        it would wait for ever."""
        session = self.sessions.get(number)
        if isinstance(session, ClientSession) and not session.hears_errors:
            self.warn(f"job {guid_to_text(job_id)} of {session.client_id!a} is refused: {why}")
            self._send(number, refusal_of(job_id, session.client_id, why))

    def warn(self, text: str) -> None:
        """Write something to the log of the process."""
        self._outputs.append(Warn(text))

    def is_busy(self, share: int = 1) -> bool:
        """Whether so much waits that sessions are not read for now."""
        return self.proposals.is_busy(share) or self.keeping.is_busy(share)

    def failed(self, number: int, message: messages.SessionMessage, error: Exception) -> None:
        """A handler failed on what a session said. The session ends, and is told that asking the
        same of another leader would not help."""
        name = type(message).__name__
        self._outputs.append(Mishap(f"session {number}: {name}", error))
        bug = LocalError(ErrorCode.BUG, f"cannot handle {name}: {error!r}", "report the log")
        self.error(number, request_id_of(message), bug)
        self.close(number, str(bug))

    def close(self, number: int, reason: str) -> None:
        """End a session."""
        gone = self.sessions.remove(number)
        if isinstance(gone, WorkerSession):
            self.dispatcher.close_worker(gone.worker_id)
            self.expiry.worker_vanished(gone.worker_id, gone.incarnation, self.clock.now_ms())
        self._outputs.close(number, reason)

    def grant(self, session: WorkerSession, count: int) -> None:
        """A worker can take this many more."""
        if not session.opened:
            session.credit_early = min(CREDIT_MAX, session.credit_early + count)
            return
        self.dispatcher.grant(session.worker_id, count)

    def owe_results(self, session: ClientSession) -> None:
        """A client is back: what ended while it was away is sent, some every turn."""
        self.sessions.owing[session.number] = session

    def close_worker(self, worker_id: WorkerId, incarnation: int) -> None:
        """A worker left for good: its attempts are lost now, not at the end of a grace. Its opening
        may be on its way into the log still, so this follows whether it is known or not."""
        record = self.state.workers.get(worker_id)
        held = record.held if record is not None and record.incarnation == incarnation else ()
        lost = tuple(
            self.expiry.given_up(self.state, self.state.jobs[job_id], self.jitter)
            for job_id in held
        )
        self.proposals.add(commands.CloseWorker(worker_id, incarnation, lost))

    def dismiss(self, worker_ids: Iterable[WorkerId], by: ClientId) -> int:
        """Tell workers to end now; what they run is lost when they say goodbye. Returns how many
        were told: the others are not here."""
        sessions = [self.sessions.worker(worker_id) for worker_id in worker_ids]
        opened = [session for session in sessions if session is not None and session.opened]
        for session in opened:
            error = StateError(ErrorCode.DISMISSED, f"{by} wants this worker to end")
            self.error(session.number, messages.NOT_ASKED, error)
        return len(opened)

    def retry_delay_ms(self, job_id: JobId, *, not_started: bool = False) -> int:
        """How long this job would wait if its running attempt came to nothing."""
        job = self.state.jobs.get(job_id)
        if job is None:
            return 0
        delay_ms = give_back_delay_ms if not_started else retry_delay_ms
        return delay_ms(self.state, job, self.jitter)

    def is_worker_name(self, name: str) -> bool:
        """Whether a known worker has this name."""
        return name in self._names

    def accept(self, number: int, request_id: MessageId, count: int = 1) -> None:
        """Say that a request was taken, and of how many things."""
        self._send(number, messages.Accepted(request_id, count))

    def answer(self, number: int, answer: messages.Answer | messages.Error) -> None:
        """Send the answer to a query."""
        self._send(number, answer)

    # --- outcomes

    def _reply(self, origin: Origin, outcome: Outcome) -> None:
        session = self.sessions.get(origin.session)
        if session is None:
            return
        if isinstance(outcome, Refused):
            self._send(
                origin.session,
                messages.Error(
                    origin.request_id,
                    int(outcome.code),
                    outcome.message,
                    retryable=outcome.code in (ErrorCode.GRID_FULL, ErrorCode.OVERLOADED),
                ),
            )
            self.refuse_job(origin.session, origin.request_id, outcome.message)
            return
        self.sessions.asked(session, origin.request_id)
        if isinstance(outcome, Known):
            self._send(
                origin.session,
                messages.Accepted(origin.request_id, outcome.count, True, outcome.ended),
            )
        else:
            self._send(origin.session, messages.Accepted(origin.request_id, outcome.count))

    def _ack_taken(self, origin: Origin, outcome: Outcome) -> None:
        session = self.sessions.get(origin.session)
        if type(session) is not WorkerSession:
            return
        if not session.names_attempts:
            sent = session.sent.get(origin.request_id)
            if sent is not None and sent.attempt == origin.attempt:
                del session.sent[origin.request_id]
        self._outputs.mail(origin.session).append(
            messages.AckTaken(origin.request_id, origin.attempt, type(outcome) is Refused)
        )

    def _worker_opened(self, origin: Origin, outcome: Outcome, effects: list[Effect]) -> None:
        session = self.sessions.get(origin.session)
        if not isinstance(session, WorkerSession):
            return
        if isinstance(outcome, Refused):
            self._send(
                origin.session,
                messages.Error(messages.NOT_ASKED, int(outcome.code), outcome.message),
            )
            self.close(origin.session, outcome.message)
            return
        # What is sent again takes slots that the worker still counts as free.
        owed = sum(
            1
            for effect in effects
            if type(effect) is SendAssign and effect.worker_id == session.worker_id
        )
        self.welcome(origin.session, session.features, owed)
        session.opened = True
        record = self.state.workers[session.worker_id]
        self.dispatcher.open_worker(
            session.worker_id,
            session.incarnation,
            session.name,
            session.patterns,
            len(record.held),
            programs=session.programs,
        )
        self.log.joined(session)
        self.relay.opened(session)
        self.caches.opened(session)
        self.watches.worker_opened(session.worker_id)
        early, session.credit_early = session.credit_early, 0
        self.grant(session, early)

    # --- effects

    def _send_result(self, effect: SendResult) -> None:
        for client in self.sessions.receivers(effect.client_id, effect.job_id):
            is_owing = client.number in self.sessions.owing
            if not is_owing or not is_still_to_come(self.state, effect.job_id, client.owed_after):
                self._deliver(client, effect)

    def _assign(self, effect: SendAssign) -> None:
        session = self.sessions.worker(effect.worker_id)
        if session is None or not session.opened:
            # Sent again when the worker's session opens, or lost with its grace.
            self.expiry.not_sent(self.state, effect.job_id, effect.attempt)
            return
        self.expiry.sent(effect.job_id)
        if not session.names_attempts:
            ref = AttemptRef(effect.job_id, effect.attempt, effect.fence)
            session.sent[effect.job_id] = ref
        if self.state.caches:
            self.caches.needed(session, caches_of(self.state, effect.job_id))
        message = assignment(self.state, effect, self.spellings)
        if not effect.blobs or not needs_blobs(message, knows_blobs=True):
            self._outputs.mail(session.number).append(message)
            return
        is_held = partial(self._is_held, effect)
        self.deliveries.add(Delivery(session.number, message, True, is_held, _nothing))

    def _is_held(self, effect: SendAssign) -> bool:
        """Whether an attempt is still the job's last."""
        job = self.state.jobs.get(effect.job_id)
        return job is not None and job.attempt == effect.attempt

    def _may_send(self, number: int) -> bool:
        return self.has_room(number)  # which the shell may set later

    def _stop(self, effect: SendCancel) -> None:
        session = self.sessions.worker(effect.worker_id)
        if session is not None and session.opened:
            self._send(
                session.number, messages.StopJob(effect.job_id, effect.attempt, effect.fence)
            )

    def _deliver(self, client: ClientSession, effect: SendResult) -> None:
        message = outcome_of(self.state, effect)
        if effect.blobs and needs_blobs(message, knows_blobs=client.knows_blobs):
            sent = partial(self._delivered, client, effect.job_id)
            self.deliveries.add(Delivery(client.number, message, client.knows_blobs, _always, sent))
            return
        self._outputs.mail(client.number).append(message)
        self._delivered(client, effect.job_id)

    def _delivered(self, client: ClientSession, job_id: JobId) -> None:
        if not client.confirms:
            self.proposals.add(commands.ConfirmResults(client.client_id, (job_id,)))

    def _send_pages(self) -> None:
        """Some of what is owed to clients that came back, at the pace at which they read."""
        owing = self.sessions.owing
        size_bytes = 0
        for session in list(owing.values()):
            if size_bytes >= OWED_BYTES_PER_TURN_MAX:
                return
            if self.has_room(session.number):
                del owing[session.number]
                owing[session.number] = session  # the others come first next time
                size_bytes += self._send_page(session)

    def _send_page(self, session: ClientSession) -> int:
        results, session.owed_after = owed_to_client(
            self.state, session.client_id, session.owed_after, OWED_RESULTS_PER_TURN_MAX
        )
        for result in results:
            self._deliver(session, result)
        if len(results) < OWED_RESULTS_PER_TURN_MAX:
            self.sessions.owing.pop(session.number, None)
        return sum(len(result.result) for result in results)

    def _gone(self, session: ClientSession | WorkerSession) -> None:
        self.log.left(session)
        self.watches.left(session)
        self.deliveries.gone(session.number)
        if isinstance(session, WorkerSession):
            self.relay.worker_gone(session)
            self.caches.gone(session.worker_id)
        else:
            self.relay.client_gone(session.number)

    def _follow_name(self, worker_id: WorkerId) -> None:
        # As it is after the whole entry, which may have opened and closed it.
        record = self.state.workers.get(worker_id)
        self._names.set(worker_id, record.name if record is not None else "")

    def _send(self, number: int, message: messages.MemberMessage) -> None:
        self._outputs.mail(number).append(message)


def _nothing() -> None:
    """Nothing follows."""


def _always() -> bool:
    """A result is wanted as long as its session lasts."""
    return True
