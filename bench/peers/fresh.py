"""Time from nothing to the first result of a peer: servers, workers and client."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from bench.peers.base import Peer


def fresh_start_s(peer: Peer, folder: Path, first: Callable[[], None]) -> float:
    """Stop a peer and start it beside its folder, empty; seconds until `first` has its result.

    The peer's libraries are loaded already, which its user would pay for too.
    """
    peer.stop()
    empty = Path(tempfile.mkdtemp(prefix="fresh-", dir=folder.parent)) / "servers"
    started = time.perf_counter()
    peer.start(empty)
    first()
    return time.perf_counter() - started
