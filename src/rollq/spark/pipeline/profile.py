"""What a batch of new events touches, asked once and known to the driver from then on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from rollq.grid.events import WORKER_CLOSED, WORKER_OPENED
from rollq.spark.pipeline.manifest import Mark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

HOUR_MS: Final = 3_600_000
DAY_MS: Final = 24 * HOUR_MS


@dataclass(slots=True)
class Profile:
    """Where groups stand after the batch, and which hours its events are of."""

    marks: dict[str, Mark]
    hours: list[tuple[str, int]]  # group and start of the hour in milliseconds
    passed: Mapping[str, tuple[int, int]]  # by group the first and the last hour to be made anew
    has_arrays: bool = False
    has_workers: bool = False

    @property
    def first_ms(self) -> int:
        """The oldest moment from which on something changes: what was open went on since the last
        event of the batch before."""
        return min(first for first, _ in self.passed.values())

    def touched_sql(self) -> str:
        """The hours of events."""
        return _rows(self.hours)

    def passed_sql(self) -> str:
        """By group the hours since the batch before, and the last moment that is known."""
        rows = ", ".join(
            f"({_text(group)}, {first}L, {last}L, {self.marks[group].last_ms}L)"
            for group, (first, last) in self.passed.items()
        )
        return f"SELECT * FROM VALUES {rows} AS t(grp, first_ms, last_ms, until_ms)"

    def passed_days(self) -> list[int]:
        """Moments of all days since the batch before."""
        return [
            ms
            for first, last in self.passed.values()
            for ms in (*range(first, last + 1, DAY_MS), last)
        ]

    def touched_if(self) -> str:
        """Whether a row with a group and an hour is of an hour of events."""
        return _within((group, ms, ms) for group, ms in self.hours)

    def passed_if(self) -> str:
        """Whether it is of one since the batch before."""
        return _within((group, *hours) for group, hours in self.passed.items())


def profile_of(spark: SparkSession, before: Mapping[str, Mark]) -> Profile:
    """Look through `news`."""
    rows = spark.sql(f"""
        SELECT _group, unix_millis(date_trunc('hour', _ts)), max(_index),
            unix_millis(min(_ts)), unix_millis(max(_ts)),
            count_if(array_id IS NOT NULL),
            count_if(type IN ('{WORKER_OPENED}', '{WORKER_CLOSED}'))
        FROM news GROUP BY 1, 2
    """).collect()
    marks = dict(before)
    firsts: dict[str, int] = {}
    for group, _, index, first_ms, last_ms, _, _ in rows:
        mark = marks.get(group) or Mark(0, first_ms, last_ms)
        firsts[group] = min(first_ms, firsts.get(group, first_ms))
        marks[group] = Mark(
            max(mark.index, index), min(mark.first_ms, first_ms), max(mark.last_ms, last_ms)
        )
    passed = {}
    for group, first_ms in firsts.items():
        since = min(first_ms, before[group].last_ms) if group in before else first_ms
        passed[group] = (_hour(since), _hour(marks[group].last_ms))
    return Profile(
        marks,
        sorted((row[0], row[1]) for row in rows),
        passed,
        any(row[5] for row in rows),
        any(row[6] for row in rows),
    )


def _hour(ms: int) -> int:
    return ms // HOUR_MS * HOUR_MS


def _rows(pairs: list[tuple[str, int]]) -> str:
    values = ", ".join(f"({_text(group)}, timestamp_millis({ms}))" for group, ms in pairs)
    return f"SELECT * FROM VALUES {values} AS t(grp, hour)"


def _within(spans: Iterable[tuple[str, int, int]]) -> str:
    """Hours of groups as a condition, those that follow each other as one."""
    merged: list[tuple[str, int, int]] = []
    for group, first, last in spans:
        if merged and merged[-1][0] == group and merged[-1][2] + HOUR_MS == first:
            merged[-1] = (group, merged[-1][1], last)
        else:
            merged.append((group, first, last))
    return " OR ".join(
        f"(`group` = {_text(group)} AND hour BETWEEN timestamp_millis({first})"
        f" AND timestamp_millis({last}))"
        for group, first, last in merged
    )


def _text(word: str) -> str:
    """As SQL text. Names of groups are checked by the grid, yet a folder may be given any."""
    escaped = word.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
