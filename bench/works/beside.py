"""Single submits while another client submits many jobs, or stages and commits them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol, cast

from bench.figures import Sample
from bench.peers.base import Peer
from bench.window import Rate
from bench.works import Scale, Work
from bench.works.latency import samples
from bench.works.noop import PAYLOAD
from bench.works.submit import TakesSubmits


class TakesBeside(TakesSubmits, Protocol):
    """A peer that another client can load."""

    def submits_beside(self, payload: bytes, how: str, count: int) -> Rate:
        """One submit after the other while the other client's work lasts."""


def measure(peer: Peer, scale: Scale) -> Iterator[Sample]:
    """Alone, then beside each. Nobody takes the jobs, so they wait."""
    taker = cast(TakesBeside, peer)
    ((_, alone),) = taker.submit_rates(PAYLOAD, (1,), scale.steady_s)
    yield Sample("jobs", scale.backlog)
    yield from samples(alone, "alone")
    yield from samples(taker.submits_beside(PAYLOAD, "many", scale.backlog), "many")
    yield from samples(taker.submits_beside(PAYLOAD, "commit", scale.backlog), "commit")


WORK = Work(
    "beside",
    "Single submits, 200 B, while another client submits or commits many",
    ("rollq:r1",),
    measure,
    case_s_max=400,
    columns=(
        ("jobs", "jobs of the other"),
        ("alone_p50_ms", "alone p50 ms"),
        ("alone_p99_ms", "p99 ms"),
        ("many_p50_ms", "beside submit_many p50 ms"),
        ("many_p99_ms", "p99 ms"),
        ("commit_p50_ms", "beside a commit p50 ms"),
        ("commit_p99_ms", "p99 ms"),
    ),
)
