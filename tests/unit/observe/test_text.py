"""The text of metrics, as the official parsers read it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.openmetrics import parser as open_parser
from prometheus_client.parser import text_string_to_metric_families

from rollq.base.counters import (
    COUNTER,
    GAUGE,
    HISTOGRAM,
    MS_PER_S,
    Family,
    Histogram,
    Sample,
    counter,
    gauges_by,
    histograms_by,
)
from rollq.observe.catalog import CATALOG, as_markdown
from rollq.observe.text import PLAIN, exposition, negotiated
from rollq.roles.member.metrics.families import families
from tests.unit.roles.members import three_members

OPEN = "application/openmetrics-text; version=1.0.0"
PAGE = Path(__file__).parents[3] / "docs/metrics.md"
ODD = 'a"b\\c\nd é'

# It has no types.
parse_open: Callable[[str], Iterable[Any]] = open_parser.text_string_to_metric_families


def numbers(parsed: Iterable[Any]) -> dict[Any, float]:
    """By name and labels."""
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in parsed
        for sample in family.samples
    }


def waits() -> Histogram:
    made = Histogram((1_000, 2_000))
    made.add(500, 3)
    made.add(9_000)
    return made


TOLD = [
    counter("rollq_jobs_accepted_total", 2**53),
    gauges_by("rollq_queue_oldest_seconds", "queue", {ODD: 1.5, "other": 0}),
    histograms_by("rollq_turn_step_seconds", "step", {"apply": waits()}, MS_PER_S),
]
WANTED = {
    ("rollq_jobs_accepted_total",): 2**53,
    ("rollq_queue_oldest_seconds", ("queue", ODD)): 1.5,
    ("rollq_queue_oldest_seconds", ("queue", "other")): 0,
    ("rollq_turn_step_seconds_bucket", ("le", "1.0"), ("step", "apply")): 3,
    ("rollq_turn_step_seconds_bucket", ("le", "2.0"), ("step", "apply")): 3,
    ("rollq_turn_step_seconds_bucket", ("le", "+Inf"), ("step", "apply")): 4,
    ("rollq_turn_step_seconds_count", ("step", "apply")): 4,
    ("rollq_turn_step_seconds_sum", ("step", "apply")): 10.5,
}


def test_the_official_parser_reads_every_number() -> None:
    text = exposition(TOLD).decode()
    assert numbers(text_string_to_metric_families(text)) == WANTED


def test_the_parser_of_openmetrics_does_too() -> None:
    text, content_type = negotiated(TOLD, OPEN)
    assert content_type.startswith("application/openmetrics-text")
    assert numbers(parse_open(text.decode())) == WANTED


def test_who_asks_for_nothing_gets_plain_text() -> None:
    text, content_type = negotiated(TOLD, "")
    assert (text, content_type.split(";")[0]) == (exposition(TOLD), PLAIN.split(";")[0])


def test_a_family_of_a_newer_member_has_a_text_too() -> None:
    told = [Family("rollq_of_tomorrow", GAUGE, ("a",), [Sample(("b",), 1)])]
    parsed = numbers(text_string_to_metric_families(exposition(told).decode()))
    assert parsed == {("rollq_of_tomorrow", ("a", "b")): 1}


def test_all_that_a_driver_tells_is_read_back() -> None:
    group = three_members()
    for driver in group.members.values():
        told = families(driver)
        assert len(list(text_string_to_metric_families(exposition(told).decode()))) == len(told)
        assert len(list(parse_open(negotiated(told, OPEN)[0].decode()))) == len(told)


@pytest.mark.parametrize("name", CATALOG)
def test_a_name_says_what_it_is(name: str) -> None:
    row = CATALOG[name]
    assert name.startswith(("rollq_", "process_"))
    assert (row.kind == COUNTER) == name.endswith("_total")
    assert row.kind in (COUNTER, GAUGE, HISTOGRAM)
    assert row.kind != HISTOGRAM or name.endswith("_seconds")
    assert row.meaning.endswith(".")


def test_the_page_shows_the_catalog() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert as_markdown() in page, "make the table anew: rollq.observe.catalog.as_markdown()"
