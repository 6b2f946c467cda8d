"""What a batch of new events touches, from the statistics of the tasks that wrote them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from rollq.spark.pipeline.bronze import Hour
from rollq.spark.pipeline.dialect import SPARK
from rollq.spark.pipeline.manifest import Mark
from rollq.spark.pipeline.tables import DAY_MS, HOUR_MS


@dataclass(slots=True)
class Profile:
    """The marks of groups after the batch, and the hours of its events."""

    marks: dict[str, Mark]
    hours: list[tuple[str, int]]  # group, and start of the hour in milliseconds
    passed: Mapping[str, tuple[int, int]]  # by group the first and last hour since the last batch
    # The same, extended back to the start of attempts that ended in this batch: their run time
    # changes the utilisation of these hours.
    ran: Mapping[str, tuple[int, int]]
    has_arrays: bool = False
    has_workers: bool = False
    has_acts: bool = False

    @property
    def first_ms(self) -> int:
        """The earliest time that changes: open intervals have continued since the last event of the
        previous batch."""
        return min(first for first, _ in self.passed.values())

    def reach_back(self, ms: int) -> None:
        """Extend `ran` back to the start of an attempt that ended in this batch."""
        self.ran = {
            group: (min(first, _hour(ms)), last) for group, (first, last) in self.ran.items()
        }

    def is_within(self, spans: Iterable[tuple[int, int]]) -> bool:
        """Whether all hours of some time spans are hours of new events."""
        hours = {ms for _, ms in self.hours}
        return (
            all(
                ms in hours
                for first_ms, last_ms in spans
                for ms in range(_hour(first_ms), last_ms + 1, HOUR_MS)
            )
            and len({group for group, _ in self.hours}) == 1
        )

    def touched_sql(self) -> str:
        """The hours of new events as rows."""
        return _rows(self.hours)

    @property
    def ran_first_ms(self) -> int:
        """The start of the first hour whose utilisation changes."""
        return min(first for first, _ in self.ran.values())

    def ran_sql(self) -> str:
        """By group the hours whose utilisation changes, and the last known timestamp."""
        rows = ", ".join(
            f"({SPARK.text(group)}, {first}L, {last}L, {self.marks[group].last_ms}L)"
            for group, (first, last) in self.ran.items()
        )
        return f"SELECT * FROM VALUES {rows} AS t(grp, first_ms, last_ms, until_ms)"

    def ran_days(self) -> list[int]:
        """A timestamp in each day of these hours."""
        return [
            ms
            for first, last in self.ran.values()
            for ms in (*range(first, last + 1, DAY_MS), last)
        ]

    def touched_if(self) -> str:
        """SQL condition: a row is of an hour of new events."""
        return _within((group, ms, ms) for group, ms in self.hours)

    def ran_if(self) -> str:
        """SQL condition: a row is of an hour in `ran`."""
        return _within((group, *hours) for group, hours in self.ran.items())


def profile_of(hours: Iterable[Hour], before: Mapping[str, Mark]) -> Profile:
    """Combine the statistics of hours, of which some come from several tasks."""
    marks = dict(before)
    firsts: dict[str, int] = {}
    found: set[tuple[str, int]] = set()
    has_arrays = has_workers = has_acts = False
    for hour in hours:
        group = hour.group
        mark = marks.get(group) or Mark(0, hour.first_ms, hour.last_ms)
        firsts[group] = min(hour.first_ms, firsts.get(group, hour.first_ms))
        marks[group] = Mark(
            max(mark.index, hour.last_index),
            min(mark.first_ms, hour.first_ms),
            max(mark.last_ms, hour.last_ms),
        )
        found.add((group, hour.hour_ms))
        has_arrays |= hour.has_arrays
        has_workers |= hour.has_workers
        has_acts |= hour.has_acts
    passed = {}
    for group, first_ms in firsts.items():
        since = min(first_ms, before[group].last_ms) if group in before else first_ms
        passed[group] = (_hour(since), _hour(marks[group].last_ms))
    return Profile(
        marks,
        sorted(found),
        passed,
        passed,
        has_arrays=has_arrays,
        has_workers=has_workers,
        has_acts=has_acts,
    )


def _hour(ms: int) -> int:
    return ms // HOUR_MS * HOUR_MS


def _rows(pairs: list[tuple[str, int]]) -> str:
    values = ", ".join(f"({SPARK.text(group)}, timestamp_millis({ms}))" for group, ms in pairs)
    return f"SELECT * FROM VALUES {values} AS t(grp, hour)"


def _within(spans: Iterable[tuple[str, int, int]]) -> str:
    """Hours of groups as an SQL condition, with consecutive hours merged."""
    merged: list[tuple[str, int, int]] = []
    for group, first, last in spans:
        if merged and merged[-1][0] == group and merged[-1][2] + HOUR_MS == first:
            merged[-1] = (group, merged[-1][1], last)
        else:
            merged.append((group, first, last))
    return " OR ".join(
        f"(`group` = {SPARK.text(group)} AND hour BETWEEN timestamp_millis({first})"
        f" AND timestamp_millis({last}))"
        for group, first, last in merged
    )
