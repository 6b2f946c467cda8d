"""What both ends of a link for blobs do alike. Pure: messages and news of the disk in, orders out.

A machine lives as long as its link. Its shell tells what came (`heard`), what an order led
to, and that time passes (`tick`), and carries out what `take_orders` hands over. A peer that
breaks the rules is a RemoteError out of `heard`: the link must end. News of a transfer that has
been given up meanwhile are ignored.

The two ends are `server_machine` and `client_machine`.
"""

from __future__ import annotations

from collections.abc import Sequence

from rollq.roles.blobs.orders import (
    AnyOrder,
    Commit,
    SendMessage,
)
from rollq.roles.blobs.receiving import Arrival
from rollq.roles.blobs.sending import Departure, Sending
from rollq.wire.blob_messages import (
    BlobChunk,
)


class Machine:
    """What both ends do alike."""

    def __init__(self) -> None:
        self._sending = Sending()
        self._orders: list[AnyOrder] = []
        self._last_number = 0
        # What a number means now; a number that is not here was given up.
        self._departures: dict[int, Departure] = {}
        self._arrivals: dict[int, Arrival] = {}

    def take_orders(self) -> list[AnyOrder]:
        """What is to be done, in this order."""
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
        self._has_moved(arrival)
        self._go_on(arrival)

    def _has_moved(self, arrival: Arrival) -> None:
        """So much more of it is written."""

    def _go_on(self, arrival: Arrival) -> None:
        write = arrival.next_write()
        if write is not None:
            self._orders.append(write)
        elif arrival.is_whole:
            self._orders.append(Commit(arrival.number))

    def _next_number(self) -> int:
        self._last_number += 1
        return self._last_number
