"""What follows from the numbers that checks find, and the page about tables."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

from rollq.base.errors import ErrorCode
from rollq.spark.pipeline.bronze import Hour
from rollq.spark.pipeline.catalog import TABLES
from rollq.spark.pipeline.checks import DATA_CHECKS, ReadStats, failure, judge, stats_of
from rollq.spark.pipeline.dictionary import ROWS, meaning_of
from rollq.spark.pipeline.manifest import Mark

DOCS = Path(__file__).parents[3] / "docs"
GOOD = {"events": 9, "begun": 2, "jobs_begun": 2, "assigned": 3, "attempts": 3}
WHOLE = ReadStats(events=9, is_whole=True)


def failed(stats: ReadStats, **numbers: int) -> list[str]:
    facts = {("g", name): number for name, number in (GOOD | numbers).items()}
    return [one.name for one in judge(facts, {"g": stats}) if one.outcome == "failed"]


def test_numbers_that_agree_are_fine_and_each_that_does_not_is_named() -> None:
    assert failed(WHOLE) == []
    assert failed(WHOLE, running=4, level_running=4) == []
    for number, name in {
        "events": "events",
        "late": "order",
        "jobs_begun": "jobs",
        "attempts": "attempts",
        "ended_twice": "ends",
        "jobs_unbegun": "ends",
        "running": "running",
        "below": "depth",
        "busy_beyond": "busy",
        "hours_apart": "hourly",
        "dead_apart": "dead",
    }.items():
        assert failed(WHOLE, **{number: 1}) == [name]
    assert failed(ReadStats(events=9, astray=1, missing=2)) == ["order"]


def test_where_history_is_missing_some_cannot_be_told() -> None:
    stats = ReadStats(events=9)
    assert failed(stats, jobs_unbegun=5, running=1, below=7) == []
    unknown = [one.name for one in judge({}, {"g": stats}) if one.outcome == "unknown"]
    assert unknown == ["missing", "jobs", "attempts", "ends", "running", "depth"]
    assert failed(ReadStats(events=9, is_whole=True, goes_back=True), below=1) == []


def hour(events: int, **more: int) -> Hour:
    return Hour("g", 0, 1, 0, 0, False, False, False, events, **more)


@pytest.mark.parametrize(
    ("before", "starts", "missing", "is_whole"),
    [
        ({}, {"g": 1}, {}, True),
        ({}, {"g": 7}, {}, False),
        ({}, {"g": 1}, {"g": 1}, False),
        ({"g": Mark(6, 0, 0, is_whole=True)}, {"g": 7}, {}, True),
        ({"g": Mark(6, 0, 0)}, {"g": 7}, {}, False),
        ({"g": Mark(6, 0, 0, is_whole=True)}, {"g": 7}, {"g": 3}, False),
    ],
)
def test_a_group_is_whole_from_its_first_index_on(
    before: dict[str, Mark], starts: dict[str, int], missing: dict[str, int], is_whole: bool
) -> None:
    stats = stats_of([hour(2, astray=1), hour(3, back=1)], before, starts, missing)
    assert stats == {
        "g": ReadStats(5, 1, missing=missing.get("g", 0), is_whole=is_whole, goes_back=True)
    }


def test_the_error_names_the_first_and_counts_the_rest() -> None:
    error = failure(one for one in judge({}, {"g": ReadStats(1, 1, 1)}) for _ in "12")
    assert error.code is ErrorCode.CHECK_FAILED
    assert "events (as many events are in bronze_events as were read) of group g" in error.message
    assert error.message.endswith("; and 19 more")


def test_every_column_that_users_see_has_words_and_the_page_says_them() -> None:
    assert [name for name, table in TABLES.items() if not table.is_internal] == list(ROWS)
    for name in ROWS:
        assert all(meaning_of(name, column) for column in TABLES[name].names)
    made = runpy.run_path(str(DOCS / "make_dictionary.py"))
    assert made["page_text"]() == (DOCS / "dictionary.md").read_text(encoding="utf-8")
    assert len({check.name for check in DATA_CHECKS}) == len(DATA_CHECKS)
