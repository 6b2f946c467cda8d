"""Who a worker is to a member, and where its session stands. Only records."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final

from rollq.base.ids import WorkerId

IDLE_HEARTBEAT_MS: Final = 10_000


@dataclass(slots=True, frozen=True)
class WorkerSetup:
    """Who this worker is. `incarnation` is larger at each start of the process."""

    worker_id: WorkerId
    addresses: tuple[str, ...]
    patterns: tuple[str, ...]
    name: str = ""
    incarnation: int = 1
    slots: int = 1  # how many run at once
    features: tuple[str, ...] = ()
    ahead: int = 0  # how many more may wait here, so that a slot need not wait for the next
    blob_address: str = ""  # where other workers may fetch blobs


class Link(enum.IntEnum):
    """Where the session with a member stands."""

    DOWN = 0
    GREETING = 1
    OPEN = 2
    LEFT = 3  # drained; nothing follows
