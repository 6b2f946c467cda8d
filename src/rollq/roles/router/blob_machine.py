"""Blob transfers of one client through a router, as a pure machine. No IO.

A put goes to every reachable group, so that the job may run in any; a get is served by one group
that has the blob. The slowest group limits a put: the client's window follows the smallest offset
written. A group that fails is dropped from the transfer; it asks for the blob again when it gets
the job, and the client uploads it again. Nothing is stored here but what is in flight.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from rollq.base.digests import Digest
from rollq.base.errors import ErrorCode
from rollq.base.ids import MessageId
from rollq.base.limits import BLOB_ASKS_MAX, BLOB_TRANSFERS_MAX
from rollq.wire.blob_messages import (
    COMPLETE,
    BlobAsk,
    BlobChunk,
    BlobDrop,
    BlobGet,
    BlobGo,
    BlobHave,
    BlobInfo,
    BlobMore,
    BlobPut,
    BlobStored,
)
from rollq.wire.compact import Message

LOST: Final = (int(ErrorCode.NOT_READY), "no group can be reached")
TOO_MANY: Final = (int(ErrorCode.OVERLOADED), "too many transfers")


@dataclass(slots=True)
class Put:
    """An upload by the client.

    Attributes:
        left: Groups that have not answered the BlobPut.
        written: Offset written so far, by group that takes the upload.
        begins: Offset from which each of these groups wants data.
        has_stored: A group has the whole blob.
        begun_at: Offset from which the client sends; None: the client has not been answered.
        failure: The last refusal by a group.
    """

    left: dict[int, None]
    written: dict[int, int] = field(default_factory=dict)
    begins: dict[int, int] = field(default_factory=dict)
    has_stored: bool = False
    begun_at: int | None = None
    failure: tuple[int, str] = LOST


@dataclass(slots=True)
class Get:
    """A download by the client: the group that is asked, and those to try next."""

    offset: int
    left: list[int]
    group: int
    size: int | None = None  # from the group that has the blob


@dataclass(slots=True)
class ExistenceQuery:
    """A query for which blobs exist: a blob exists if every group has it."""

    left: dict[int, None]
    sizes: list[tuple[int, ...]] = field(default_factory=list)


class BlobRelay:
    """The transfers of one link.

    Args:
        groups: The reachable groups.

    Attributes:
        to_client: Messages to the client; the shell takes them after every call.
        to_groups: Messages to groups, likewise.
        failure: Why the link must be closed; empty: it stays open.
    """

    def __init__(self, groups: Iterable[int]) -> None:
        self.to_client: list[Message] = []
        self.to_groups: list[tuple[int, Message]] = []
        self.failure = ""
        self._groups = dict.fromkeys(groups)
        self._puts: dict[Digest, Put] = {}
        self._gets: dict[Digest, Get] = {}
        self._asks: dict[MessageId, ExistenceQuery] = {}

    def on_client_messages(self, messages: Iterable[Message]) -> None:
        """Handle messages of the client."""
        for message in messages:
            ON_CLIENT[type(message)](self, message)

    def on_group_messages(self, group: int, messages: Iterable[Message]) -> None:
        """Handle messages of a group."""
        for message in messages:
            handler = ON_GROUP.get(type(message))
            if handler is None:  # an error, or NotLeader
                self.lose(group)
                return
            handler(self, group, message)

    def lose(self, group: int) -> None:
        """Drop a group whose link is lost."""
        if self._groups.pop(group, False) is not None:
            return
        for digest, put in list(self._puts.items()):
            self._remove_group(digest, put, group)
        for digest, get in list(self._gets.items()):
            if get.group == group and get.size is not None:
                self.failure = "a group was lost"  # the client reconnects and resumes
            elif get.group == group:
                self._get_next(digest, get, LOST)
        for request_id, ask in list(self._asks.items()):
            if ask.left.pop(group, False) is None:
                self._maybe_answer(request_id, ask)
        if not self._groups:
            self.failure = "no group can be reached"

    # --- messages of the client

    def _query(self, message: BlobAsk) -> None:
        if len(self._asks) >= BLOB_ASKS_MAX:
            self.failure = "too many requests are pending"
            return
        self._asks[message.request_id] = ExistenceQuery(dict(self._groups))
        self._to_all(message)

    def _put(self, message: BlobPut) -> None:
        if len(self._puts) >= BLOB_TRANSFERS_MAX or message.digest in self._puts:
            self.to_client.append(BlobGo(message.digest, 0, *TOO_MANY))
            return
        self._puts[message.digest] = Put(dict(self._groups))
        self._to_all(message)

    def _chunk(self, message: BlobChunk) -> None:
        put = self._puts.get(message.digest)
        end = message.offset + len(message.data)
        for group, begin in put.begins.items() if put is not None else ():
            if message.offset >= begin:
                self.to_groups.append((group, message))
            elif end > begin:
                rest = message.data[begin - message.offset :]
                self.to_groups.append((group, BlobChunk(message.digest, begin, rest)))

    def _get(self, message: BlobGet) -> None:
        digest = message.digest
        if len(self._gets) >= BLOB_TRANSFERS_MAX or digest in self._gets:
            self.to_client.append(BlobInfo(digest, 0, *TOO_MANY))
            return
        groups = list(self._groups)
        self._gets[digest] = Get(message.offset, groups[1:], groups[0])
        self.to_groups.append((groups[0], message))

    def _on_client_progress(self, message: BlobMore) -> None:
        get = self._gets.get(message.digest)
        if get is not None:
            self.to_groups.append((get.group, message))

    def _drop(self, message: BlobDrop) -> None:
        put, get = self._puts.pop(message.digest, None), self._gets.pop(message.digest, None)
        if put is not None:
            for group in (*put.left, *put.written):
                self.to_groups.append((group, message))
        if get is not None:
            self.to_groups.append((get.group, message))

    # --- messages of groups

    def _on_have(self, group: int, message: BlobHave) -> None:
        ask = self._asks.get(message.request_id)
        if ask is not None and ask.left.pop(group, False) is None:
            ask.sizes.append(message.sizes)
            self._maybe_answer(message.request_id, ask)

    def _maybe_answer(self, request_id: MessageId, ask: ExistenceQuery) -> None:
        if ask.left:
            return
        del self._asks[request_id]
        if ask.sizes:
            sizes = tuple(min(of_each) for of_each in zip(*ask.sizes, strict=False))
            self.to_client.append(BlobHave(request_id, sizes))

    def _on_go(self, group: int, message: BlobGo) -> None:
        put = self._puts.get(message.digest)
        if put is None or put.left.pop(group, False) is not None:
            return
        if message.error:
            put.failure = (message.error, message.detail)
        elif message.offset == COMPLETE:
            put.has_stored = True
        else:
            put.begins[group] = put.written[group] = message.offset
        self._maybe_start(message.digest, put)

    def _maybe_start(self, digest: Digest, put: Put) -> None:
        if put.left or put.begun_at is not None:
            return
        if put.written:
            put.begun_at = min(put.written.values())
            self.to_client.append(BlobGo(digest, put.begun_at))
            return
        del self._puts[digest]
        failure = (0, "") if put.has_stored else put.failure
        offset = COMPLETE if put.has_stored else 0
        self.to_client.append(BlobGo(digest, offset, *failure))

    def _on_group_progress(self, group: int, message: BlobMore) -> None:
        put, get = self._puts.get(message.digest), self._gets.get(message.digest)
        if put is not None:
            if group in put.written:
                put.written[group] = max(put.written[group], message.offset)
            self._send_window(message.digest, put)
        elif get is None or get.group == group:
            self.to_client.append(message)  # a sign of progress

    def _send_window(self, digest: Digest, put: Put) -> None:
        written = min(put.written.values(), default=0) if put.begun_at is not None else 0
        self.to_client.append(BlobMore(digest, written))

    def _on_stored(self, group: int, message: BlobStored) -> None:
        put = self._puts.get(message.digest)
        if put is None or group not in put.written:
            return
        if message.error:
            put.failure = (message.error, message.detail)
        else:
            put.has_stored = True
        self._remove_group(message.digest, put, group)

    def _remove_group(self, digest: Digest, put: Put, group: int) -> None:
        """Remove a group from an upload: it has the whole blob, or has refused it."""
        put.left.pop(group, None)
        put.begins.pop(group, None)
        put.written.pop(group, None)
        if put.begun_at is None:
            self._maybe_start(digest, put)
        elif put.written:
            self._send_window(digest, put)
        else:
            del self._puts[digest]
            failure = (0, "") if put.has_stored else put.failure
            self.to_client.append(BlobStored(digest, *failure))

    def _on_info(self, group: int, message: BlobInfo) -> None:
        get = self._gets.get(message.digest)
        if get is None or get.group != group:
            return
        if message.error and get.size is None:
            self._get_next(message.digest, get, (message.error, message.detail))
            return
        get.size = message.size
        if message.error or get.offset >= message.size:
            del self._gets[message.digest]
        self.to_client.append(message)

    def _get_next(self, digest: Digest, get: Get, failure: tuple[int, str]) -> None:
        """Try the next group that may have the blob."""
        left = [group for group in get.left if group in self._groups]
        if not left:
            del self._gets[digest]
            self.to_client.append(BlobInfo(digest, 0, *failure))
            return
        get.group, get.left = left[0], left[1:]
        self.to_groups.append((get.group, BlobGet(digest, get.offset)))

    def _chunk_of_group(self, group: int, message: BlobChunk) -> None:
        get = self._gets.get(message.digest)
        if get is None or get.group != group:
            return
        self.to_client.append(message)
        if get.size is not None and message.offset + len(message.data) >= get.size:
            del self._gets[message.digest]

    def _to_all(self, message: Message) -> None:
        self.to_groups += [(group, message) for group in self._groups]


ON_CLIENT: Final[dict[type, Callable[[BlobRelay, Any], None]]] = {
    BlobAsk: BlobRelay._query,
    BlobPut: BlobRelay._put,
    BlobChunk: BlobRelay._chunk,
    BlobGet: BlobRelay._get,
    BlobMore: BlobRelay._on_client_progress,
    BlobDrop: BlobRelay._drop,
}

ON_GROUP: Final[dict[type, Callable[[BlobRelay, int, Any], None]]] = {
    BlobHave: BlobRelay._on_have,
    BlobGo: BlobRelay._on_go,
    BlobMore: BlobRelay._on_group_progress,
    BlobStored: BlobRelay._on_stored,
    BlobInfo: BlobRelay._on_info,
    BlobChunk: BlobRelay._chunk_of_group,
}
