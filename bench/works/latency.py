"""One no-op job at a time, from submit to result: alone, and while others keep the grid half busy.

`local:overwrite` is one bare fdatasync of 4 KiB, the unit in which a durable answer is counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, cast, runtime_checkable

from bench.figures import Sample
from bench.peers.base import Peer
from bench.window import Rate
from bench.works import Scale, Work
from bench.works.noop import PAYLOAD, WARM_UP_S, WIDE_WINDOW, RunsJobs
from bench.works.submit import TakesSubmits


@runtime_checkable
class RunsLoneJobs(RunsJobs, Protocol):
    """A peer whose jobs can be timed one by one beside others."""

    def lone(self, payload: bytes, seconds: float) -> Rate:
        """One job after the other."""

    def lone_beside_load(self, payload: bytes, per_s: float, seconds: float) -> Rate:
        """The same while another client's jobs come at a steady rate."""


def measure(peer: Peer, scale: Scale) -> Iterator[Sample]:
    """Alone, then beside half of the load that it can bear. Of the disk: one write."""
    if not isinstance(peer, RunsLoneJobs):
        ((_, rate),) = cast(TakesSubmits, peer).submit_rates(PAYLOAD, (1,), scale.steady_s)
        yield from samples(rate, "alone")
        return
    peer.lone(PAYLOAD, WARM_UP_S)
    yield from samples(peer.lone(PAYLOAD, scale.steady_s), "alone")
    full_per_s = peer.noop(PAYLOAD, WIDE_WINDOW, scale.steady_s).per_s
    yield Sample("half_jobs_per_s", full_per_s / 2)
    rate = peer.lone_beside_load(PAYLOAD, full_per_s / 2, scale.steady_s)
    yield from samples(rate, "half")


def samples(rate: Rate, name: str) -> Iterator[Sample]:
    """The middle and the slow end."""
    yield Sample(f"{name}_p50_ms", rate.ms(0.5))
    yield Sample(f"{name}_p99_ms", rate.ms(0.99))


WORK = Work(
    "latency",
    "A lone no-op job, submit to result",
    ("local:overwrite", "rollq:r1"),
    measure,
    case_s_max=180,
    columns=(
        ("alone_p50_ms", "alone p50 ms"),
        ("alone_p99_ms", "p99 ms"),
        ("half_jobs_per_s", "beside jobs/s"),
        ("half_p50_ms", "p50 ms"),
        ("half_p99_ms", "p99 ms"),
    ),
)
