"""No-op jobs of 200 bytes: one client, two worker slots, the result of every job back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, cast

from bench.figures import Sample
from bench.peers.base import Peer
from bench.works import Scale, Work

PAYLOAD = b"x" * 200
WINDOW = 256


class RunsJobs(Protocol):
    """A peer that runs jobs."""

    def noop(self, payload: bytes, window: int, seconds: float) -> float:
        """Jobs a second from the client's submit to the client's result."""


def measure(peer: Peer, scale: Scale) -> Iterator[Sample]:
    """One figure."""
    rate = cast(RunsJobs, peer).noop(PAYLOAD, WINDOW, scale.noop_s)
    yield Sample("jobs_per_s", rate)


WORK = Work(
    "noop",
    "No-op jobs, 200 B, 2 slots, results back",
    (
        "rollq:r1",
        "nats:core",
        "nats:default",
        "nats:durable",
        "celery:durable",
        "rq:durable",
        "dramatiq:durable",
        "dask:default",
        "ray:default",
    ),
    measure,
    case_s_max=90,
    columns=(("jobs_per_s", "jobs/s"),),
)
