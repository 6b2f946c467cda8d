"""Elements of HTML and SVG as text. Everything else is escaped: names and messages in the tables
are untrusted."""

from __future__ import annotations

import re
from html import escape
from typing import Final

# Control characters, bidirectional overrides and lone surrogates.
_UNSEEN: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


class Markup(str):
    """Text that is valid markup."""

    __slots__ = ()


def tag(name: str, *children: str, **attributes: str | float | None) -> Markup:
    """An element. `class_` becomes `class`, `aria_label` becomes `aria-label`; None is left out."""
    words = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{text(_number(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{words}>{join(*children)}</{name}>")


def join(*children: str) -> Markup:
    """Concatenate; what is not markup is escaped."""
    return Markup("".join(one if isinstance(one, Markup) else text(one) for one in children))


def text(value: str) -> str:
    """Escape untrusted text for content and attributes."""
    return escape(_UNSEEN.sub("\N{REPLACEMENT CHARACTER}", value), quote=True)


def short(value: str, most: int) -> str:
    """Shorten a text to `most` characters, with an ellipsis."""
    line = " ".join(value.split())
    return line if len(line) <= most else line[: most - 1] + "…"


def _number(value: str | float) -> str:
    """Coordinates with at most two decimals."""
    return value if isinstance(value, str) else f"{value:.2f}".rstrip("0").rstrip(".")
