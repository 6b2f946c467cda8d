"""Keeping the memory of a process that holds secrets to itself."""

from __future__ import annotations

import ctypes
import resource
import sys
from typing import Final

PR_SET_DUMPABLE: Final = 4


def close_memory() -> None:
    """Leave no core file, ours or of what we start, and let no other process of our user look into
    our memory or at the environment that we were started with. What we start may be looked into."""
    _, most = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, most))
    if sys.platform == "linux":
        # Also for systems that hand core files to a program, which does not ask for the limit.
        ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0)
