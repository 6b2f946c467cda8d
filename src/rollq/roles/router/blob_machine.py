"""Files of one client on their way through a router, as a pure machine: what is put goes to every
group, so that the job may go to any; what is got comes from the group that has it. No IO.

All groups that are reached take part in a transfer. The slowest sets its pace: the window that the
client is told is the smallest. A group that fails falls out of it; what it lacks, it will say when
it gets the job, and the client brings it again. Nothing is kept here but what is on its way.
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
    """A blob that the client gives.

    Attributes:
        left: Groups that have not said from where on they lack it.
        written: Of groups that take it, how far they are.
        begins: From where on they wanted it.
        has_stored: A group has all of it.
        begun_at: From where on the client sends; None: it is not told yet.
        failure: What a group said that does not take it.
    """

    left: dict[int, None]
    written: dict[int, int] = field(default_factory=dict)
    begins: dict[int, int] = field(default_factory=dict)
    has_stored: bool = False
    begun_at: int | None = None
    failure: tuple[int, str] = LOST


@dataclass(slots=True)
class Get:
    """A blob that the client wants: groups that were not asked yet, and the one that is."""

    offset: int
    left: list[int]
    group: int
    size: int | None = None  # told by the group that has it


@dataclass(slots=True)
class Ask:
    """Which blobs there are: what of them every group has."""

    left: dict[int, None]
    sizes: list[tuple[int, ...]] = field(default_factory=list)


class BlobRelay:
    """The transfers of one link.

    Args:
        groups: Those that are reached.

    Attributes:
        to_client: To be sent to the client; taken by the shell after every call.
        to_groups: The same to groups.
        failure: Why the link must end; empty: it goes on.
    """

    def __init__(self, groups: Iterable[int]) -> None:
        self.to_client: list[Message] = []
        self.to_groups: list[tuple[int, Message]] = []
        self.failure = ""
        self._groups = dict.fromkeys(groups)
        self._puts: dict[Digest, Put] = {}
        self._gets: dict[Digest, Get] = {}
        self._asks: dict[MessageId, Ask] = {}

    def hear_client(self, messages: Iterable[Message]) -> None:
        """The client speaks."""
        for message in messages:
            ON_CLIENT[type(message)](self, message)

    def hear_group(self, group: int, messages: Iterable[Message]) -> None:
        """A group speaks."""
        for message in messages:
            handler = ON_GROUP.get(type(message))
            if handler is None:  # an error, or that it does not lead any more
                self.lose(group)
                return
            handler(self, group, message)

    def lose(self, group: int) -> None:
        """A group is gone."""
        if self._groups.pop(group, False) is not None:
            return
        for digest, put in list(self._puts.items()):
            self._fall_out(digest, put, group)
        for digest, get in list(self._gets.items()):
            if get.group == group and get.size is not None:
                self.failure = "a group was lost"  # whoever dials again goes on where it was
            elif get.group == group:
                self._get_next(digest, get, LOST)
        for request_id, ask in list(self._asks.items()):
            if ask.left.pop(group, False) is None:
                self._maybe_told(request_id, ask)
        if not self._groups:
            self.failure = "no group can be reached"

    # --- the client speaks

    def _asked(self, message: BlobAsk) -> None:
        if len(self._asks) >= BLOB_ASKS_MAX:
            self.failure = "too many requests are pending"
            return
        self._asks[message.request_id] = Ask(dict(self._groups))
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

    def _more_of_client(self, message: BlobMore) -> None:
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

    # --- groups speak

    def _have(self, group: int, message: BlobHave) -> None:
        ask = self._asks.get(message.request_id)
        if ask is not None and ask.left.pop(group, False) is None:
            ask.sizes.append(message.sizes)
            self._maybe_told(message.request_id, ask)

    def _maybe_told(self, request_id: MessageId, ask: Ask) -> None:
        if ask.left:
            return
        del self._asks[request_id]
        if ask.sizes:
            sizes = tuple(min(of_each) for of_each in zip(*ask.sizes, strict=False))
            self.to_client.append(BlobHave(request_id, sizes))

    def _go(self, group: int, message: BlobGo) -> None:
        put = self._puts.get(message.digest)
        if put is None or put.left.pop(group, False) is not None:
            return
        if message.error:
            put.failure = (message.error, message.detail)
        elif message.offset == COMPLETE:
            put.has_stored = True
        else:
            put.begins[group] = put.written[group] = message.offset
        self._maybe_go(message.digest, put)

    def _maybe_go(self, digest: Digest, put: Put) -> None:
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

    def _more_of_group(self, group: int, message: BlobMore) -> None:
        put, get = self._puts.get(message.digest), self._gets.get(message.digest)
        if put is not None:
            if group in put.written:
                put.written[group] = max(put.written[group], message.offset)
            self._tell_window(message.digest, put)
        elif get is None or get.group == group:
            self.to_client.append(message)  # they are at it

    def _tell_window(self, digest: Digest, put: Put) -> None:
        written = min(put.written.values(), default=0) if put.begun_at is not None else 0
        self.to_client.append(BlobMore(digest, written))

    def _stored(self, group: int, message: BlobStored) -> None:
        put = self._puts.get(message.digest)
        if put is None or group not in put.written:
            return
        if message.error:
            put.failure = (message.error, message.detail)
        else:
            put.has_stored = True
        self._fall_out(message.digest, put, group)

    def _fall_out(self, digest: Digest, put: Put, group: int) -> None:
        """A group takes no more of a blob: it has all, or will not have it."""
        put.left.pop(group, None)
        put.begins.pop(group, None)
        put.written.pop(group, None)
        if put.begun_at is None:
            self._maybe_go(digest, put)
        elif put.written:
            self._tell_window(digest, put)
        else:
            del self._puts[digest]
            failure = (0, "") if put.has_stored else put.failure
            self.to_client.append(BlobStored(digest, *failure))

    def _info(self, group: int, message: BlobInfo) -> None:
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
        """Another group may have it."""
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
    BlobAsk: BlobRelay._asked,
    BlobPut: BlobRelay._put,
    BlobChunk: BlobRelay._chunk,
    BlobGet: BlobRelay._get,
    BlobMore: BlobRelay._more_of_client,
    BlobDrop: BlobRelay._drop,
}

ON_GROUP: Final[dict[type, Callable[[BlobRelay, int, Any], None]]] = {
    BlobHave: BlobRelay._have,
    BlobGo: BlobRelay._go,
    BlobMore: BlobRelay._more_of_group,
    BlobStored: BlobRelay._stored,
    BlobInfo: BlobRelay._info,
    BlobChunk: BlobRelay._chunk_of_group,
}
