"""A million waiting jobs of 200 bytes: memory, disk, restart to the first delivery, stalls.

The time from starting a peer to its first result is taken here too, also of those that hold none.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Protocol, runtime_checkable

from bench.figures import Sample
from bench.peers.base import Peer
from bench.works import Scale, Work

PAYLOAD = b"x" * 200
SETTLE_S = 2.0


@runtime_checkable
class HoldsBacklog(Protocol):
    """A peer that keeps jobs until somebody takes them."""

    def fill(self, payload: bytes, count: int) -> float:
        """Let jobs wait; seconds until all are stored."""

    def rss_mb(self) -> float:
        """Memory of the server."""

    def disk_bytes(self) -> int:
        """Disk that it takes."""

    def restart(self, with_kill: bool) -> float:
        """End the server and start it; seconds from its start to the first delivery."""

    def longest_stall_ms(self, payload: bytes) -> float | None:
        """The slowest answer while it tidies up; None if it does no such thing."""


@runtime_checkable
class StartsFresh(Protocol):
    """A peer whose start to first result is measured."""

    def first_result_s(self, payload: bytes) -> float:
        """Seconds from starting an empty server, a worker and a client to the first result."""


def measure(peer: Peer, scale: Scale) -> Iterator[Sample]:
    """What the peer can show of it."""
    if isinstance(peer, HoldsBacklog):
        yield from measure_backlog(peer, scale.backlog)
    if isinstance(peer, StartsFresh):
        for _ in range(scale.runs):
            yield Sample("first_result_s", peer.first_result_s(PAYLOAD))


def measure_backlog(holder: HoldsBacklog, count: int) -> Iterator[Sample]:
    """Fill, look, restart twice."""
    empty_mb, empty_bytes = holder.rss_mb(), holder.disk_bytes()
    yield Sample("jobs", count)
    yield Sample("fill_s", holder.fill(PAYLOAD, count))
    time.sleep(SETTLE_S)
    full_mb = holder.rss_mb()
    yield Sample("rss_empty_mb", empty_mb)
    yield Sample("rss_full_mb", full_mb)
    yield Sample("rss_bytes_per_job", (full_mb - empty_mb) * 1e6 / count)
    yield Sample("disk_bytes_per_job", (holder.disk_bytes() - empty_bytes) / count)
    yield Sample("restart_term_s", holder.restart(with_kill=False))
    yield Sample("restart_kill_s", holder.restart(with_kill=True))
    yield Sample("rss_restarted_mb", holder.rss_mb())
    stall_ms = holder.longest_stall_ms(PAYLOAD)
    if stall_ms is not None:
        yield Sample("stall_ms", stall_ms)


WORK = Work(
    "backlog",
    "Many waiting jobs, 200 B",
    (
        "rollq:r1",
        "nats-raw:default",
        "redis-list:durable",
        "celery:durable",
        "rabbitmq:durable",
        "rq:durable",
        "dramatiq:durable",
        "dask:default",
        "ray:default",
    ),
    measure,
    case_s_max=600,
    columns=(
        ("jobs", "jobs"),
        ("fill_s", "fill s"),
        ("rss_empty_mb", "RSS empty MB"),
        ("rss_full_mb", "full MB"),
        ("rss_bytes_per_job", "RSS B/job"),
        ("disk_bytes_per_job", "disk B/job"),
        ("restart_term_s", "restart after TERM s"),
        ("restart_kill_s", "after kill -9 s"),
        ("stall_ms", "longest stall ms"),
        ("first_result_s", "start to first result s"),
    ),
    repeats=False,
)
