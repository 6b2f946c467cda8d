"""When a link compresses its messages (ADR 0037).

It depends on the network, not on the peer: on a network that is not much slower than compression,
compression only costs time. So messages to another host are compressed once many bytes had to wait
and left slowly. Within one host it never pays.
"""

from __future__ import annotations

import enum
import socket
from typing import Final

SLOW_BYTES_PER_S: Final = 16_000_000  # slower than this is slow: 100 Mbit/s is, 1 Gbit/s is not
BELIEVED_S: Final = 10.0  # how long a measurement is valid
LOOKED_AT_S: Final = 0.05  # interval of measurements while bytes always wait
WAITED_BYTES_MIN: Final = 64 * 1024  # fewer bytes may leave at once
UNSENT_BYTES: Final = 128 * 1024  # buffered by the system beyond the bytes in flight


class Compress(enum.StrEnum):
    """When this process compresses messages."""

    AUTO = "auto"  # to other hosts over a slow network
    ALWAYS = "always"
    OFF = "off"


class Packing:
    """The setting for all links of this process."""

    __slots__ = ("mode",)

    def __init__(self) -> None:
        self.mode = Compress.AUTO


class Pace:
    """The measured throughput of one link, as needed for the decision. Times are of the loop, in
    seconds."""

    __slots__ = ("_is_waiting", "_slow_until_s", "_waiting_bytes", "_waits_since_s")

    def __init__(self) -> None:
        self._is_waiting = False
        self._slow_until_s = 0.0
        self._waits_since_s = 0.0
        self._waiting_bytes = 0  # waiting bytes since then, including those that left meanwhile

    def began(self, now_s: float, waiting_bytes: int) -> None:
        """A write did not leave at once."""
        self._is_waiting = True
        self._waits_since_s = now_s
        self._waiting_bytes = waiting_bytes

    def wrote(self, now_s: float, size_bytes: int, waiting_bytes: int) -> None:
        """More is written while bytes wait, which may go on for long."""
        if self._is_waiting and now_s - self._waits_since_s >= LOOKED_AT_S:
            self.ended(now_s, waiting_bytes)
            self.began(now_s, waiting_bytes)
        self._waiting_bytes += size_bytes

    def ended(self, now_s: float, left_bytes: int) -> None:
        """All except so many of the waiting bytes have left."""
        self._is_waiting = False
        moved_bytes = self._waiting_bytes - left_bytes
        could_bytes = (now_s - self._waits_since_s) * SLOW_BYTES_PER_S
        if self._waiting_bytes >= WAITED_BYTES_MIN and moved_bytes < could_bytes:
            self._slow_until_s = now_s + BELIEVED_S

    def is_slow(self, now_s: float) -> bool:
        """Whether the network is slow: compress."""
        return now_s < self._slow_until_s


def prepare(sock: socket.socket) -> None:
    """Limit the send buffer of the system, so that waiting bytes are visible here."""
    if hasattr(socket, "TCP_NOTSENT_LOWAT"):  # not available on every system
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES)


PACKING: Final = Packing()
