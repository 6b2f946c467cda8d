"""The start options of a member. Fixed while it runs; what may change is in the grid."""

from __future__ import annotations

from dataclasses import dataclass, field

from rollq.base.limits import (
    BLOB_AGE_MS,
    BLOB_EVICT_EVERY_MS,
    BLOB_LEASE_MS,
    BLOB_SCRUB_BYTES,
    BLOB_SCRUB_EVERY_MS,
    BLOB_SCRUB_ROUND_MS,
    HOT_BODIES_BYTES_MAX,
    LARGE_BODY_BYTES_MIN,
    SEGMENT_BYTES,
)
from rollq.gossip.setup import FederationSetup
from rollq.history.retention import Retention
from rollq.raft.node import RaftOptions
from rollq.security.credentials import NONE, Credentials
from rollq.security.legacy_accounts import NO_LEGACY_ACCOUNTS, LegacyAccounts
from rollq.security.mode import Mode

COPIES_NICENESS = 19  # use only idle CPU time


@dataclass(slots=True, frozen=True)
class BlobsSetup:
    """Where blobs are kept, and when unreferenced ones are removed."""

    url: str = ""  # of a store shared by all members; empty: each member has its own
    bytes_max: int = 0  # of the own store; 0: no bound
    age_ms: int = BLOB_AGE_MS  # since the last use; 0: never removed for age
    lease_ms: int = BLOB_LEASE_MS
    evict_every_ms: int = BLOB_EVICT_EVERY_MS
    scrub_every_ms: int = BLOB_SCRUB_EVERY_MS
    scrub_bytes: int = BLOB_SCRUB_BYTES
    scrub_round_ms: int = BLOB_SCRUB_ROUND_MS


@dataclass(slots=True, frozen=True)
class MemberSetup:
    """Address, peers and pace of one member."""

    address: str  # as peers, workers and clients reach it
    peers: tuple[str, ...] = ()  # the other initial members
    group: str = "default"
    tick_ms: int = 25
    raft: RaftOptions = field(default_factory=lambda: RaftOptions(quorum_ticks=20))
    placement: str = "least-load"
    snapshot_entries: int = 10_000  # a snapshot after so many entries, or if they are large
    segment_bytes: int = SEGMENT_BYTES
    retention: Retention = field(default_factory=Retention)  # of history; default: unbounded
    hot_bytes_max: int = HOT_BODIES_BYTES_MAX  # bodies of waiting jobs beyond it go to disk
    large_bytes_min: int = LARGE_BODY_BYTES_MIN  # larger bodies stay in the log
    # Of the process that copies sealed history to lines and Arrow files; None: it is not run.
    copies_niceness: int | None = COPIES_NICENESS
    columns: bool = True  # copies as Arrow, if pyarrow is installed
    blobs: BlobsSetup = field(default_factory=BlobsSetup)
    credentials: Credentials = NONE
    tls: Mode = Mode.OFF
    auth: Mode = Mode.OFF  # whether links must log in
    legacy: LegacyAccounts = NO_LEGACY_ACCOUNTS  # accounts of peers that cannot log in, by address
    # Reachable by others with `tls` or `auth` below `require`, as the operator has chosen.
    is_unprotected: bool = False
    federation: FederationSetup | None = None  # None: it does not gossip
