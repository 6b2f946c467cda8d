"""Protects the memory of a process that holds secrets."""

from __future__ import annotations

import ctypes
import resource
import sys
from typing import Final

PR_SET_DUMPABLE: Final = 4


def close_memory() -> None:
    """Disable core dumps, of this process and its children, and deny other processes of the same
    user access to our memory and initial environment. Children are not protected from that
    access."""
    _, most = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, most))
    if sys.platform == "linux":
        # Core handlers in user space ignore the limit, but not this flag.
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
