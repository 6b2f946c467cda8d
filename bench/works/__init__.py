"""The works that are measured, one file each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from bench.figures import Sample
from bench.loops import UVLOOP
from bench.peers.base import Peer


@dataclass(frozen=True, slots=True)
class Scale:
    """How much of a work is done."""

    is_quick: bool
    runs: int
    noop_s: float  # long enough that sealing, snapshots and forgetting are in it
    sustained_s: float
    steady_s: float  # one case of latency or growth
    cell_s: float  # one cell of a submit table
    kills: int
    stops: int
    execs: int
    file_execs: int
    backlog: int  # jobs that wait, that another client submits, tasks of an array
    loop: str = UVLOOP  # of clients and of peers' Python workers
    window: int = 256  # no-op jobs in flight
    peers_noop_s: float = 10.0  # of those that are far slower: what they do seldom is left out
    peers_kills: int = 5  # theirs take longer each
    peers_stops: int = 2

    @property
    def asked_s(self) -> float:
        """Time that the options add to a case."""
        return self.noop_s + self.sustained_s

    def of(self, peer: str) -> Scale:
        """What is asked of a peer: fewer faults than of rollq, whose worst gap is wanted."""
        if peer.startswith("rollq"):
            return self
        kills, stops = min(self.kills, self.peers_kills), min(self.stops, self.peers_stops)
        if peer.startswith("rabbitmq"):
            stops = 0  # it notices a silent node after its net_ticktime, a minute: not waited for
        noop_s = self.noop_s if peer.startswith("nats") else min(self.noop_s, self.peers_noop_s)
        return replace(self, kills=kills, stops=stops, noop_s=noop_s)


FULL = Scale(
    is_quick=False,
    runs=3,
    noop_s=60.0,
    sustained_s=120.0,
    steady_s=10.0,
    cell_s=0.6,
    kills=20,
    stops=5,
    execs=3_000,
    file_execs=500,
    backlog=1_000_000,
)
QUICK = Scale(
    is_quick=True,
    runs=1,
    noop_s=1.5,
    sustained_s=4.0,
    steady_s=1.0,
    cell_s=0.4,
    kills=2,
    stops=1,
    execs=400,
    file_execs=100,
    backlog=50_000,
)

Measure = Callable[[Peer, Scale], Iterator[Sample]]


@dataclass(frozen=True, slots=True)
class Work:
    """One work: the peers it is done with, in order, and how."""

    name: str
    title: str
    peers: tuple[str, ...]
    measure: Measure
    case_s_max: float  # a case that takes longer, beside what the options ask for, is ended
    columns: tuple[tuple[str, str], ...]  # figure and heading; the JSON has all figures
    repeats: bool = True  # whether `runs` applies; else a case repeats within itself
