"""Numbers of a running process: plain integers that grow, and histograms with fixed buckets.

They are updated where events happen, and no decision depends on them. Counting allocates nothing
and is O(1). Exporters read families: the numbers at one moment under their names, as plain data.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

import msgspec

COUNTER: Final = "counter"  # only grows while the process lives
GAUGE: Final = "gauge"
HISTOGRAM: Final = "histogram"

# Microseconds: steps of a loop, syncs, round trips.
SHORT_US: Final = (50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000)
STEP_US: Final = (*SHORT_US, 250_000, 1_000_000)
# Milliseconds: what jobs wait and run.
JOB_MS: Final = (1, 5, 10, 50, 100, 500, 1_000, 5_000, 10_000, 60_000, 600_000, 3_600_000)
# Milliseconds: what is done now and then, a snapshot for one.
RARE_MS: Final = (10, 50, 100, 500, 1_000, 5_000, 10_000, 60_000)
US_PER_S: Final = 1_000_000
MS_PER_S: Final = 1_000


class Histogram:
    """How often a value fell in each of a few fixed ranges.

    Attributes:
        bounds: The highest value of each range but the last, ascending; the last has none.
        counts: How many values fell in each range; one more than there are bounds.
        total: All values added up.
    """

    __slots__ = ("bounds", "counts", "total")

    def __init__(self, bounds: Sequence[int]) -> None:
        self.bounds = tuple(bounds)
        self.counts = [0] * (len(self.bounds) + 1)
        self.total = 0

    def add(self, value: int, times: int = 1) -> None:
        """Count a value, as often as it was seen."""
        self.counts[bisect_left(self.bounds, value)] += times
        self.total += value * times

    def add_all(self, values: Sequence[int]) -> None:
        """Count several values; those of one range, which most runs of jobs are, at once."""
        low = bisect_left(self.bounds, min(values))
        if low == bisect_left(self.bounds, max(values)):
            self.counts[low] += len(values)
            self.total += sum(values)
        else:
            for value in values:
                self.add(value)


class Sample(msgspec.Struct, frozen=True, array_like=True):
    """One number of a family.

    Attributes:
        labels: The values of the family's labels.
        value: The number; of a histogram all its values added up.
        counts: Of a histogram: how many values fell in each range.
    """

    labels: tuple[str, ...]
    value: float
    counts: tuple[int, ...] = ()


class Family(msgspec.Struct, frozen=True, array_like=True):
    """Numbers of one name and meaning.

    Attributes:
        name: In base units, which it names last: seconds, bytes; a counter ends with `_total`.
        kind: COUNTER, GAUGE or HISTOGRAM.
        labels: The names of the labels.
        samples: At most one for each set of label values.
        bounds: Of a histogram.
    """

    name: str
    kind: str
    labels: tuple[str, ...]
    samples: list[Sample]
    bounds: tuple[float, ...] = ()


def counter(name: str, value: float) -> Family:
    """A counter without labels."""
    return Family(name, COUNTER, (), [Sample((), value)])


def gauge(name: str, value: float) -> Family:
    """A gauge without labels."""
    return Family(name, GAUGE, (), [Sample((), value)])


def counters_by(name: str, label: str, values: Mapping[str, float]) -> Family:
    """A counter for each value of a label."""
    return Family(name, COUNTER, (label,), [Sample((key,), n) for key, n in values.items()])


def gauges_by(name: str, label: str, values: Mapping[str, float]) -> Family:
    """A gauge for each value of a label."""
    return Family(name, GAUGE, (label,), [Sample((key,), n) for key, n in values.items()])


def histogram(name: str, values: Histogram, per_unit: int) -> Family:
    """A histogram without labels. `per_unit`: how many of what was counted are one base unit."""
    return histograms(name, (), [((), values)], per_unit)


def histograms_by(name: str, label: str, values: Mapping[str, Histogram], per_unit: int) -> Family:
    """A histogram for each value of a label. All have the same bounds."""
    return histograms(name, (label,), [((key,), one) for key, one in values.items()], per_unit)


def histograms(
    name: str,
    labels: tuple[str, ...],
    rows: Iterable[tuple[tuple[str, ...], Histogram]],
    per_unit: int,
) -> Family:
    """Histograms by the values of labels. All have the same bounds."""
    samples = []
    bounds: tuple[float, ...] = ()
    for values, counted in rows:
        bounds = tuple(bound / per_unit for bound in counted.bounds)
        samples.append(Sample(values, counted.total / per_unit, tuple(counted.counts)))
    return Family(name, HISTOGRAM, labels, samples, bounds)
