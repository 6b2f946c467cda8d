"""The accepting end of a blob link: it stores uploads and serves downloads. Pure; see `machine`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from rollq.base.digests import DIGEST_BYTES, Digest, digest_to_text
from rollq.base.errors import ErrorCode, RemoteError, RollqError, StateError
from rollq.base.limits import (
    BLOB_ASK_MAX,
    BLOB_ASKS_MAX,
    BLOB_BYTES_MAX,
    BLOB_TRANSFERS_MAX,
)
from rollq.roles.blobs.failures import as_answer
from rollq.roles.blobs.machine import Machine
from rollq.roles.blobs.orders import (
    Begin,
    CheckCopy,
    Close,
    ConfirmCopies,
    GetSizes,
    Open,
    SendMessage,
)
from rollq.roles.blobs.receiving import IncomingTransfer
from rollq.roles.blobs.sending import OutgoingTransfer, Sending
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
from rollq.wire.fields import MessageId


class ProvingPut(BlobPut, frozen=True, gc=False, tag=73):
    """A put whose sender must prove possession, since knowing a digest does not prove it. Never on
    the wire: access control replaces a BlobPut by it."""


class ServerMachine(Machine):
    """The accepting end of a blob link."""

    def __init__(self) -> None:
        super().__init__()
        self._puts: dict[Digest, IncomingTransfer] = {}
        self._opening: dict[Digest, tuple[int, int]] = {}  # gets being opened: number and offset
        self._asks: dict[MessageId, None] = {}

    @property
    def is_busy(self) -> bool:
        """Whether reading from the link must pause."""
        return len(self._asks) >= BLOB_ASKS_MAX

    def on_message(self, message: Any) -> None:
        """Handle a message of the dialling end."""
        SERVER_HANDLERS[type(message)](self, message)

    def sizes_found(self, request_id: MessageId, sizes: tuple[int, ...]) -> None:
        """The order `GetSizes` is done."""
        self._asks.pop(request_id, None)
        self._orders.append(SendMessage(BlobHave(request_id, sizes)))

    def begun(self, number: int, offset: int) -> None:
        """The order `Begin` is done: the upload starts at `offset`, or is stored already
        (COMPLETE)."""
        arrival = self._arrivals.get(number)
        if arrival is None:
            return
        if offset == COMPLETE:
            self._orders.append(ConfirmCopies(number, arrival.digest))
            return
        arrival.begin(offset)
        self._orders.append(SendMessage(BlobGo(arrival.digest, offset)))
        self._continue(arrival)

    def committed(self, number: int) -> None:
        """The order `Commit` is done."""
        arrival = self._arrivals.get(number)
        if arrival is not None:
            self._orders.append(ConfirmCopies(number, arrival.digest))

    def copies_confirmed(self, number: int) -> None:
        """The order `ConfirmCopies` is done."""
        arrival = self._arrivals.get(number)
        if arrival is not None:
            digest = arrival.digest
            said = BlobStored(digest) if arrival.is_begun else BlobGo(digest, COMPLETE)
            self._orders.append(SendMessage(said))
            self._end_put(arrival)

    def opened(self, number: int, digest: Digest, size: int) -> None:
        """The order `Open` is done."""
        if self._opening.get(digest, (0, 0))[0] != number:
            return
        _, offset = self._opening.pop(digest)
        if offset > size:
            error = StateError(ErrorCode.WRONG_STATE, f"the blob has {size} bytes, not {offset}")
            self._orders.append(SendMessage(BlobInfo(digest, size, *as_answer(error))))
        else:
            self._orders.append(SendMessage(BlobInfo(digest, size)))
        if offset >= size:
            self._orders.append(Close(number))
            return
        departure = OutgoingTransfer(number, digest, size, offset)
        self._departures[number] = departure
        self._sending.add(departure)

    def failed(self, number: int, digest: Digest, error: RollqError) -> None:
        """An order of this transfer has failed."""
        arrival = self._arrivals.get(number)
        departure = self._departures.get(number)
        if arrival is not None:
            code, detail = as_answer(error)
            refusal = (
                BlobStored(digest, code, detail)
                if arrival.is_begun
                else BlobGo(digest, 0, code, detail)
            )
            self._orders.append(SendMessage(refusal))
            self._end_put(arrival)
        elif departure is not None:
            self._orders.append(SendMessage(BlobInfo(digest, departure.size, *as_answer(error))))
            self._end_get(departure)
        elif self._opening.get(digest, (0, 0))[0] == number:
            del self._opening[digest]
            self._orders += (SendMessage(BlobInfo(digest, 0, *as_answer(error))), Close(number))

    def tick(self) -> bool:
        """Called each second: sends signs of life; whether the peer has stalled."""
        for digest in (*self._opening, *(one.digest for one in self._departures.values())):
            self._orders.append(SendMessage(BlobMore(digest, 0)))
        if self._asks:
            self._orders.append(SendMessage(BlobMore(bytes(DIGEST_BYTES), 0)))
        stalled = self._sending.tick()
        for arrival in self._puts.values():
            self._orders.append(SendMessage(arrival.more()))
            stalled = arrival.tick() or stalled
        return stalled

    @property
    def is_receiving(self) -> bool:
        """Whether uploads are in progress on this link."""
        return bool(self._puts)

    def slow_puts(self) -> list[IncomingTransfer]:
        """Uploads that have made almost no progress."""
        return [arrival for arrival in self._puts.values() if arrival.is_slow]

    def closed(self) -> None:
        """Close all transfers: the link is lost."""
        numbers = [number for number, _ in self._opening.values()]
        self._orders[:] = map(Close, (*numbers, *self._arrivals, *self._departures))
        self._sending = Sending()
        for table in (self._puts, self._opening, self._asks, self._arrivals, self._departures):
            table.clear()

    # --- messages of the dialling end

    def _query(self, message: BlobAsk) -> None:
        if len(message.digests) > BLOB_ASK_MAX:
            raise RemoteError(
                ErrorCode.BAD_PAYLOAD,
                f"BlobAsk: {len(message.digests)} digests; at most {BLOB_ASK_MAX}",
            )
        self._asks[message.request_id] = None
        self._orders.append(GetSizes(message.request_id, message.digests))

    def _put(self, message: BlobPut) -> None:
        digest = message.digest
        if digest in self._puts:
            raise _duplicate("BlobPut", digest)
        refusal: RollqError | None = None
        if len(self._puts) >= BLOB_TRANSFERS_MAX:
            refusal = _too_many()
        elif not 0 <= message.size <= BLOB_BYTES_MAX:
            refusal = RemoteError(
                ErrorCode.BAD_PAYLOAD, f"a blob of {message.size} bytes; at most {BLOB_BYTES_MAX}"
            )
        if refusal is not None:
            self._orders.append(SendMessage(BlobGo(digest, 0, *as_answer(refusal))))
            return
        arrival = IncomingTransfer(self._next_number(), digest, message.size)
        self._puts[digest] = self._arrivals[arrival.number] = arrival
        self._orders.append(
            Begin(arrival.number, digest, message.size, isinstance(message, ProvingPut))
        )

    def _chunk(self, message: BlobChunk) -> None:
        arrival = self._puts.get(message.digest)
        if arrival is not None:  # else the transfer has ended
            arrival.take(message)
            write = arrival.next_write()
            if write is not None:
                self._orders.append(write)

    def _get(self, message: BlobGet) -> None:
        digest = message.digest
        if digest in self._opening or self._sending.get(digest) is not None:
            raise _duplicate("BlobGet", digest)
        if message.offset < 0:
            raise RemoteError(ErrorCode.BAD_PAYLOAD, f"BlobGet: from {message.offset} on")
        if len(self._opening) + len(self._sending) >= BLOB_TRANSFERS_MAX:
            self._orders.append(SendMessage(BlobInfo(digest, 0, *as_answer(_too_many()))))
            return
        number = self._next_number()
        self._opening[digest] = (number, message.offset)
        self._orders.append(Open(number, digest))

    def _more(self, message: BlobMore) -> None:
        departure = self._sending.get(message.digest)
        if departure is not None and self._sending.acknowledge(departure, message.offset):
            self._end_get(departure)

    def _drop(self, message: BlobDrop) -> None:
        digest = message.digest
        if message.error == ErrorCode.BLOB_CORRUPT and digest not in self._puts:
            self._orders.append(CheckCopy(digest))
        if digest in self._puts:
            self._end_put(self._puts[digest])
        departure = self._sending.get(digest)
        if departure is not None:
            self._end_get(departure)
        if digest in self._opening:
            self._orders.append(Close(self._opening.pop(digest)[0]))

    def _end_put(self, arrival: IncomingTransfer) -> None:
        del self._puts[arrival.digest], self._arrivals[arrival.number]
        self._orders.append(Close(arrival.number))

    def _end_get(self, departure: OutgoingTransfer) -> None:
        self._sending.remove(departure.digest)
        del self._departures[departure.number]
        self._orders.append(Close(departure.number))


def _duplicate(what: str, digest: Digest) -> RemoteError:
    return RemoteError(
        ErrorCode.WRONG_STATE, f"{what}: {digest_to_text(digest)} is on its way on this link"
    )


def _too_many() -> StateError:
    return StateError(
        ErrorCode.OVERLOADED, f"{BLOB_TRANSFERS_MAX} blobs are on their way on this link", "wait"
    )


SERVER_HANDLERS: Final[dict[type, Callable[[ServerMachine, Any], None]]] = {
    BlobAsk: ServerMachine._query,
    BlobPut: ServerMachine._put,
    ProvingPut: ServerMachine._put,
    BlobChunk: ServerMachine._chunk,
    BlobGet: ServerMachine._get,
    BlobMore: ServerMachine._more,
    BlobDrop: ServerMachine._drop,
}
