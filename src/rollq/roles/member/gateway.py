"""From messages to commands: the only door by which the world asks the group to agree.

Used on the elected leader alone. A handler checks what a peer said, fills in what only the leader
knows (client of the session, backoff, worker addressed by name) and queues a command with its
origin. It never changes the grid's state, and never raises: a bad message is answered with an
error, and one that breaks the protocol, or that a handler fails on, closes that session only.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import msgspec

from rollq.base.errors import ErrorCode, RemoteError, RollqError, StateError
from rollq.base.ids import NIL_ID, ClientId, guid_to_text
from rollq.base.jobs import DEFAULT_OPTIONS, AttemptRef, JobOptions, Status
from rollq.base.limits import (
    CACHE_ENTRIES_MAX,
    CLIENT_ID_BYTES_MAX,
    CREDIT_MAX,
    DETAIL_BYTES_MAX,
    PATTERNS_PER_WORKER_MAX,
)
from rollq.grid import commands
from rollq.policy.retry import backoff_ms
from rollq.raft.node import RaftNode
from rollq.roles.member.admin import MEMBERSHIP_ACTIONS, command_for, workers_in
from rollq.roles.member.bounds import bounded, exec_name, is_large, queue_named
from rollq.roles.member.knowledge import check_held
from rollq.roles.member.large import Large, failed_ack
from rollq.roles.member.leadership import Leadership
from rollq.roles.member.proposals import ACK, REQUEST, Origin, Waiter
from rollq.roles.member.reads import Reads
from rollq.roles.member.reports import Reports
from rollq.roles.member.sessions import ClientSession, WorkerSession
from rollq.roles.member.staging import BatchMessage, staging_command
from rollq.subjects.grammar import fold, parse_pattern
from rollq.subjects.queues import worker_pattern
from rollq.wire import messages
from rollq.wire.checks import request_id_of
from rollq.wire.features import ACCEPTED, COMPACT, OWN
from rollq.wire.models import CachePutResult, decode_model
from rollq.wire.output_messages import OutputChunk, WatchOutput
from rollq.wire.staging_messages import CommitBatch, DropBatch, StageJobs


class Gateway:
    """Handlers of one leader's sessions; see `Leadership` for what they work on."""

    def __init__(self, office: Leadership, raft: RaftNode, reports: Reports) -> None:
        self._office = office
        self.raft = raft
        self.reads = Reads(office.caches, reports)
        self._large = Large(office.keeping, self._refuse, self._left_at_last)

    def message(self, number: int, message: messages.SessionMessage) -> None:
        """Take one message of a session."""
        try:
            handler = HANDLERS.get(type(message))
            if handler is None:
                raise RemoteError(
                    ErrorCode.UNKNOWN_MESSAGE, f"a member does not take {type(message).__name__}"
                )
            handler(self, number, message)
        except RemoteError as error:
            self._refuse(number, message, error)
            if error.code in CLOSING_CODES or isinstance(message, HELLOS):
                self._office.close(number, str(error))
        except StateError as error:
            self._refuse(number, message, error)
        except Exception as error:  # ours: it ends this session, and nothing else
            self._office.failed(number, message, error)

    def closed(self, number: int) -> None:
        """The session's connection is gone."""
        session = self._office.sessions.remove(number)
        if isinstance(session, WorkerSession):
            self._worker_gone(session, for_good=not session.renews)

    def _refuse(self, number: int, message: messages.SessionMessage, error: RollqError) -> None:
        self._office.error(number, request_id_of(message), error)
        if isinstance(message, messages.SubmitJob):
            self._office.refuse_job(number, message.job_id, str(error))

    # --- hellos

    def _hello_client(self, number: int, hello: messages.HelloClient) -> None:
        self._must_be_new(number)
        self._must_offer(hello)
        office = self._office
        # One without a name (the first legacy form) is a client of its own.
        name = hello.client_id or f"{NAMELESS}{office.jitter.draw_id().hex()}"
        client_id = bounded("client id", name, CLIENT_ID_BYTES_MAX)
        features = hello.features
        session = ClientSession(
            number,
            client_id,
            ACCEPTED in features,
            is_alone=OWN in features,
            knows_blobs=COMPACT in features,
            hears_errors=ACCEPTED in features or COMPACT in features,
        )
        office.sessions.add_client(session)
        office.log.joined(session)
        office.welcome(number, hello.features)
        known = office.state.clients.get(client_id)
        cap = max(0, hello.desired_parallelism)
        if known is None or known.cap != cap:
            office.proposals.add(commands.OpenClient(client_id, cap))
        office.owe_results(session)

    def _hello_worker(self, number: int, hello: messages.HelloWorker) -> None:
        self._must_be_new(number)
        self._must_offer(hello)
        if not 0 < len(hello.patterns) <= PATTERNS_PER_WORKER_MAX:
            raise RemoteError(
                ErrorCode.BAD_HANDSHAKE, f"a worker serves 1 to {PATTERNS_PER_WORKER_MAX} patterns"
            )
        patterns = tuple(worker_pattern(pattern) for pattern in hello.patterns)
        for pattern in patterns:
            parse_pattern(pattern)
        office = self._office
        if hello.worker_id == NIL_ID:  # the first legacy form: it cannot come back as itself
            hello = msgspec.structs.replace(hello, worker_id=office.jitter.draw_id())
        name = bounded("worker name", fold(hello.name), CLIENT_ID_BYTES_MAX, may_be_empty=True)
        session = WorkerSession(
            number,
            hello.worker_id,
            hello.incarnation,
            name,
            patterns,
            hello.features,
            hello.blob_address,
        )
        older = office.sessions.add_worker(session)
        if older is not None:
            office.dispatcher.close_worker(older.worker_id)
            office.close(older.number, "the worker opened another session")
        office.expiry.worker_returned(hello.worker_id)
        for ref in hello.holding:
            session.sent[ref.job_id] = ref
        office.proposals.add(
            commands.OpenWorker(
                hello.worker_id,
                hello.incarnation,
                name,
                patterns,
                hello.slots,
                hello.holding,
                backoff_ms(
                    1,
                    office.state.settings.retry_base_ms,
                    office.state.settings.retry_max_ms,
                    office.jitter,
                ),
            ),
            Origin(Waiter.OPEN_WORKER, number),
        )

    # --- what clients ask

    def _submit(self, number: int, message: messages.SubmitJob) -> None:
        client_id = self._client(number).client_id
        if is_large(message.body):
            go_on = partial(self._submit_for, number, client_id)
            self._large.job(number, client_id, message, go_on)
        else:
            self._submit_for(number, client_id, message)

    def _submit_for(self, number: int, client_id: ClientId, message: messages.SubmitJob) -> None:
        queue, options = self._address(message.subject, message.options)
        self._must_have_room()
        if message.blobs:
            check_held(self._office.blobs, message.blobs)
        self._office.proposals.add(
            commands.SubmitJob(
                message.job_id,
                client_id,
                queue,
                exec_name(message.exec_name),
                message.body,
                options,
                message.blobs,
                message.caches,
                message.job_key,
            ),
            Origin(REQUEST, number, message.job_id),
        )

    def _submit_bulk(self, number: int, message: messages.SubmitBulk) -> None:
        client_id = self._client(number).client_id
        if any(map(is_large, (item.body for item in message.items))):
            go_on = partial(self._submit_bulk_for, number, client_id)
            self._large.items(number, client_id, message, go_on)
        else:
            self._submit_bulk_for(number, client_id, message)

    def _submit_bulk_for(
        self, number: int, client_id: ClientId, message: messages.SubmitBulk
    ) -> None:
        queue, options = self._address(message.subject, message.options)
        self._must_have_room()
        for item in message.items:
            if item.blobs:
                check_held(self._office.blobs, item.blobs)
        command = commands.SubmitBulk(
            client_id,
            queue,
            exec_name(message.exec_name),
            message.items,
            options,
            message.batch_key,
            message.caches,
        )
        self._request(command, number, message.request_id)

    def _submit_array(self, number: int, message: messages.SubmitArray) -> None:
        client_id = self._client(number).client_id
        if is_large(message.body):
            go_on = partial(self._submit_array_for, number, client_id)
            self._large.array(number, client_id, message, go_on)
        else:
            self._submit_array_for(number, client_id, message)

    def _submit_array_for(
        self, number: int, client_id: ClientId, message: messages.SubmitArray
    ) -> None:
        queue, options = self._address(message.subject, message.options)
        self._must_have_room()
        if message.blobs:
            check_held(self._office.blobs, message.blobs)
        self._office.proposals.add(
            commands.SubmitArray(
                message.array_id,
                client_id,
                queue,
                exec_name(message.exec_name),
                message.body,
                message.task_count,
                options,
                message.running_max,
                message.blobs,
                message.caches,
                message.first_task,
            ),
            Origin(REQUEST, number, message.array_id),
        )

    def _batch(self, number: int, message: BatchMessage) -> None:
        client = self._client(number)
        self._must_have_room()
        command = staging_command(message, client.client_id, self._address)
        if isinstance(command, commands.StageJobs):
            for group in command.groups:
                for blobs in group.blobs:
                    check_held(self._office.blobs, blobs)
        self._request(command, number, message.request_id)

    def _cancel(self, number: int, message: messages.Cancel) -> None:
        client = self._client(number)
        command = commands.CancelJobs(message.job_ids, client.client_id)
        self._request(command, number, message.request_id)

    def _confirm(self, number: int, message: messages.Confirm) -> None:
        client = self._client(number)
        command = commands.ConfirmResults(client.client_id, message.job_ids)
        self._office.proposals.add(command)

    def _query(self, number: int, message: messages.Query) -> None:
        self._client(number)
        self.reads.ask(self.raft, number, message)

    def _admin(self, number: int, message: messages.Admin) -> None:
        client = self._client(number)
        change = MEMBERSHIP_ACTIONS.get(message.action)
        if change is not None:
            change(self.raft, message.arguments)
            self._office.accept(number, message.request_id)
            return
        if message.action == "dismiss":
            told = self._office.dismiss(workers_in(message.arguments), client.client_id)
            self._office.accept(number, message.request_id, told)
            return
        command = command_for(message.action, message.arguments, client.client_id)
        if isinstance(command, commands.PutCache):
            blobs = tuple(entry.blob for entry in command.entries)
            check_held(self._office.blobs, blobs, CACHE_ENTRIES_MAX)
        is_of_cache = isinstance(command, commands.PutCache | commands.RemoveCache)
        waiter = Waiter.CACHE if is_of_cache else REQUEST
        self._office.proposals.add(command, Origin(waiter, number, message.request_id))

    def _cache_put(self, number: int, message: messages.CachePut) -> None:
        client, office = self._client(number), self._office
        office.relay.put(client, message, office.clock.now_ms(), office.has_room)

    def _watch(self, number: int, message: WatchOutput) -> None:
        self._client(number)
        self._office.watches.watch(number, message)

    # --- what workers say

    def _credit(self, number: int, message: messages.Credit) -> None:
        session = self._worker(number)
        if message.count < 0:
            raise RemoteError(ErrorCode.BAD_CREDIT, f"credit of {message.count}")
        self._office.grant(session, min(message.count, CREDIT_MAX))

    def _ack(self, number: int, message: messages.AckJob) -> None:
        session = self._worker(number)
        ref = session.attempt_meant(message.job_id, message.attempt, message.fence)
        try:
            if is_large(message.result):
                self._large.result(session, message, partial(self._ack_for, number, ref))
                return
        except RollqError as error:
            self._office.warn(f"job {guid_to_text(message.job_id)}: {error}")
            message = failed_ack(message, error)
        self._ack_for(number, ref, message)

    def _ack_for(self, number: int, ref: AttemptRef, message: messages.AckJob) -> None:
        office = self._office
        if message.blobs:
            check_held(self._office.blobs, message.blobs)
        office.proposals.add(
            commands.AckJob(
                message.job_id,
                ref.attempt,
                ref.fence,
                message.status,
                message.result,
                message.exit_code,
                message.signal,
                message.run_ms,
                message.peak_bytes,
                office.retry_delay_ms(message.job_id) if message.status == Status.FAILED else 0,
                blobs=message.blobs,
                fetched_bytes=message.fetched_bytes,
                held_bytes=message.held_bytes,
            ),
            Origin(ACK, number, message.job_id, ref.attempt),
        )

    def _nack(self, number: int, message: messages.Nack) -> None:
        session = self._worker(number)
        ref = session.attempt_meant(message.job_id, message.attempt, message.fence)
        self._office.proposals.add(
            commands.NackJob(
                message.job_id,
                ref.attempt,
                ref.fence,
                message.detail[:DETAIL_BYTES_MAX],
                self._office.retry_delay_ms(message.job_id, not_started=message.not_started),
                message.not_started,
            ),
            Origin(ACK, number, message.job_id, ref.attempt),
        )

    def _heartbeat(self, number: int, message: messages.Heartbeat) -> None:
        self._worker(number)
        now_ms = self._office.clock.now_ms()
        for ref in message.holding:
            self._office.expiry.renew(ref.job_id, ref.attempt, now_ms)

    def _ping(self, number: int, message: messages.Ping) -> None:
        session = self._office.sessions.get(number)
        if session is None:
            raise RemoteError(ErrorCode.BAD_HANDSHAKE, "a session begins with a hello")
        if isinstance(session, WorkerSession):
            session.quiet_looks = 0
        self._office.pong(number)

    def _announce(self, number: int, message: messages.Announce) -> None:
        session = self._worker(number)
        session.announced(message)
        self._office.dispatcher.announce(session.worker_id, session.programs)

    def _cache_ack(self, number: int, message: messages.CacheAck) -> None:
        session = self._worker(number)
        if not self._office.relay.ack(session, message):
            self._office.caches.said(session, decode_model(message.payload, CachePutResult))

    def _output(self, number: int, message: OutputChunk) -> None:
        self._office.watches.chunk(self._worker(number), message)

    def _goodbye(self, number: int, message: messages.Goodbye) -> None:
        session = self._worker(number)
        self._office.sessions.remove(number)
        self._worker_gone(session, for_good=True)
        self._office.close(number, f"goodbye: {message.reason}")

    # --- helpers

    def _request(self, command: commands.Command, number: int, request_id: bytes) -> None:
        self._office.proposals.add(command, Origin(REQUEST, number, request_id))

    def _worker_gone(self, session: WorkerSession, *, for_good: bool) -> None:
        office = self._office
        office.dispatcher.close_worker(session.worker_id)
        if for_good and session.results_kept:
            session.has_left = True  # its attempts are lost after their results, not before
        elif for_good:
            office.close_worker(session.worker_id, session.incarnation)
        else:
            office.expiry.worker_vanished(
                session.worker_id, session.incarnation, office.clock.now_ms()
            )

    def _left_at_last(self, session: WorkerSession) -> None:
        """All results of a worker that hung up are on their way into the log."""
        if self._office.sessions.worker(session.worker_id) is None:
            self._office.close_worker(session.worker_id, session.incarnation)

    def _must_offer(self, hello: messages.HelloClient | messages.HelloWorker) -> None:
        if hello.plain:
            raise RemoteError(
                ErrorCode.BAD_HANDSHAKE, "this member answers offers", "offer features, and wait"
            )

    def _must_be_new(self, number: int) -> None:
        if self._office.sessions.get(number) is not None:
            raise RemoteError(ErrorCode.BAD_HANDSHAKE, "a session says hello once")

    def _must_have_room(self) -> None:
        if self._office.proposals.is_full:
            raise StateError(
                ErrorCode.OVERLOADED, "more is waiting to be agreed on than fits", "send it again"
            )

    def _client(self, number: int) -> ClientSession:
        session = self._office.sessions.get(number)
        if not isinstance(session, ClientSession):
            raise RemoteError(ErrorCode.BAD_HANDSHAKE, "only a client that said hello may ask that")
        return session

    def _worker(self, number: int) -> WorkerSession:
        session = self._office.sessions.get(number)
        if not isinstance(session, WorkerSession):
            raise RemoteError(ErrorCode.BAD_HANDSHAKE, "only a worker that said hello may say that")
        session.quiet_looks = 0
        return session

    def _address(self, subject: str, options: JobOptions | None) -> tuple[str, JobOptions | None]:
        """The queue that a subject names, and the worker if its last token names a known one.
        Workers are named as queues are: without regard to case."""
        queue = queue_named(subject)
        self._office.spellings.note(queue, subject)
        if "." in queue and self._office.is_worker_name(queue.rpartition(".")[2]):
            group, _, last = queue.rpartition(".")
            chosen = msgspec.structs.replace(options or DEFAULT_OPTIONS, worker_name=last)
            return group, chosen
        if options is not None and options.worker_name:
            options = msgspec.structs.replace(options, worker_name=fold(options.worker_name))
        return queue, options


NAMELESS = "nameless-"  # begins the name of a client that has none
# Errors after which a session cannot go on: its state is not what the peer believes. After a hello
# that was refused there is no session.
HELLOS = messages.HelloClient | messages.HelloWorker
CLOSING_CODES = frozenset(
    {ErrorCode.BAD_HANDSHAKE, ErrorCode.UNKNOWN_MESSAGE, ErrorCode.BAD_CREDIT}
)

HANDLERS: dict[type, Callable[[Gateway, int, Any], None]] = {
    messages.HelloClient: Gateway._hello_client,
    messages.HelloWorker: Gateway._hello_worker,
    messages.SubmitJob: Gateway._submit,
    messages.SubmitBulk: Gateway._submit_bulk,
    messages.SubmitArray: Gateway._submit_array,
    messages.Cancel: Gateway._cancel,
    messages.Confirm: Gateway._confirm,
    messages.Query: Gateway._query,
    messages.Admin: Gateway._admin,
    messages.Credit: Gateway._credit,
    messages.AckJob: Gateway._ack,
    messages.Nack: Gateway._nack,
    messages.Heartbeat: Gateway._heartbeat,
    messages.Announce: Gateway._announce,
    messages.Goodbye: Gateway._goodbye,
    messages.Ping: Gateway._ping,
    messages.CachePut: Gateway._cache_put,
    messages.CacheAck: Gateway._cache_ack,
    WatchOutput: Gateway._watch,
    OutputChunk: Gateway._output,
    StageJobs: Gateway._batch,
    CommitBatch: Gateway._batch,
    DropBatch: Gateway._batch,
}
