"""Puts of caches that carry their files, as legacy peers send them.

The leader passes such a put on to every worker whose patterns overlap its target, and what each
worker answers back to whoever asked, to nobody else. Nothing of it is kept: a worker that was away
has missed it. Pure; on the elected leader alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import lru_cache

from rollq.base.errors import ErrorCode, RollqError, StateError
from rollq.base.ids import MessageId, WorkerId, guid_to_text
from rollq.base.limits import CACHE_ACK_MS_MAX, CACHE_PUTS_MAX
from rollq.base.stamp import Jitter
from rollq.roles.member.sessions import ClientSession, Sessions, WorkerSession
from rollq.subjects.overlap import overlaps
from rollq.subjects.queues import worker_pattern
from rollq.wire.messages import CacheAck, CachePut, MemberMessage
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
        send: Callable[[int, MemberMessage], None],
        jitter: Jitter,
    ) -> None:
        self._sessions = sessions
        self._send = send
        self._jitter = jitter
        self._puts: dict[MessageId, Relayed] = {}  # by the id under which workers know it

    def put(
        self,
        client: ClientSession,
        message: CachePut,
        now_ms: int,
        has_room: Callable[[int], bool],
    ) -> None:
        """Pass a put on. Whatever is wrong is said in an ack: such a client reads no errors."""
        cache_id = ""
        try:
            head = decode_model(message.payload, CachePutHead)
            cache_id = head.cache_id
            target = worker_pattern(head.target_pattern or "")
            if len(self._puts) >= CACHE_PUTS_MAX:
                raise StateError(ErrorCode.OVERLOADED, "too many puts at once", "send it again")
        except RollqError as error:
            self._say(client.number, message.request_id, cache_id, str(error))
            return
        wanted = [one for one in self._sessions.workers() if is_target((target,), one.patterns)]
        if not wanted:
            text = f"no worker is there for {target}"
            self._say(client.number, message.request_id, cache_id, text)
            return
        ident = self._jitter.draw_id()
        put = self._puts[ident] = Relayed(
            client.number, message.request_id, cache_id, now_ms + CACHE_ACK_MS_MAX
        )
        passed_on = CachePut(ident, message.payload)
        for worker in wanted:
            if not has_room(worker.number):
                self._fail(put, worker, "it does not read what it was sent before")
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

    def ack(self, worker: WorkerSession, message: CacheAck) -> bool:
        """Pass an answer on as it is. False: it answers nothing of ours."""
        put = self._puts.get(message.request_id)
        if put is None:
            return False
        if put.waiting.get(worker.worker_id) is worker:
            del put.waiting[worker.worker_id]
            self._send(put.client, CacheAck(put.request_id, message.payload))
            self._maybe_forget(message.request_id)
        return True

    def worker_gone(self, worker: WorkerSession) -> None:
        """A worker will not answer any more."""
        for ident, put in list(self._puts.items()):
            if put.waiting.get(worker.worker_id) is worker:
                del put.waiting[worker.worker_id]
                put.early.pop(worker.worker_id, None)
                self._fail(put, worker, "its connection broke before it answered")
                self._maybe_forget(ident)

    def client_gone(self, number: int) -> None:
        """Nobody wants the answers."""
        for ident in [ident for ident, put in self._puts.items() if put.client == number]:
            del self._puts[ident]

    def expire(self, now_ms: int) -> None:
        """Wait no longer for those who do not answer."""
        for ident, put in list(self._puts.items()):
            if put.until_ms > now_ms:
                return  # in the order in which they came
            for worker in put.waiting.values():
                self._fail(put, worker, "it did not answer")
            del self._puts[ident]

    def clear(self) -> None:
        """Leadership is lost."""
        self._puts.clear()

    def _maybe_forget(self, ident: MessageId) -> None:
        if not self._puts[ident].waiting:
            del self._puts[ident]

    def _fail(self, put: Relayed, worker: WorkerSession, why: str) -> None:
        self._say(put.client, put.request_id, put.cache_id, f"worker {name_of(worker)}: {why}")

    def _say(self, client: int, request_id: MessageId, cache_id: str, text: str) -> None:
        result = CachePutResult(cache_id, STATUS_FAILED, text)
        self._send(client, CacheAck(request_id, encode_model(result)))


def name_of(worker: WorkerSession) -> str:
    """How people know a worker."""
    return worker.name or guid_to_text(worker.worker_id)


def is_target(targets: tuple[str, ...], patterns: tuple[str, ...]) -> bool:
    """Whether a worker of these patterns is meant by one of the targets."""
    return any(_overlaps(target, pattern) for target in targets for pattern in patterns)


_overlaps = lru_cache(maxsize=16_384)(overlaps)
