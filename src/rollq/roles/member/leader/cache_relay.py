"""Cache puts with their files inside, as legacy peers send them.

The leader forwards such a put to every worker whose patterns overlap its target, and each worker's
ack to the requesting client. Nothing of it is stored: a worker that was disconnected misses it.
Pure; on the elected leader alone."""

from __future__ import annotations

from dataclasses import dataclass, field

from rollq.base.errors import ErrorCode, RollqError, StateError
from rollq.base.ids import MessageId, WorkerId
from rollq.base.limits import CACHE_ACK_MS_MAX, CACHE_PUTS_MAX
from rollq.base.stamp import Clock, Jitter
from rollq.roles.member.leader.caches import GroupCaches, is_target
from rollq.roles.member.leader.replies import Replies
from rollq.roles.member.leader.session_log import named
from rollq.roles.member.leader.sessions import ClientSession, Session, Sessions, WorkerSession
from rollq.roles.member.leader.shell import Shell
from rollq.subjects.queues import worker_pattern
from rollq.wire.messages import CacheAck, CachePut
from rollq.wire.models import (
    STATUS_FAILED,
    CachePutHead,
    CachePutResult,
    decode_model,
    encode_model,
)


@dataclass(slots=True)
class Relayed:
    """One forwarded put."""

    client: int  # the session of the client
    request_id: MessageId  # the client's own
    cache_id: str
    until_ms: int
    waiting: dict[WorkerId, WorkerSession] = field(default_factory=dict)  # acks to come
    # Workers whose session is not open yet, with the message to send once it is.
    early: dict[WorkerId, CachePut] = field(default_factory=dict)


class CacheRelay:
    """Forwarded puts with their missing acks."""

    def __init__(
        self,
        sessions: Sessions,
        replies: Replies,
        shell: Shell,
        caches: GroupCaches,
        *,
        clock: Clock,
        jitter: Jitter,
    ) -> None:
        self._sessions = sessions
        self._send = replies.send
        self._shell = shell
        self._caches = caches
        self._clock = clock
        self._jitter = jitter
        self._puts: dict[MessageId, Relayed] = {}  # by the id of the forwarded message

    def put(self, client: ClientSession, message: CachePut) -> None:
        """Forward a put. Errors go into an ack: such a client reads no error messages."""
        cache_id = ""
        try:
            head = decode_model(message.payload, CachePutHead)
            cache_id = head.cache_id
            target = worker_pattern(head.target_pattern or "")
            if len(self._puts) >= CACHE_PUTS_MAX:
                raise StateError(
                    ErrorCode.OVERLOADED, f"{CACHE_PUTS_MAX} puts are under way", "send it again"
                )
        except RollqError as error:
            self._send_failure(client.number, message.request_id, cache_id, str(error))
            return
        wanted = [one for one in self._sessions.workers() if is_target((target,), one.patterns)]
        if not wanted:
            text = f"no connected worker serves {target}"
            self._send_failure(client.number, message.request_id, cache_id, text)
            return
        ident = self._jitter.draw_id()
        put = self._puts[ident] = Relayed(
            client.number, message.request_id, cache_id, self._clock.now_ms() + CACHE_ACK_MS_MAX
        )
        forwarded = CachePut(ident, message.payload)
        for worker in wanted:
            if not self._shell.has_room(worker.number):
                self._fail(put, worker, "it does not read")
                continue
            put.waiting[worker.worker_id] = worker
            if worker.opened:
                self._send(worker.number, forwarded)
            else:
                put.early[worker.worker_id] = forwarded
        self._maybe_forget(ident)

    def opened(self, worker: WorkerSession) -> None:
        """A worker's session opened: send it the puts since its hello."""
        for put in self._puts.values():
            message = put.early.pop(worker.worker_id, None)
            if message is not None:
                self._send(worker.number, message)

    def ack(self, worker: WorkerSession, message: CacheAck) -> None:
        """Forward an ack to its client; one without a put of ours is about a cache of the group."""
        put = self._puts.get(message.request_id)
        if put is None:
            self._caches.take_status(worker, decode_model(message.payload, CachePutResult))
        elif put.waiting.get(worker.worker_id) is worker:
            del put.waiting[worker.worker_id]
            self._send(put.client, CacheAck(put.request_id, message.payload))
            self._maybe_forget(message.request_id)

    def gone(self, session: Session) -> None:
        """A session was removed: a worker will not answer, or a client needs no answers."""
        if isinstance(session, WorkerSession):
            self._worker_gone(session)
            return
        for ident in [ident for ident, put in self._puts.items() if put.client == session.number]:
            del self._puts[ident]

    def _worker_gone(self, worker: WorkerSession) -> None:
        for ident, put in list(self._puts.items()):
            if put.waiting.get(worker.worker_id) is worker:
                del put.waiting[worker.worker_id]
                put.early.pop(worker.worker_id, None)
                self._fail(put, worker, "disconnected before it answered")
                self._maybe_forget(ident)

    def expire(self, now_ms: int) -> None:
        """Fail the acks that are overdue."""
        for ident, put in list(self._puts.items()):
            if put.until_ms > now_ms:
                return  # sorted by time
            for worker in put.waiting.values():
                self._fail(put, worker, f"no answer within {CACHE_ACK_MS_MAX // 1000} s")
            del self._puts[ident]

    def clear(self) -> None:
        """Leadership is lost."""
        self._puts.clear()

    def _maybe_forget(self, ident: MessageId) -> None:
        if not self._puts[ident].waiting:
            del self._puts[ident]

    def _fail(self, put: Relayed, worker: WorkerSession, why: str) -> None:
        self._send_failure(
            put.client, put.request_id, put.cache_id, f"worker {named(worker)}: {why}"
        )

    def _send_failure(self, client: int, request_id: MessageId, cache_id: str, text: str) -> None:
        result = CachePutResult(cache_id, STATUS_FAILED, text)
        self._send(client, CacheAck(request_id, encode_model(result)))
