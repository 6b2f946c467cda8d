"""Patterns that choose files by name, the same on every system. Pure.

`*` and `?` stand for anything within one part of a name, `[ab]` for one of some characters, and a
part `**` for any number of parts. A pattern is compared with the whole name: `*.csv` is a file at
the top. No pattern takes longer than its length times that of the name.
"""

from __future__ import annotations

import re
from fnmatch import translate
from typing import Final

ANY_PARTS: Final = "**"


class Glob:
    """One pattern."""

    __slots__ = ("_parts", "text")

    def __init__(self, text: str) -> None:
        self.text = text
        self._parts = [
            None if part == ANY_PARTS else re.compile(translate(part)) for part in text.split("/")
        ]

    def matches(self, name: str) -> bool:
        """Whether it matches this file name."""
        parts = name.split("/")
        # Prefixes of the name, in parts, that the pattern so far matches.
        reached = [True] + [False] * len(parts)
        for expression in self._parts:
            following = [False] * len(reached)
            for count, part in enumerate(parts):
                if expression is None:
                    following[count + 1] = reached[count + 1] or following[count] or reached[count]
                elif reached[count]:
                    following[count + 1] = expression.match(part) is not None
            if expression is None:
                following[0] = reached[0]
            reached = following
        return reached[-1]
