"""No-op jobs of 200 bytes: one client, two worker slots, the result of every job back.

A case of rollq and of NATS lasts a minute, so that what they do seldom is in it: sealed history,
snapshots, forgotten results; compacted streams.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final, Protocol, cast

from bench.cpu import Meter
from bench.figures import Sample
from bench.peers.base import Peer
from bench.window import Rate
from bench.works import Scale, Work

PAYLOAD: Final = b"x" * 200
WARM_UP_S: Final = 0.5
WIDE_WINDOW: Final = 1_024  # what `client.map` has by itself
COLUMNS: Final = (
    ("jobs_per_s", "jobs/s"),
    ("window", "in flight"),
    ("seconds", "s"),
    ("p99_ms", "p99 ms"),
    ("cpu_all_us", "CPU µs a job"),
    ("cpu_server_us", "server"),
    ("cpu_upkeep_us", "its children"),
    ("cpu_worker_us", "workers"),
    ("cpu_client_us", "client"),
)


class RunsJobs(Protocol):
    """A peer that runs jobs."""

    def noop(self, payload: bytes, window: int, seconds: float) -> Rate:
        """Jobs from the client's submit to the client's result."""


def measure(peer: Peer, scale: Scale) -> Iterator[Sample]:
    """The same window for everybody."""
    runner = cast(RunsJobs, peer)
    runner.noop(PAYLOAD, scale.window, WARM_UP_S)
    meter = Meter(peer)
    before = meter.read()
    rate = runner.noop(PAYLOAD, scale.window, scale.noop_s)
    used = meter.read().since(before)
    yield Sample("window", scale.window)
    yield Sample("seconds", rate.seconds)
    yield Sample("jobs_per_s", rate.per_s)
    if rate.latencies_s:
        yield Sample("p50_ms", rate.ms(0.5))
        yield Sample("p99_ms", rate.ms(0.99))
    yield from used.samples(rate.count, meter.has_roles)


def measure_wide(peer: Peer, scale: Scale) -> Iterator[Sample]:
    """The same with four times as many in flight."""
    return measure(peer, replace(scale, window=WIDE_WINDOW))


WORK = Work(
    "noop",
    "No-op jobs, 200 B, 2 slots, results back",
    (
        "rollq:r1",
        "rollq:r3",
        "nats:core",
        "nats:default",
        "nats:durable",
        "rabbitmq:durable",
        "celery:durable",
        "rq:durable",
        "dramatiq:durable",
        "dask:default",
        "ray:default",
    ),
    measure,
    case_s_max=90,
    columns=COLUMNS,
)
WIDE_WORK = Work(
    "noop1024",
    "The same, 1024 in flight",
    ("rollq:r1", "rollq:r3", "nats:core", "nats:default", "nats:durable"),
    measure_wide,
    case_s_max=90,
    columns=COLUMNS,
)
