"""What a member is told when it starts. Fixed for its life; what may change is in the grid."""

from __future__ import annotations

from dataclasses import dataclass, field

from rollq.base.limits import HOT_BODIES_BYTES_MAX, SEGMENT_BYTES
from rollq.history.retention import Retention
from rollq.raft.node import RaftOptions


@dataclass(slots=True, frozen=True)
class MemberSetup:
    """Address, peers and pace of one member."""

    address: str  # as peers, workers and clients reach it
    peers: tuple[str, ...] = ()  # the other members at the group's birth
    group: str = "default"
    tick_ms: int = 25
    raft: RaftOptions = field(default_factory=lambda: RaftOptions(quorum_ticks=20))
    placement: str = "least-load"
    snapshot_entries: int = 10_000  # a snapshot after so many, or if they are large
    segment_bytes: int = SEGMENT_BYTES
    retention: Retention = field(default_factory=Retention)  # of history; by default all is kept
    hot_bytes_max: int = HOT_BODIES_BYTES_MAX  # bodies of waiting jobs beyond it are on disk
