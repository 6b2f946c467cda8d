"""Families of numbers as the text that Prometheus reads."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.exposition import choose_encoder
from prometheus_client.metrics_core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from rollq.base.counters import COUNTER, HISTOGRAM, Family, Sample
from rollq.observe.catalog import CATALOG

PLAIN: Final = "text/plain; version=0.0.4; charset=utf-8"


def exposition(families: Iterable[Family]) -> bytes:
    """The text of these families: PLAIN."""
    return bytes(generate_latest(registry_of(families)))


def negotiated(families: Iterable[Family], accept: str) -> tuple[bytes, str]:
    """The text in the form that the header Accept of a request asks for, and its content type."""
    encode, content_type = choose_encoder(accept)
    return bytes(encode(registry_of(families))), str(content_type)


def registry_of(families: Iterable[Family]) -> CollectorRegistry:
    """What the library makes text of."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Told(families))
    return registry


class _Told(Collector):
    """Families that somebody told us."""

    def __init__(self, families: Iterable[Family]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        """As the library has them."""
        return map(_metric_of, self._families)


def _metric_of(family: Family) -> Metric:
    row = CATALOG.get(family.name)
    meaning = row.meaning if row is not None else ""  # of a newer member
    if family.kind == COUNTER:
        counter = CounterMetricFamily(family.name, meaning, labels=family.labels)
        for sample in family.samples:
            counter.add_metric(sample.labels, sample.value)
        return counter
    if family.kind == HISTOGRAM:
        histogram = HistogramMetricFamily(family.name, meaning, labels=family.labels)
        for sample in family.samples:
            histogram.add_metric(sample.labels, _buckets(family, sample), sample.value)
        return histogram
    gauge = GaugeMetricFamily(family.name, meaning, labels=family.labels)
    for sample in family.samples:
        gauge.add_metric(sample.labels, sample.value)
    return gauge


def _buckets(family: Family, sample: Sample) -> list[tuple[str, float]]:
    """How many values are at most each bound."""
    total = 0
    buckets = []
    for bound, count in zip((*map(str, family.bounds), "+Inf"), sample.counts, strict=True):
        total += count
        buckets.append((bound, float(total)))
    return buckets
