"""Durable submits of 64 KiB to one server or three, which have stored nothing before."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, cast

from bench.figures import Sample
from bench.peers.base import Peer
from bench.works import Scale, Work
from bench.works.submit import TakesSubmits

PAYLOAD: Final = b"x" * 65_536
WINDOWS: Final = (1, 64)  # 1024 would be 64 MiB on the way: the disk's rate, whoever it is


def measure(peer: Peer, scale: Scale) -> Iterator[Sample]:
    """Rate and latency by window."""
    taker = cast(TakesSubmits, peer)
    for window, rate in taker.submit_rates(PAYLOAD, WINDOWS, scale.cell_s):
        yield from rate.samples(window)


WORK = Work(
    "large",
    "Durable submits, 64 KiB, one server and three, fresh",
    (
        "local:append",
        "local:overwrite",
        "rollq:r1",
        "rollq-raw:r1",
        "nats:durable",
        "nats-raw:durable",
        "redis-list:durable",
        "rabbitmq-raw:durable",
        "etcd:r1",
        "rollq:r3",
        "rollq-raw:r3",
        "nats:r3-durable",
        "nats-raw:r3-durable",
        "etcd:r3",
        "rabbitmq-raw:r3",
    ),
    measure,
    case_s_max=120,
    columns=(
        ("submit1_per_s", "1 outst. /s"),
        ("submit1_p50_ms", "p50 ms"),
        ("submit1_p99_ms", "p99 ms"),
        ("submit64_per_s", "64 outst. /s"),
        ("submit64_p99_ms", "p99 ms at 64"),
    ),
)
