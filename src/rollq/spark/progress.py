"""How far a streaming query is behind. Needs no Spark: it looks at what a query says of itself."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping
from typing import Any


def offsets_behind(progress: Any) -> dict[str, int]:
    """How many log indexes of each group a query had not read when it said this.

    Args:
        progress: `query.lastProgress`, or the `progress` of an event of a listener. Spark tells
            since 4.2 what a Python source says of its end; before that nothing is known.
    """
    behind: dict[str, int] = {}
    for source in progress["sources"] if progress else ():
        latest, reached = _offsets(source["latestOffset"]), _offsets(source["endOffset"])
        if latest is None or reached is None:
            continue
        for group, end in latest.items():
            behind[group] = behind.get(group, 0) + max(end - reached.get(group, 0), 0)
    return behind


def _offsets(given: Any) -> Mapping[str, int] | None:
    """Offsets of this source: by group, a number each. None: they are of another, or not told."""
    for offsets in _readings(given):
        if isinstance(offsets, dict) and all(type(one) is int for one in offsets.values()):
            return offsets
    return None


def _readings(given: Any) -> Iterator[Any]:
    """By Connect it is JSON already, otherwise text of it or, before Spark 4.2, of a dict."""
    if not isinstance(given, str):
        yield given
        return
    for parse in (json.loads, ast.literal_eval):
        try:
            yield parse(given)
        except (ValueError, SyntaxError):
            continue
