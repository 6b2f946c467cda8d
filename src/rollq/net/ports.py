"""Reserved local ports for processes that are about to be started, perhaps more than once."""

from __future__ import annotations

import contextlib
import os
import socket
from collections import deque
from typing import Final

KEPT_MAX: Final = 256

_kept: deque[int] = deque()  # descriptors


def free_ports(count: int) -> list[int]:
    """Unused ports, reserved as long as this process lives: they stay bound, so that the system
    gives them to no other process while the server that they are for is not running.

    They are bound and not listening, so that server can bind them too, with SO_REUSEADDR.
    """
    with contextlib.ExitStack() as stack:
        bound = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in bound:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            one.bind(("127.0.0.1", 0))
        ports = [int(one.getsockname()[1]) for one in bound]
        _kept.extend(one.detach() for one in bound)
    while len(_kept) > KEPT_MAX:
        os.close(_kept.popleft())
    return ports
