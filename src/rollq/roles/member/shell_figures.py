"""Metrics of the process around the driver: links, blobs, gossip, the process itself."""

from __future__ import annotations

from collections import Counter

from rollq.base.counters import Family, counters_by, gauge, gauges_by
from rollq.base.errors import ErrorCode
from rollq.gossip.node import GossipNode
from rollq.net.counted import LINKS
from rollq.net.listener import Listener
from rollq.roles.door import Door
from rollq.roles.member.blobs.member import MemberBlobs
from rollq.roles.process import process_families


def shell_families(
    door: Door, listener: Listener, blobs: MemberBlobs, gossip: GossipNode | None
) -> list[Family]:
    """The present values."""
    return [
        gauges_by("rollq_links", "role", door.count_by_role()),
        counters_by("rollq_links_refused_total", "reason", _refused(door, listener)),
        *LINKS.families(),
        *blobs.server.moved.families(),
        gauge("rollq_blob_stored_bytes", blobs.bytes_stored),
        gauge("rollq_blobs_missing", blobs.missing_count),
        *(() if gossip is None else gossip.families()),
        *process_families(),
    ]


def _refused(door: Door, listener: Listener) -> dict[str, float]:
    """Refused links, by error code or by the limit that was reached."""
    by_code: Counter[int] = door.refused
    return {
        **{ErrorCode(code).name: count for code, count in by_code.items()},
        "too_many": listener.refused_count,
        "too_many_without_hello": listener.half_open_refused_count,
    }
