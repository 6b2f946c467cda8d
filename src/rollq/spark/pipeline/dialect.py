"""The expressions in which SQL dialects differ.

All transformations are SQL text built with these, so that the same text can be tested against
another engine.
"""

from __future__ import annotations

from typing import Final


class SqlDialect:
    """The dialect of Spark."""

    group = "`group`"
    count = "`count`"

    def text(self, word: str) -> str:
        """A string literal. The grid validates names of groups, but the name for a folder is
        free."""
        escaped = word.replace("\\", "\\\\").replace("'", "\\'")
        return f"'{escaped}'"

    def ms(self, moment: str) -> str:
        """A timestamp as milliseconds."""
        return f"unix_millis({moment})"

    def between_ms(self, start: str, end: str) -> str:
        """The time between two timestamps, at least 0: clocks of leaders differ."""
        return f"CASE WHEN {end} < {start} THEN 0 ELSE {self.ms(end)} - {self.ms(start)} END"

    def latest(self, value: str, window: str) -> str:
        """The last non-NULL value up to this row."""
        return f"last_value({value}) IGNORE NULLS OVER ({window})"

    def latest_before(self, value: str, window: str) -> str:
        """As `latest`, but up to the previous row."""
        frame = "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
        return f"last_value({value}) IGNORE NULLS OVER ({window} {frame})"

    def pack(self, **fields: str) -> str:
        """A struct, which is not NULL even if all its fields are."""
        return f"named_struct({', '.join(f'{name!r}, {text}' for name, text in fields.items())})"

    def gather(self, value: str) -> str:
        """All non-NULL values of a group, as an array."""
        return f"collect_list({value})"

    def merge(self, gathered: str) -> str:
        """The sorted concatenation of several such arrays."""
        return f"sort_array(flatten(collect_list({gathered})))"

    def percentile(self, gathered: str, percent: int) -> str:
        """The nearest-rank percentile of a sorted array."""
        place = f"cast((size({gathered}) * {percent} + 99) div 100 AS int)"
        return f"get({gathered}, {place} - 1)"

    def count_if(self, condition: str) -> str:
        """The number of rows that meet a condition."""
        return f"count_if({condition})"

    def series(self, first: str, last: str, step: int) -> str:
        """One row for every number from `first` to `last`, inclusive."""
        return f"explode(sequence({first}, {last}, CAST({step} AS bigint)))"

    def moment(self, ms: str) -> str:
        """A timestamp from milliseconds."""
        return f"timestamp_millis({ms})"

    def first_word(self, text: str) -> str:
        """The text before the first blank."""
        return f"substring_index({text}, ' ', 1)"


SPARK: Final = SqlDialect()
