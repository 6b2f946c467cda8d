"""Dispatches session messages to their handlers.

A handler checks a message, adds what only the leader knows (client of the session, backoff,
worker addressed by name) and queues a command with its origin. It never changes the replicated
state, and never raises to the caller: a bad message is answered with an error; a protocol
violation, or a handler that fails, closes that session only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from rollq.base.errors import ErrorCode, RemoteError, StateError
from rollq.roles.access import refusal
from rollq.roles.member.leader.admin import AdminRequests
from rollq.roles.member.leader.attempts import AttemptRequests
from rollq.roles.member.leader.batches import BatchRequests
from rollq.roles.member.leader.cache_relay import CacheRelay
from rollq.roles.member.leader.clients import Clients
from rollq.roles.member.leader.jobs import JobRequests
from rollq.roles.member.leader.output_watches import OutputWatches
from rollq.roles.member.leader.publishing import Publishing
from rollq.roles.member.leader.reads import Reads
from rollq.roles.member.leader.replies import Replies
from rollq.roles.member.leader.sessions import Session, SessionEnd, Sessions, WorkerSession
from rollq.roles.member.leader.topics import TopicRequests
from rollq.roles.member.leader.workers import Workers
from rollq.wire import messages
from rollq.wire.output_messages import OutputChunk, WatchOutput
from rollq.wire.run_messages import AckRun, SubmitRun
from rollq.wire.staging_messages import CommitBatch, DropBatch, StageJobs
from rollq.wire.subject_messages import Consumed, Publish, Subscribe, Unsubscribe

Handlers: TypeAlias = dict[type, Callable[[Any, Any], None]]  # called with session and message

# After these errors a session cannot continue, as leader and peer disagree on its state. After a
# refused hello (or Holdings, which completes one) there is no session.
HELLOS = messages.HelloClient | messages.HelloWorker | messages.Holdings
CLOSING_CODES = frozenset(
    {ErrorCode.BAD_HANDSHAKE, ErrorCode.UNKNOWN_MESSAGE, ErrorCode.BAD_CREDIT}
)


class Gateway:
    """Handles the messages of one leader's sessions."""

    def __init__(
        self,
        sessions: Sessions,
        replies: Replies,
        *,
        clients: Clients,
        workers: Workers,
        jobs: JobRequests,
        attempts: AttemptRequests,
        batches: BatchRequests,
        relay: CacheRelay,
        watches: OutputWatches,
        admin: AdminRequests,
        reads: Reads,
        publishing: Publishing,
        topics: TopicRequests,
    ) -> None:
        self._sessions = sessions
        self._replies = replies
        self._publishing = publishing
        self._hellos: Handlers = {
            messages.HelloClient: clients.hello,
            messages.HelloWorker: workers.hello,
            messages.Holdings: workers.holding,
        }
        of_either: Handlers = {
            messages.Ping: self._ping,
            Publish: publishing.publish,
            Subscribe: publishing.subscribe,
            Unsubscribe: publishing.unsubscribe,
            Consumed: topics.consumed,
        }
        self._of_client: Handlers = {
            **of_either,
            messages.SubmitJob: jobs.submit,
            SubmitRun: jobs.submit_run,
            messages.SubmitBulk: jobs.submit_bulk,
            messages.SubmitArray: jobs.submit_array,
            messages.Cancel: jobs.cancel,
            messages.Confirm: jobs.confirm,
            StageJobs: batches.handle,
            CommitBatch: batches.handle,
            DropBatch: batches.handle,
            messages.Query: reads.query,
            messages.Admin: admin.handle,
            messages.CachePut: relay.put,
            WatchOutput: watches.watch,
        }
        self._of_worker: Handlers = {
            **of_either,
            messages.Credit: workers.credit,
            messages.AckJob: attempts.ack,
            AckRun: attempts.ack_run,
            messages.Nack: attempts.nack,
            messages.Heartbeat: workers.heartbeat,
            messages.Announce: workers.announce,
            messages.Goodbye: workers.goodbye,
            messages.CacheAck: relay.ack,
            OutputChunk: watches.chunk,
        }

    def message(self, number: int, message: messages.ToMemberMessage) -> None:
        """Handle one message of a session."""
        try:
            session = self._sessions.get(number)
            if session is None:
                self._hello(number, message)
                return
            if type(session) is WorkerSession:
                session.quiet_checks = 0
                handler = self._of_worker.get(type(message))
            else:
                handler = self._of_client.get(type(message))
            if handler is None:
                raise self._refusal(message)
            handler(session, message)
        except RemoteError as error:
            self._replies.refuse(number, message, error)
            if error.code in CLOSING_CODES or isinstance(message, HELLOS):
                self._replies.close(number, str(error))
        except StateError as error:
            self._replies.refuse(number, message, error)
        except Exception as error:  # a bug: it ends this session, and nothing else
            self._replies.failed(number, message, error)

    def publishes(self, number: int, run: Sequence[Publish]) -> None:
        """Handle a run of publishes of a session."""
        session = self._sessions.get(number)
        if type(session) is WorkerSession:
            session.quiet_checks = 0
        at = 0
        while at < len(run):
            if session is not None:
                at += self._publishing.publish_all(run, at)
            if at < len(run):
                self.message(number, run[at])
                at += 1

    def closed(self, number: int) -> None:
        """The connection of a session closed."""
        session = self._sessions.get(number)
        if isinstance(session, WorkerSession) and not session.renews:
            session.ending = SessionEnd.LEFT  # without leases nothing else marks it as lost
        self._sessions.remove(number)

    def _hello(self, number: int, message: messages.ToMemberMessage) -> None:
        hello = self._hellos.get(type(message))
        if hello is None:
            raise self._refusal(message)
        if number in self._sessions.greetings and type(message) is not messages.Holdings:
            raise self._refusal(message)
        if _is_plain(message):
            raise RemoteError(
                ErrorCode.BAD_HANDSHAKE,
                "this member is no legacy leader: it answers offers of features",
                "offer features, and wait for Welcome",
            )
        hello(number, message)

    def _refusal(self, message: messages.ToMemberMessage) -> RemoteError:
        """The error for a message that this session may not send."""
        kind = type(message)
        if kind in self._hellos:
            return RemoteError(ErrorCode.BAD_HANDSHAKE, "duplicate hello")
        return refusal(kind)

    def _ping(self, session: Session, message: messages.Ping) -> None:
        self._replies.send(session.number, messages.Pong())


def _is_plain(message: messages.ToMemberMessage) -> bool:
    """Whether the sender took this member for a legacy leader. A hello that counts attempts is also
    plain, for members that do not support the count."""
    if isinstance(message, messages.HelloWorker):
        return message.plain and not message.holding_count
    return isinstance(message, messages.HelloClient) and message.plain
