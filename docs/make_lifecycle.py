"""Writes docs/lifecycle.md from the lifecycle table: `python docs/make_lifecycle.py`."""

from __future__ import annotations

from pathlib import Path

from rollq.grid import lifecycle

PAGE = Path(__file__).with_name("lifecycle.md")
TEXT = """# The life of a job

Made from the table in `src/rollq/grid/lifecycle.py` by `python docs/make_lifecycle.py`; a test
keeps the two equal. Change the table, not this page.

```mermaid
{picture}
```

{rows}

A command that is not in the table for a state leaves a job in that state as it is: it is refused,
or passed over if it is a late timer. `done`, `dead` and `cancelled` are ends; a job reaches one of
them once, and only a redrive leads out of one (`dead`). A job that is cancelled while it runs stays
`assigned` until its worker confirms the end or is lost.
"""


def page_text() -> str:
    """What the page must say."""
    return TEXT.format(picture=lifecycle.mermaid(), rows=lifecycle.markdown())


if __name__ == "__main__":
    PAGE.write_text(page_text(), encoding="utf-8")
