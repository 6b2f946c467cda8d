"""What a run yields: samples with their place, and the median and spread of those that repeat."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

import msgspec


class Sample(msgspec.Struct, frozen=True, array_like=True):
    """One measured value. `figure` names what was counted and ends in its unit."""

    figure: str
    value: float


class Outcome(msgspec.Struct, frozen=True):
    """All that one case (a work with a peer, once) reports. `failure` is empty if it went well."""

    work: str
    peer: str  # name:mode
    version: str = ""
    samples: tuple[Sample, ...] = ()
    skipped: str = ""
    failure: str = ""
    busy_percent: float = 0.0  # what others took of the machine just before
    loop: str = ""  # on which the client ran; empty if it needs none


@dataclass(frozen=True, slots=True)
class Spread:
    """Values of one figure over the runs."""

    values: tuple[float, ...]

    @property
    def median(self) -> float:
        """The middle value."""
        return median(self.values)

    @property
    def low(self) -> float:
        """The smallest."""
        return min(self.values)

    @property
    def high(self) -> float:
        """The largest."""
        return max(self.values)

    @property
    def text(self) -> str:
        """The median, and the spread if there is one."""
        if len(self.values) == 1:
            return number(self.median)
        return f"{number(self.median)} ({number(self.low)}–{number(self.high)})"


Place = tuple[str, str, str]  # work, peer, figure


class Figures:
    """Every sample of a whole run, by work, peer and figure."""

    def __init__(self, outcomes: Iterable[Outcome]) -> None:
        self._values: dict[Place, list[float]] = {}
        self.outcomes = tuple(outcomes)
        for outcome in self.outcomes:
            for sample in outcome.samples:
                place = (outcome.work, outcome.peer, sample.figure)
                self._values.setdefault(place, []).append(sample.value)

    def get(self, work: str, peer: str, figure: str) -> Spread | None:
        """The values of one figure; None if it was not measured."""
        values = self._values.get((work, peer, figure))
        return Spread(tuple(values)) if values else None

    def loop(self, work: str, peer: str) -> str:
        """The loop of a peer's client; empty if it had none."""
        found = (one.loop for one in self.outcomes if (one.work, one.peer) == (work, peer))
        return next((loop for loop in found if loop), "")

    def places(self, work: str) -> list[tuple[str, str]]:
        """Peers and figures of a work, in the order in which they were first measured."""
        return [(peer, figure) for at, peer, figure in self._values if at == work]


def percentile(ordered: list[float], share: float) -> float:
    """The value below which `share` (0 to 1) of an ordered list lies."""
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def number(value: float) -> str:
    """A figure for people: three digits that count, thousands separated."""
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    return f"{value:.3g}"
