"""What commands write: JSON for programs, tables and lines for people. Results go to stdout,
progress and remarks to stderr."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

import msgspec

GAP = 2  # blanks between columns
CUT_MIN = 8  # a column is not cut shorter than this


def write_json(value: Any) -> None:
    """One JSON document on a line of its own."""
    sys.stdout.write(msgspec.json.encode(value).decode() + "\n")
    sys.stdout.flush()


def write_line(text: str = "") -> None:
    """One line for people, at once: it may be what somebody waits for."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def write_answer(document: Any, text: str, *, as_json: bool) -> None:
    """The same answer for programs or for people."""
    if as_json:
        write_json(document)
    else:
        write_line(text)


def remark(text: str) -> None:
    """A word beside the result."""
    sys.stderr.write(text + "\n")


def alarming(text: str, stream: TextIO) -> str:
    """A text in red, if it is written to a terminal that shows colours."""
    is_red = stream.isatty() and not os.environ.get("NO_COLOR")
    return f"\x1b[31m{text}\x1b[0m" if is_red else text


def write_table(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], *, fits: bool = False
) -> None:
    """A table, never folded, so that a line is a row also for `grep`. Columns whose cells are all
    numbers are aligned to the right. One that `fits` has columns cut, the widest first, so that it
    is no wider than the terminal; away from a terminal it is whole."""
    cells = [list(row) for row in rows]
    texts = [list(columns), *([_cell(one) for one in row] for row in cells)]
    if fits and sys.stdout.isatty():
        texts = fitted(texts, shutil.get_terminal_size().columns)
    widths = [max(len(row[place]) for row in texts) for place in range(len(columns))]
    right = [
        bool(cells) and all(type(row[place]) in (int, float) for row in cells)
        for place in range(len(columns))
    ]
    for row in texts:
        aligned = (
            text.rjust(width) if is_right else text.ljust(width)
            for text, width, is_right in zip(row, widths, right, strict=True)
        )
        sys.stdout.write("  ".join(aligned).rstrip() + "\n")
    sys.stdout.flush()


def fitted(texts: list[list[str]], width: int) -> list[list[str]]:
    """Rows whose widest columns are cut until a row has this many characters, if that is enough for
    a few of each."""
    places = range(len(texts[0]))
    widths = [max(len(row[place]) for row in texts) for place in places]
    while sum(widths) + GAP * (len(widths) - 1) > width and max(widths) > CUT_MIN:
        widths[widths.index(max(widths))] -= 1
    return [[cut(row[place], widths[place]) for place in places] for row in texts]


def cut(text: str, width: int) -> str:
    """A text of at most so many characters."""
    return text if len(text) <= width else text[: width - 1] + "…"


def printable(text: str) -> str:
    """A text on one line, with what a terminal would take for orders made visible: it may come from
    anybody."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "·" for c in text)


def write_fields(fields: dict[str, Any]) -> None:
    """Names and values, one a line; what says nothing is left out."""
    shown = {name: value for name, value in fields.items() if value not in (None, "", [], {})}
    width = max(map(len, shown), default=0)
    for name, value in shown.items():
        write_line(f"{name:<{width}}  {value}")


def _cell(value: Any) -> str:
    """A value on one line."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else " ".join(str(value).split())
