"""Writes docs/dictionary.md from the catalog of tables: `python docs/make_dictionary.py`."""

from __future__ import annotations

from pathlib import Path

from rollq.spark.asking.queries import TABLES as SHORT
from rollq.spark.pipeline.catalog import TABLES, TableSpec
from rollq.spark.pipeline.checks import DATA_CHECKS
from rollq.spark.pipeline.dictionary import ROWS, meaning_of

PAGE = Path(__file__).with_name("dictionary.md")
TEXT = """# Data dictionary

Tables of [`rollq pipeline`](spark.md#tables), made from `src/rollq/spark/pipeline/dictionary.py` by
`python docs/make_dictionary.py`; a test keeps the two equal. `rollq sql "DESCRIBE jobs"` shows the
same. Times are UTC, lengths of time in milliseconds, sizes in bytes.

{tables}
## Checks

Made with every batch and kept as rows of `gold_checks`. A check that fails is told by
`rollq pipeline run`, which then ends with exit code 1; the batch is kept. Those with a star are
`unknown` where the beginning of the history, or a part of it, was removed before it was read.

{checks}"""


def page_text() -> str:
    """What the page must say."""
    tables = "\n".join(_table(TABLES[name]) for name in ROWS)
    rows = [
        f"| `{check.name}`{'*' if check.needs_whole else ''} | {check.words} |\n"
        for check in DATA_CHECKS
    ]
    return TEXT.format(
        tables=tables, checks="| Check | What must be so |\n|---|---|\n" + "".join(rows)
    )


def _table(table: TableSpec) -> str:
    rows = [
        f"| `{column.name}` | {column.type} | {meaning_of(table.name, column.name)} |\n"
        for column in table.columns
    ]
    head = f"## {table.name}\n\nShort `{SHORT[table.name]}`. One row is {ROWS[table.name]}.\n\n"
    return head + "| Column | Type | Meaning |\n|---|---|---|\n" + "".join(rows)


if __name__ == "__main__":
    PAGE.write_text(page_text(), encoding="utf-8")
