"""The end of a link for blobs that was dialled: it stores what is put and hands out what it has.
Pure; see `machine`."""

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
from rollq.roles.blobs.receiving import Arrival
from rollq.roles.blobs.sending import Departure, Sending
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
    """A put of somebody who must prove to have the blob, since to know its digest is not to have
    it. Never on the wire: whoever judges puts makes one of it."""


class ServerMachine(Machine):
    """The end that was dialled: it stores what is put and hands out what it has."""

    def __init__(self) -> None:
        super().__init__()
        self._puts: dict[Digest, Arrival] = {}
        self._opening: dict[Digest, tuple[int, int]] = {}  # to be read: number, and from where on
        self._asks: dict[MessageId, None] = {}

    @property
    def is_busy(self) -> bool:
        """Whether the peer must wait before it says more."""
        return len(self._asks) >= BLOB_ASKS_MAX

    def heard(self, message: Any) -> None:
        """The dialer said something."""
        SERVER_HEARS[type(message)](self, message)

    def looked(self, request_id: MessageId, sizes: tuple[int, ...]) -> None:
        """The order `GetSizes` is done."""
        self._asks.pop(request_id, None)
        self._orders.append(SendMessage(BlobHave(request_id, sizes)))

    def begun(self, number: int, offset: int) -> None:
        """The order `Begin` is done: the blob goes on from here, or is there (COMPLETE)."""
        arrival = self._arrivals.get(number)
        if arrival is None:
            return
        if offset == COMPLETE:
            self._orders.append(ConfirmCopies(number, arrival.digest))
            return
        arrival.begin(offset)
        self._orders.append(SendMessage(BlobGo(arrival.digest, offset)))
        self._go_on(arrival)

    def committed(self, number: int) -> None:
        """The order `Commit` is done."""
        arrival = self._arrivals.get(number)
        if arrival is not None:
            self._orders.append(ConfirmCopies(number, arrival.digest))

    def vouched(self, number: int) -> None:
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
        departure = Departure(number, digest, size, offset)
        self._departures[number] = departure
        self._sending.add(departure)

    def failed(self, number: int, digest: Digest, error: RollqError) -> None:
        """An order of this transfer could not be done."""
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
        """A second has passed: says that we are at it; returns whether the peer has stalled."""
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
    def is_given(self) -> bool:
        """Whether blobs come in on this link."""
        return bool(self._puts)

    def slow_puts(self) -> list[Arrival]:
        """Blobs that come in and bring next to nothing."""
        return [arrival for arrival in self._puts.values() if arrival.is_slow]

    def closed(self) -> None:
        """The link is gone, and all that was asked for on it with it."""
        numbers = [number for number, _ in self._opening.values()]
        self._orders[:] = map(Close, (*numbers, *self._arrivals, *self._departures))
        self._sending = Sending()
        for table in (self._puts, self._opening, self._asks, self._arrivals, self._departures):
            table.clear()

    # --- words of the dialer

    def _asked(self, message: BlobAsk) -> None:
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
            raise _said_twice("BlobPut", digest)
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
        arrival = Arrival(self._next_number(), digest, message.size)
        self._puts[digest] = self._arrivals[arrival.number] = arrival
        self._orders.append(
            Begin(arrival.number, digest, message.size, isinstance(message, ProvingPut))
        )

    def _chunk(self, message: BlobChunk) -> None:
        arrival = self._puts.get(message.digest)
        if arrival is not None:  # else it was on its way when the transfer ended
            arrival.take(message)
            write = arrival.next_write()
            if write is not None:
                self._orders.append(write)

    def _get(self, message: BlobGet) -> None:
        digest = message.digest
        if digest in self._opening or self._sending.get(digest) is not None:
            raise _said_twice("BlobGet", digest)
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

    def _end_put(self, arrival: Arrival) -> None:
        del self._puts[arrival.digest], self._arrivals[arrival.number]
        self._orders.append(Close(arrival.number))

    def _end_get(self, departure: Departure) -> None:
        self._sending.remove(departure.digest)
        del self._departures[departure.number]
        self._orders.append(Close(departure.number))


def _said_twice(what: str, digest: Digest) -> RemoteError:
    return RemoteError(
        ErrorCode.WRONG_STATE, f"{what}: {digest_to_text(digest)} is on its way on this link"
    )


def _too_many() -> StateError:
    return StateError(
        ErrorCode.OVERLOADED, f"{BLOB_TRANSFERS_MAX} blobs are on their way on this link", "wait"
    )


SERVER_HEARS: Final[dict[type, Callable[[ServerMachine, Any], None]]] = {
    BlobAsk: ServerMachine._asked,
    BlobPut: ServerMachine._put,
    ProvingPut: ServerMachine._put,
    BlobChunk: ServerMachine._chunk,
    BlobGet: ServerMachine._get,
    BlobMore: ServerMachine._more,
    BlobDrop: ServerMachine._drop,
}
