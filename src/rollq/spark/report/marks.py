"""Elements of HTML and SVG as text. Whatever is not made here is escaped: names and messages in
the tables come from strangers."""

from __future__ import annotations

import re
from html import escape
from typing import Final

# Characters that no page may hold, and those that turn the direction of what stands around them.
_UNSEEN: Final = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]"
)


class Markup(str):
    """Text that is markup already."""

    __slots__ = ()


def tag(name: str, *children: str, **attributes: str | float | None) -> Markup:
    """An element. `class_` is `class`, `aria_label` is `aria-label`; None leaves one out."""
    words = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{text(_number(value))}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{words}>{join(*children)}</{name}>")


def join(*children: str) -> Markup:
    """Several after each other; what is not markup is escaped."""
    return Markup("".join(one if isinstance(one, Markup) else text(one) for one in children))


def text(value: str) -> str:
    """Words of strangers, as they may stand in a page and in an attribute."""
    return escape(_UNSEEN.sub("\N{REPLACEMENT CHARACTER}", value), quote=True)


def short(value: str, most: int) -> str:
    """A text that may be long, cut with dots."""
    line = " ".join(value.split())
    return line if len(line) <= most else line[: most - 1] + "…"


def _number(value: str | float) -> str:
    """Coordinates with no more digits than an eye can see."""
    return value if isinstance(value, str) else f"{value:.2f}".rstrip("0").rstrip(".")
