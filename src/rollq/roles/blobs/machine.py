"""The part that both ends of a blob link share. Pure: messages and IO results in, orders out.

A machine lives as long as its link. Its shell passes on messages, the results of orders and `tick`,
and executes what `take_orders` returns. A protocol violation by the peer raises RemoteError: the
link must be closed. Results for a transfer that was cancelled meanwhile are ignored.

The two ends are `server_machine` and `client_machine`.
"""

from __future__ import annotations

from collections.abc import Sequence

from rollq.roles.blobs.orders import (
    AnyOrder,
    Commit,
    SendMessage,
)
from rollq.roles.blobs.receiving import IncomingTransfer
from rollq.roles.blobs.sending import OutgoingTransfer, Sending
from rollq.wire.blob_messages import (
    BlobChunk,
)


class Machine:
    """The part that both ends share."""

    def __init__(self) -> None:
        self._sending = Sending()
        self._orders: list[AnyOrder] = []
        self._last_number = 0
        # Active transfers by number; results for a number that is not here are ignored.
        self._departures: dict[int, OutgoingTransfer] = {}
        self._arrivals: dict[int, IncomingTransfer] = {}

    def take_orders(self) -> list[AnyOrder]:
        """The pending orders, to be executed in this order."""
        self._orders.extend(self._sending.reads())
        orders, self._orders = self._orders, []
        return orders

    def has_read(self, number: int, chunks: Sequence[BlobChunk]) -> None:
        """The order `Read` is done."""
        departure = self._departures.get(number)
        if departure is not None:
            length = sum(chunk.packed or len(chunk.data) for chunk in chunks)
            self._sending.has_sent(departure, length)
            self._orders.extend(map(SendMessage, chunks))

    def written(self, number: int) -> None:
        """The order `Write` is done."""
        arrival = self._arrivals.get(number)
        if arrival is None:
            return
        more = arrival.has_written()
        if more is not None:
            self._orders.append(SendMessage(more))
        self._on_moved(arrival)
        self._continue(arrival)

    def _on_moved(self, arrival: IncomingTransfer) -> None:
        """Called when more of a transfer is written."""

    def _continue(self, arrival: IncomingTransfer) -> None:
        write = arrival.next_write()
        if write is not None:
            self._orders.append(write)
        elif arrival.is_whole:
            self._orders.append(Commit(arrival.number))

    def _next_number(self) -> int:
        self._last_number += 1
        return self._last_number
