"""A period of time in SQL: shared by all queries of a report."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rollq.spark.report.scales import FINE_MS_MAX, HOUR, slot_ms_for

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class Period:
    """A period of time, divided into slots."""

    first_ms: int
    last_ms: int

    @property
    def bounds_ms(self) -> tuple[int, int]:
        """The first and the last millisecond."""
        return self.first_ms, self.last_ms

    @property
    def slot_ms(self) -> int:
        """The length of a slot."""
        return slot_ms_for(self.last_ms - self.first_ms)

    @property
    def is_fine(self) -> bool:
        """Whether gold's hours are too coarse."""
        return self.last_ms - self.first_ms <= FINE_MS_MAX

    @classmethod
    def of(cls, first_ms: int, last_ms: int) -> Period:
        """A period; one that uses gold's hours is extended to a full hour at its start, so that all
        figures cover the same time."""
        asked = cls(first_ms, last_ms)
        return asked if asked.is_fine else cls(first_ms // HOUR * HOUR, last_ms)

    @property
    def before(self) -> Period:
        """The preceding period of the same length."""
        return Period(2 * self.first_ms - self.last_ms - 1, self.first_ms - 1)

    def starts(self, step_ms: int) -> range:
        """The starts of the slots."""
        first = self.first_ms // step_ms * step_ms
        return range(first, self.last_ms // step_ms * step_ms + 1, step_ms)


class PeriodQueries:
    """Queries the views of one session about one period."""

    def __init__(self, spark: SparkSession, period: Period) -> None:
        self.period = period
        self._spark = spark

    def rows(self, query: str) -> list[Any]:
        return self._spark.sql(query).collect()

    def within(self, column: str, size_ms: int = 1) -> str:
        """SQL condition: a timestamp column, or an interval of `size_ms` at it, is in the
        period."""
        first = self.period.first_ms // size_ms * size_ms
        return (
            f"{column} BETWEEN timestamp_millis({first}) "
            f"AND timestamp_millis({self.period.last_ms})"
        )

    def slot(self, column: str, step_ms: int = 0) -> str:
        return self.slot_of(f"unix_millis({column})", step_ms)

    def slot_of(self, value: str, step_ms: int = 0) -> str:
        step = step_ms or self.period.slot_ms
        return f"(({value}) - pmod(({value}), {step}L))"
