"""The works that are measured, one file each."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from bench.figures import Sample
from bench.peers.base import Peer


@dataclass(frozen=True, slots=True)
class Scale:
    """How much of a work is done."""

    is_quick: bool
    runs: int
    noop_s: float
    cell_s: float  # one cell of a submit table
    kills: int
    stops: int
    execs: int
    file_execs: int
    backlog: int
    window: int = 256  # no-op jobs in flight
    peers_kills: int = 5  # theirs take longer each
    peers_stops: int = 2

    def of(self, peer: str) -> Scale:
        """What is asked of a peer: fewer faults than of rollq, whose worst gap is wanted."""
        if peer.startswith("rollq"):
            return self
        kills, stops = min(self.kills, self.peers_kills), min(self.stops, self.peers_stops)
        if peer.startswith("rabbitmq"):
            stops = 0  # it notices a silent node after its net_ticktime, a minute: not waited for
        return replace(self, kills=kills, stops=stops)


FULL = Scale(False, 3, 3.0, 0.6, 20, 5, 3_000, 500, 1_000_000)
QUICK = Scale(True, 1, 1.5, 0.4, 2, 1, 400, 100, 50_000)

Measure = Callable[[Peer, Scale], Iterator[Sample]]


@dataclass(frozen=True, slots=True)
class Work:
    """One work: the peers it is done with, in order, and how."""

    name: str
    title: str
    peers: tuple[str, ...]
    measure: Measure
    case_s_max: float  # a case that takes longer is ended
    columns: tuple[tuple[str, str], ...]  # figure and heading; the JSON has all figures
    repeats: bool = True  # whether `runs` applies; else a case repeats within itself
