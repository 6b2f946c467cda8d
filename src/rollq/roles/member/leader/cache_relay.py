"""Puts of caches that carry their files, as legacy peers send them.

The leader passes such a put on to every worker whose patterns overlap its target, and what each
worker answers back to the client that asked. Nothing of it is kept: a worker that was away
has missed it. Pure; on the elected leader alone.
"""

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
    """One put under way."""

    client: int  # the session that asked
    request_id: MessageId  # as it named its request
    cache_id: str
    until_ms: int
    waiting: dict[WorkerId, WorkerSession] = field(default_factory=dict)  # have not answered
    # Said hello a moment ago and are not welcomed yet, and what they are to be sent then.
    early: dict[WorkerId, CachePut] = field(default_factory=dict)


class CacheRelay:
    """Who asked for which put, and who has not answered."""

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
        self._puts: dict[MessageId, Relayed] = {}  # by the id under which workers know it

    def put(self, client: ClientSession, message: CachePut) -> None:
        """Pass a put on. Whatever is wrong is said in an ack: such a client reads no errors."""
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
            self._say(client.number, message.request_id, cache_id, str(error))
            return
        wanted = [one for one in self._sessions.workers() if is_target((target,), one.patterns)]
        if not wanted:
            text = f"no connected worker serves {target}"
            self._say(client.number, message.request_id, cache_id, text)
            return
        ident = self._jitter.draw_id()
        put = self._puts[ident] = Relayed(
            client.number, message.request_id, cache_id, self._clock.now_ms() + CACHE_ACK_MS_MAX
        )
        passed_on = CachePut(ident, message.payload)
        for worker in wanted:
            if not self._shell.has_room(worker.number):
                self._fail(put, worker, "it does not read")
                continue
            put.waiting[worker.worker_id] = worker
            if worker.opened:
                self._send(worker.number, passed_on)
            else:
                put.early[worker.worker_id] = passed_on
        self._maybe_forget(ident)

    def opened(self, worker: WorkerSession) -> None:
        """A worker is welcomed: it gets what came since its hello."""
        for put in self._puts.values():
            message = put.early.pop(worker.worker_id, None)
            if message is not None:
                self._send(worker.number, message)

    def ack(self, worker: WorkerSession, message: CacheAck) -> None:
        """Pass an answer on as it is; one that answers no put of ours is about a cache of the
        group."""
        put = self._puts.get(message.request_id)
        if put is None:
            self._caches.said(worker, decode_model(message.payload, CachePutResult))
        elif put.waiting.get(worker.worker_id) is worker:
            del put.waiting[worker.worker_id]
            self._send(put.client, CacheAck(put.request_id, message.payload))
            self._maybe_forget(message.request_id)

    def gone(self, session: Session) -> None:
        """A session was removed: a worker will not answer, or a client wants no answers."""
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
        """Wait no longer for those who do not answer."""
        for ident, put in list(self._puts.items()):
            if put.until_ms > now_ms:
                return  # in the order in which they came
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
        self._say(put.client, put.request_id, put.cache_id, f"worker {named(worker)}: {why}")

    def _say(self, client: int, request_id: MessageId, cache_id: str, text: str) -> None:
        result = CachePutResult(cache_id, STATUS_FAILED, text)
        self._send(client, CacheAck(request_id, encode_model(result)))
