"""The dialling end of a blob link: it uploads and downloads. Pure; see `machine`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from rollq.base.digests import Digest, digest_to_text
from rollq.base.errors import ErrorCode, LocalError, RemoteError, RollqError
from rollq.base.limits import BLOB_SILENT_TICKS_MAX
from rollq.roles.blobs.failures import from_answer
from rollq.roles.blobs.machine import Machine
from rollq.roles.blobs.orders import (
    Commit,
    Moved,
    SendMessage,
    SizesFound,
    TransferEnded,
)
from rollq.roles.blobs.receiving import IncomingTransfer
from rollq.roles.blobs.sending import OutgoingTransfer
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


class Offer(NamedTuple):
    """An upload that is not answered yet."""

    number: int
    size: int
    ready: int


class BlobClientMachine(Machine):
    """The dialling end of a blob link to this address."""

    def __init__(self, address: str) -> None:
        super().__init__()
        self._address = address
        self._offers: dict[Digest, Offer] = {}  # uploads without a BlobGo
        self._gets: dict[Digest, IncomingTransfer] = {}
        self._informed: dict[int, None] = {}  # gets with a BlobInfo: their chunks are accepted
        self._asks: dict[MessageId, None] = {}
        self._silent_ticks = 0

    def ask(self, request_id: MessageId, digests: tuple[Digest, ...]) -> None:
        """Query the sizes of blobs. Ends in `SizesFound`."""
        self._asks[request_id] = None
        self._orders.append(SendMessage(BlobAsk(request_id, digests)))

    def put(self, digest: Digest, size: int, ready: int | None = None) -> int:
        """Upload a blob; returns the number of the transfer, which ends in `TransferEnded`. With
        `ready` only so many bytes can be read yet; `grown` reports more."""
        if digest in self._offers or self._sending.get(digest) is not None:
            raise LocalError(ErrorCode.BUG, f"{digest_to_text(digest)} is put twice at once")
        number = self._next_number()
        self._offers[digest] = Offer(number, size, size if ready is None else ready)
        self._orders.append(SendMessage(BlobPut(digest, size)))
        return number

    def grown(self, number: int, digest: Digest, ready: int) -> None:
        """More bytes of an upload can be read."""
        departure = self._departures.get(number)
        offer = self._offers.get(digest)
        if departure is not None:
            departure.ready = ready
        elif offer is not None and offer.number == number:
            self._offers[digest] = offer._replace(ready=ready)

    def get(self, digest: Digest, size: int, offset: int) -> int:
        """Download a blob from an offset on; returns the number of the transfer."""
        if digest in self._gets:
            raise LocalError(ErrorCode.BUG, f"{digest_to_text(digest)} is fetched twice at once")
        arrival = IncomingTransfer(self._next_number(), digest, size)
        arrival.begin(offset)
        self._gets[digest] = self._arrivals[arrival.number] = arrival
        if arrival.is_whole:
            self._informed[arrival.number] = None
            self._orders.append(Commit(arrival.number))
        else:
            self._orders.append(SendMessage(BlobGet(digest, offset)))
        return arrival.number

    def drop(self, number: int, digest: Digest) -> None:
        """Cancel a transfer, without a `TransferEnded`."""
        if self._forget(number, digest):
            self._orders.append(SendMessage(BlobDrop(digest)))

    def on_message(self, message: Any) -> None:
        """Handle a message of the member."""
        self._silent_ticks = 0
        CLIENT_HANDLERS[type(message)](self, message)

    def committed(self, number: int) -> None:
        """The order `Commit` is done."""
        arrival = self._arrivals.get(number)
        if arrival is not None:
            self._end(number, arrival.digest, None)

    def failed(self, number: int, digest: Digest, error: RollqError) -> None:
        """An order of this transfer has failed."""
        if self._forget(number, digest):
            listening = error.code if error.code is ErrorCode.BLOB_CORRUPT else 0
            self._orders += (SendMessage(BlobDrop(digest, listening)), TransferEnded(number, error))

    def tick(self) -> bool:
        """Called each second; whether the member has owed an answer for too long."""
        owed = bool(self._asks or self._offers or self._sending) or any(
            not arrival.held_bytes for arrival in self._gets.values()
        )
        self._silent_ticks = self._silent_ticks + 1 if owed else 0
        return self._silent_ticks > BLOB_SILENT_TICKS_MAX

    # --- messages of the member

    def _have(self, message: BlobHave) -> None:
        if message.request_id in self._asks:
            del self._asks[message.request_id]
            self._orders.append(SizesFound(message.request_id, message.sizes))

    def _go(self, message: BlobGo) -> None:
        digest = message.digest
        offer = self._offers.get(digest)
        if offer is None:
            return
        number, size, ready = offer
        if message.error:
            self._end(number, digest, self._refusal(message))
        elif message.offset == COMPLETE:
            self._orders.append(Moved(number, size))
            self._end(number, digest, None)
        elif not 0 <= message.offset <= size:
            raise RemoteError(
                ErrorCode.BAD_PAYLOAD, f"BlobGo: a blob of {size} bytes from {message.offset} on"
            )
        else:
            del self._offers[digest]
            departure = OutgoingTransfer(number, digest, size, message.offset, ready)
            self._departures[number] = departure
            self._sending.add(departure)
            self._orders.append(Moved(number, message.offset))

    def _more(self, message: BlobMore) -> None:
        departure = self._sending.get(message.digest)
        if departure is not None:
            self._sending.acknowledge(departure, message.offset)
            self._orders.append(Moved(departure.number, message.offset))

    def _refusal(self, message: BlobGo | BlobStored | BlobInfo) -> RollqError:
        return from_answer(message.error, message.detail, message.digest, self._address)

    def _stored(self, message: BlobStored) -> None:
        departure = self._sending.get(message.digest)
        if departure is None:
            return
        if message.error:
            self._end(departure.number, message.digest, self._refusal(message))
        elif departure.sent < departure.size:
            raise RemoteError(ErrorCode.BAD_PAYLOAD, "BlobStored before all was sent")
        else:
            self._end(departure.number, message.digest, None)

    def _info(self, message: BlobInfo) -> None:
        arrival = self._gets.get(message.digest)
        if arrival is None:
            return
        if message.error:
            self._end(arrival.number, message.digest, self._refusal(message))
        elif message.size != arrival.size:
            text = f"{digest_to_text(message.digest)} has {message.size} bytes there"
            wrong = RemoteError(ErrorCode.BLOB_CORRUPT, f"{text}, not {arrival.size}")
            self.failed(arrival.number, message.digest, wrong)
        else:
            self._informed[arrival.number] = None

    def _chunk(self, message: BlobChunk) -> None:
        arrival = self._gets.get(message.digest)
        if arrival is not None and arrival.number in self._informed:  # else of a cancelled get
            arrival.take(message)
            write = arrival.next_write()
            if write is not None:
                self._orders.append(write)

    def _on_moved(self, arrival: IncomingTransfer) -> None:
        self._orders.append(Moved(arrival.number, arrival.written))

    def _end(self, number: int, digest: Digest, error: RollqError | None) -> None:
        self._forget(number, digest)
        self._orders.append(TransferEnded(number, error))

    def _forget(self, number: int, digest: Digest) -> bool:
        if self._arrivals.pop(number, None) is not None:
            del self._gets[digest]
            self._informed.pop(number, None)
            return True
        if self._departures.pop(number, None) is not None:
            self._sending.remove(digest)
            return True
        offer = self._offers.get(digest)
        if offer is not None and offer.number == number:
            del self._offers[digest]
            return True
        return False


CLIENT_HANDLERS: Final[dict[type, Callable[[BlobClientMachine, Any], None]]] = {
    BlobHave: BlobClientMachine._have,
    BlobGo: BlobClientMachine._go,
    BlobChunk: BlobClientMachine._chunk,
    BlobMore: BlobClientMachine._more,
    BlobStored: BlobClientMachine._stored,
    BlobInfo: BlobClientMachine._info,
}
