"""Ports of this machine for processes that are about to be started, perhaps more than once."""

from __future__ import annotations

import contextlib
import os
import socket
from collections import deque
from typing import Final

KEPT_MAX: Final = 256

_kept: deque[int] = deque()  # descriptors


def free_ports(count: int) -> list[int]:
    """Ports that nobody uses, and that the system gives to nobody else while whom they are for is
    not up yet, or down for a while: they stay bound here as long as this process lives.

    Nobody listens on them here, so whoever names one can: with SO_REUSEADDR, as servers have it.
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
