"""No-op jobs of 200 bytes: one client, two worker slots, the result of every job back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, cast, runtime_checkable

from bench.figures import Sample
from bench.peers.base import Peer
from bench.works import Scale, Work

PAYLOAD = b"x" * 200


class RunsJobs(Protocol):
    """A peer that runs jobs."""

    def noop(self, payload: bytes, window: int, seconds: float) -> float:
        """Jobs a second from the client's submit to the client's result."""


@runtime_checkable
class HasMap(Protocol):
    """A peer whose client keeps a window of its own unless it is told another."""

    map_window: int


def measure(peer: Peer, scale: Scale) -> Iterator[Sample]:
    """The same window for everybody, then the one that the client has by itself."""
    runner = cast(RunsJobs, peer)
    yield Sample("window", scale.window)
    yield Sample("jobs_per_s", runner.noop(PAYLOAD, scale.window, scale.noop_s))
    if isinstance(peer, HasMap):
        yield Sample("map_window", peer.map_window)
        yield Sample("map_jobs_per_s", runner.noop(PAYLOAD, peer.map_window, scale.noop_s))


WORK = Work(
    "noop",
    "No-op jobs, 200 B, 2 slots, results back",
    (
        "rollq:r1",
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
    columns=(
        ("jobs_per_s", "jobs/s"),
        ("window", "in flight"),
        ("map_jobs_per_s", "with the client's own window: jobs/s"),
        ("map_window", "in flight"),
    ),
)
