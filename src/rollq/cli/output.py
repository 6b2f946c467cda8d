"""Output of commands: JSON documents, tables and lines. Results go to stdout, progress and remarks
to stderr."""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from typing import Any, TextIO

import msgspec

GAP = 2  # blanks between columns
CUT_MIN = 8  # columns are not cut below this width


def write_json(value: Any) -> None:
    """Write one JSON document as a line."""
    sys.stdout.write(json_text(value, sys.stdout) + "\n")
    sys.stdout.flush()


def json_text(value: Any, stream: TextIO) -> str:
    """A JSON document, in ASCII if the stream or UTF-8 lacks a character of it."""
    try:
        text = msgspec.json.encode(value).decode()
        text.encode(stream.encoding or "utf-8")
    except UnicodeEncodeError:
        return json.dumps(msgspec.to_builtins(value), separators=(",", ":"))
    return text


def write_line(text: str = "") -> None:
    """Write a line and flush, because another process may wait for it."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def write_answer(document: Any, text: str, *, as_json: bool) -> None:
    """Write a result as JSON or as text."""
    if as_json:
        write_json(document)
    else:
        write_line(text)


def remark(text: str) -> None:
    """Write a remark to stderr."""
    sys.stderr.write(text + "\n")


def remark_more(count: int) -> None:
    """Write a remark to stderr that a list was cut after so many rows."""
    remark(f"shown: {count}; there are more (--limit)")


def alarming(text: str, stream: TextIO) -> str:
    """A text in red, if the stream is a terminal with colours."""
    is_red = stream.isatty() and not os.environ.get("NO_COLOR")
    return f"\x1b[31m{text}\x1b[0m" if is_red else text


def write_table(
    columns: Sequence[str], rows: Iterable[Sequence[Any]], *, fits: bool = False
) -> None:
    """Write a table, one line per row, also for `grep`. Numeric columns are aligned to the right.
    With `fits` the widest columns are cut to the width of a terminal."""
    cells = [list(row) for row in rows]
    texts = [list(columns), *([_cell(one) for one in row] for row in cells)]
    if fits and sys.stdout.isatty():
        texts = fitted(texts, shutil.get_terminal_size().columns)
    widths = [max(width_of(row[place]) for row in texts) for place in range(len(columns))]
    right = [
        bool(cells) and all(type(row[place]) in (int, float) for row in cells)
        for place in range(len(columns))
    ]
    for row in texts:
        aligned = (
            padded(text, width, is_right=is_right)
            for text, width, is_right in zip(row, widths, right, strict=True)
        )
        sys.stdout.write("  ".join(aligned).rstrip() + "\n")
    sys.stdout.flush()


def fitted(texts: list[list[str]], width: int) -> list[list[str]]:
    """Cut the widest columns until rows fit the width, but not below CUT_MIN."""
    places = range(len(texts[0]))
    widths = [max(width_of(row[place]) for row in texts) for place in places]
    while sum(widths) + GAP * (len(widths) - 1) > width and max(widths) > CUT_MIN:
        widths[widths.index(max(widths))] -= 1
    return [[cut(row[place], widths[place]) for place in places] for row in texts]


def cut(text: str, width: int) -> str:
    """Cut a text to a width."""
    if width_of(text) <= width:
        return text
    if text.isascii():
        return text[: width - 1] + "…"
    from rich.cells import set_cell_size

    return set_cell_size(text, width - 1) + "…"


def padded(text: str, width: int, *, is_right: bool = False) -> str:
    """Fill a text with blanks to a width, on its right or, with `is_right`, on its left."""
    blanks = " " * (width - width_of(text))
    return blanks + text if is_right else text + blanks


def width_of(text: str) -> int:
    """The columns that a text takes on a terminal: two a character in Japanese."""
    if text.isascii():
        return len(text)
    from rich.cells import cell_len

    return cell_len(text)


def printable(text: str) -> str:
    """Replace control characters, which users may have put into names, to protect the terminal."""
    return text if text.isprintable() else "".join(c if c.isprintable() else "·" for c in text)


def write_fields(fields: dict[str, Any]) -> None:
    """Write names and values, one per line; empty values are left out."""
    shown = {name: value for name, value in fields.items() if value not in (None, "", [], {})}
    width = max(map(len, shown), default=0)
    for name, value in shown.items():
        write_line(f"{name:<{width}}  {value}")


def _cell(value: Any) -> str:
    """A value as text on one line."""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else " ".join(str(value).split())
