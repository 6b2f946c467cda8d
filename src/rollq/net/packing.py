"""When a link compresses what it sends (ADR 0037).

The network decides, not the peer: where it is not much slower than compression, that only costs
time. So what is sent to another computer is compressed once much of it had to wait and left slowly.
Within one computer it never pays.
"""

from __future__ import annotations

import enum
import socket
from typing import Final

SLOW_BYTES_PER_S: Final = 16_000_000  # a network of 100 Mbit/s is, and one of 1 Gbit/s is not
BELIEVED_S: Final = 10.0  # then the next that waits is measured as it is
LOOKED_AT_S: Final = 0.05  # so often, if something always waits
WAITED_BYTES_MIN: Final = 64 * 1024  # less may leave in one go
UNSENT_BYTES: Final = 128 * 1024  # that the system takes beyond what is on its way


class Compress(enum.StrEnum):
    """What this process compresses of what it sends."""

    AUTO = "auto"  # what goes to another computer by a slow network
    ALWAYS = "always"
    OFF = "off"


class Packing:
    """The choice for all links of this process."""

    __slots__ = ("mode",)

    def __init__(self) -> None:
        self.mode = Compress.AUTO


class Pace:
    """How fast one link sends, as far as that matters. Times are of the loop, in seconds."""

    __slots__ = ("_is_waiting", "_slow_until_s", "_waiting_bytes", "_waits_since_s")

    def __init__(self) -> None:
        self._is_waiting = False
        self._slow_until_s = 0.0
        self._waits_since_s = 0.0
        self._waiting_bytes = 0  # since then, what left meanwhile included

    def began(self, now_s: float, waiting_bytes: int) -> None:
        """What was written did not leave at once."""
        self._is_waiting = True
        self._waits_since_s = now_s
        self._waiting_bytes = waiting_bytes

    def wrote(self, now_s: float, size_bytes: int, waiting_bytes: int) -> None:
        """More is about to be written, while so much waits: perhaps that never ends."""
        if self._is_waiting and now_s - self._waits_since_s >= LOOKED_AT_S:
            self.ended(now_s, waiting_bytes)
            self.began(now_s, waiting_bytes)
        self._waiting_bytes += size_bytes

    def ended(self, now_s: float, left_bytes: int) -> None:
        """All but so much of what waited has left."""
        self._is_waiting = False
        moved_bytes = self._waiting_bytes - left_bytes
        could_bytes = (now_s - self._waits_since_s) * SLOW_BYTES_PER_S
        if self._waiting_bytes >= WAITED_BYTES_MIN and moved_bytes < could_bytes:
            self._slow_until_s = now_s + BELIEVED_S

    def is_slow(self, now_s: float) -> bool:
        """Whether what is written now had better be small."""
        return now_s < self._slow_until_s


def prepare(sock: socket.socket) -> None:
    """Have the system take little more than it can send, so that what waits is seen here."""
    if hasattr(socket, "TCP_NOTSENT_LOWAT"):  # not every system has it
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT_BYTES)


PACKING: Final = Packing()
