"""Durable submits to one server: 200 B with 1, 64 and 1024 outstanding."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, cast, runtime_checkable

from bench.figures import Sample
from bench.peers.base import Peer
from bench.window import Rate
from bench.works import Scale, Work

PAYLOAD = b"x" * 200
WINDOWS = (1, 64, 1024)
COLUMNS = (
    ("submit1_per_s", "1 outst. /s"),
    ("submit1_p50_ms", "p50 ms"),
    ("submit1_p99_ms", "p99 ms"),
    ("submit64_per_s", "64 outst. /s"),
    ("submit64_p99_ms", "p99 ms at 64"),
    ("submit1024_per_s", "1024 outst. /s"),
    ("submit_many_per_s", "in bulk /s"),
    ("staged_per_s", "staged /s"),
)


class TakesSubmits(Protocol):
    """A peer that acknowledges submits."""

    def submit_rates(
        self, payload: bytes, windows: tuple[int, ...], seconds: float
    ) -> Iterator[tuple[int, Rate]]:
        """The rate at each window that its client library can keep."""


@runtime_checkable
class TakesBulk(Protocol):
    """A peer with a call that submits many jobs at once."""

    def submit_many(self, payload: bytes, count: int) -> float:
        """Jobs a second accepted."""


@runtime_checkable
class TakesStaged(Protocol):
    """A peer to which jobs can be sent ahead, and which accepts all of them at once."""

    def stage_and_commit(self, payload: bytes, count: int) -> float:
        """Jobs a second accepted."""


def measure(peer: Peer, scale: Scale) -> Iterator[Sample]:
    """Rate and latency by window; bulk where there is a call for it."""
    taker = cast(TakesSubmits, peer)
    for window, rate in taker.submit_rates(PAYLOAD, WINDOWS, scale.cell_s):
        yield from rate.samples(window)
    if isinstance(peer, TakesBulk):
        yield Sample("submit_many_per_s", peer.submit_many(PAYLOAD, int(200_000 * scale.cell_s)))
    if isinstance(peer, TakesStaged):
        yield Sample("staged_per_s", peer.stage_and_commit(PAYLOAD, int(200_000 * scale.cell_s)))


WORK = Work(
    "submit",
    "Durable submits, one server, 200 B",
    (
        "local:append",
        "local:overwrite",
        "rollq:r1",
        "rollq-raw:r1",
        "nats:default",
        "nats:durable",
        "nats-raw:default",
        "nats-raw:durable",
        "redis-list:durable",
        "rabbitmq-raw:durable",
        "etcd:r1",
        "celery:durable",
        "rq:durable",
        "dramatiq:durable",
    ),
    measure,
    case_s_max=120,
    columns=COLUMNS,
)
