"""The few words in which Spark's SQL differs from that of others.

All transformations are SQL text made with these words, so that the same text can be held against
another engine.
"""

from __future__ import annotations

from typing import Final


class SqlDialect:
    """Spark's words."""

    group = "`group`"
    count = "`count`"

    def text(self, word: str) -> str:
        """Text as SQL has it. Names of groups are checked by the grid, yet a folder may be given
        any."""
        escaped = word.replace("\\", "\\\\").replace("'", "\\'")
        return f"'{escaped}'"

    def ms(self, moment: str) -> str:
        """A moment as milliseconds."""
        return f"unix_millis({moment})"

    def between_ms(self, start: str, end: str) -> str:
        """The length of time between two moments, never below 0: clocks of leaders differ."""
        return f"CASE WHEN {end} < {start} THEN 0 ELSE {self.ms(end)} - {self.ms(start)} END"

    def latest(self, value: str, window: str) -> str:
        """The last value that is not NULL, up to this row."""
        return f"last_value({value}) IGNORE NULLS OVER ({window})"

    def latest_before(self, value: str, window: str) -> str:
        """As `latest`, up to the row before."""
        frame = "ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
        return f"last_value({value}) IGNORE NULLS OVER ({window} {frame})"

    def pack(self, **fields: str) -> str:
        """Several values as one, which is not NULL even if all of them are."""
        return f"named_struct({', '.join(f'{name!r}, {text}' for name, text in fields.items())})"

    def gather(self, value: str) -> str:
        """All values of a group that are not NULL."""
        return f"collect_list({value})"

    def merge(self, gathered: str) -> str:
        """All that several groups have gathered, in order of size."""
        return f"sort_array(flatten(collect_list({gathered})))"

    def percentile(self, gathered: str, percent: int) -> str:
        """Of gathered values the smallest that at least so many of a hundred do not exceed."""
        place = f"cast((size({gathered}) * {percent} + 99) div 100 AS int)"
        return f"get({gathered}, {place} - 1)"

    def count_if(self, condition: str) -> str:
        """How many rows fulfil something."""
        return f"count_if({condition})"

    def series(self, first: str, last: str, step: int) -> str:
        """One row for every number from one to another, both included."""
        return f"explode(sequence({first}, {last}, CAST({step} AS bigint)))"

    def moment(self, ms: str) -> str:
        """A moment, of milliseconds."""
        return f"timestamp_millis({ms})"

    def first_word(self, text: str) -> str:
        """What stands before the first blank."""
        return f"substring_index({text}, ' ', 1)"


SPARK: Final = SqlDialect()
