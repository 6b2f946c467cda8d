"""Metrics in the text format of Prometheus."""

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
    """The text of these families, of type PLAIN."""
    return bytes(generate_latest(registry_of(families)))


def negotiated(families: Iterable[Family], accept: str) -> tuple[bytes, str]:
    """The text in the format that an Accept header asks for, and its content type."""
    encode, content_type = choose_encoder(accept)
    return bytes(encode(registry_of(families))), str(content_type)


def registry_of(families: Iterable[Family]) -> CollectorRegistry:
    """A registry of prometheus_client for these families."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_GivenFamilies(families))
    return registry


class _GivenFamilies(Collector):
    """A collector of given families."""

    def __init__(self, families: Iterable[Family]) -> None:
        self._families = families

    def collect(self) -> Iterable[Metric]:
        """The families as metrics of prometheus_client."""
        return map(_metric_of, self._families)


def _metric_of(family: Family) -> Metric:
    row = CATALOG.get(family.name)
    meaning = row.meaning if row is not None else ""  # a metric of a newer version
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
    """Cumulative buckets."""
    total = 0
    buckets = []
    for bound, count in zip((*map(str, family.bounds), "+Inf"), sample.counts, strict=True):
        total += count
        buckets.append((bound, float(total)))
    return buckets
