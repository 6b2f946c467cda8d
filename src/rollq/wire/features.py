"""The features that peers offer in their hello, and that a Welcome agrees on."""

from __future__ import annotations

from typing import Final

from rollq.wire.compression import METHODS, ZSTD

COMPACT: Final = "compact"  # the legacy types too have msgpack payloads
ACCEPTED: Final = "accepted"  # Accepted and Error are sent
LEASE: Final = "lease"  # the worker renews leases and gets stops and confirmed acks
PATTERNS: Final = "patterns"  # several patterns in a worker's hello
# A bit of a frame's type marks a header area before the payload. The name `header` is taken by an
# older form, a header before every payload.
HEADER: Final = "header2"
BATCH: Final = "batch"  # many messages may ride in one frame; needs `compact`
CACHE: Final = "cache"  # a CachePut to the worker may name blobs in place of files
OUTPUT: Final = "output"  # the worker shows what jobs write while they run
OWN: Final = "own"  # results go to the session that submitted, if several share a client id
ALIVE: Final = "alive"  # Ping is answered with Pong, so that silence is detected
PROGRAMS: Final = "programs"  # the worker announces what it can run, and which nacks are no attempt
TASKS: Final = "tasks"  # tasks of an array may be numbered so that none has the array's own id
RETURNS: Final = "returns"  # a Goodbye may say that the worker lives and comes back
HOLDINGS: Final = "holdings"  # the attempts a worker holds follow its hello, before Welcome
RUNS: Final = "runs"  # jobs move in runs, many in one message; needs `compact`
VIEWS: Final = "views"  # on the link of a reader: Query is answered with Answer
BACKUP: Final = "backup"  # on the link of a reader: BackupAsk is answered
DRAIN: Final = "drain"  # the worker is told of drains, and gives back waiting jobs
SUBJECTS: Final = "subjects"  # publish and subscribe; needs `compact`
# A method of compression is a feature too; it needs `header2`, which names it.
FEATURES: Final = (
    COMPACT,
    ACCEPTED,
    LEASE,
    PATTERNS,
    HEADER,
    BATCH,
    CACHE,
    OUTPUT,
    OWN,
    ALIVE,
    PROGRAMS,
    TASKS,
    RETURNS,
    HOLDINGS,
    RUNS,
    VIEWS,
    BACKUP,
    DRAIN,
    SUBJECTS,
    *METHODS,
)
NEED_COMPACT: Final = frozenset({RUNS, SUBJECTS})

PACKED: Final = (HEADER, ZSTD)  # offered by our own programs


def agree(offered: tuple[str, ...]) -> tuple[str, ...]:
    """The features that both sides speak, for the Welcome to a peer that offered some."""
    known = tuple(feature for feature in FEATURES if feature in offered)
    return known if COMPACT in known else tuple(one for one in known if one not in NEED_COMPACT)
