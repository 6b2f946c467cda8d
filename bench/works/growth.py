"""No-op jobs with ten workers and with a hundred clients beside one of each, and as one array."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final, Protocol, cast

from bench.figures import Sample
from bench.peers.base import Peer
from bench.window import Rate
from bench.works import Scale, Work
from bench.works.noop import PAYLOAD, WARM_UP_S, WIDE_WINDOW, RunsJobs

CLIENTS: Final = 100
WORKERS: Final = 10


class Grows(RunsJobs, Protocol):
    """A peer with workers and clients to be added."""

    def serve_noop(self, workers: int) -> None:
        """Have so many workers."""

    def noop_of_many(self, payload: bytes, clients: int, window: int, seconds: float) -> Rate:
        """Jobs of several clients, which share the window."""

    def array(self, payload: bytes, tasks: int) -> float:
        """Tasks a second of one array."""


def measure(peer: Peer, scale: Scale) -> Iterator[Sample]:
    """One and one, a hundred clients, an array, then ten workers, which stay."""
    grid = cast(Grows, peer)
    grid.noop(PAYLOAD, WIDE_WINDOW, WARM_UP_S)
    seconds = scale.steady_s
    yield Sample("one_jobs_per_s", grid.noop(PAYLOAD, WIDE_WINDOW, seconds).per_s)
    many = grid.noop_of_many(PAYLOAD, CLIENTS, WIDE_WINDOW, seconds)
    yield Sample("clients100_jobs_per_s", many.per_s)
    yield Sample("jobs", scale.backlog)
    yield Sample("array_per_s", grid.array(PAYLOAD, scale.backlog))
    grid.serve_noop(WORKERS)
    yield Sample("workers10_jobs_per_s", grid.noop(PAYLOAD, WIDE_WINDOW, seconds).per_s)


WORK = Work(
    "growth",
    "No-op jobs, 200 B, 1024 in flight: one worker and client, more of them, one array",
    ("rollq:r1",),
    measure,
    case_s_max=400,
    columns=(
        ("one_jobs_per_s", "one of each: jobs/s"),
        ("workers10_jobs_per_s", "10 workers: jobs/s"),
        ("clients100_jobs_per_s", "100 clients: jobs/s"),
        ("jobs", "tasks of the array"),
        ("array_per_s", "tasks/s"),
    ),
)
