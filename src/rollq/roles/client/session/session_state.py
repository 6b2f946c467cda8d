"""The setup of a client, and the state of its session. Only records."""

from __future__ import annotations

import enum
from dataclasses import dataclass

from rollq.base.ids import ClientId
from rollq.base.limits import REDIAL_MAX_MS
from rollq.wire import features as f

SPOKEN = (f.COMPACT, f.ACCEPTED, f.BATCH, f.OUTPUT, f.ALIVE, f.TASKS, f.RUNS, f.SUBJECTS)
# Features that every client offers.
FEATURES = (*SPOKEN, *f.PACKED)


@dataclass(slots=True, frozen=True)
class ClientSetup:
    """The settings of a client."""

    client_id: ClientId
    addresses: tuple[str, ...]
    desired_parallelism: int = 0
    features: tuple[str, ...] = ()
    redial_ms_max: int = REDIAL_MAX_MS  # the maximum delay between attempts to find the leader


class SessionState(enum.IntEnum):
    """The state of a session."""

    DOWN = 0
    GREETING = 1
    OPEN = 2
