"""The lag of a streaming query. Needs no Spark: it reads a query's progress."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping
from typing import Any


def offsets_behind(progress: Any) -> dict[str, int]:
    """The unread log indexes of each group, as of a progress report.

    Args:
        progress: `query.lastProgress`, or the `progress` of a listener's event. Since Spark 4.2 it
            has the latest offset of a Python source; before that the result is empty.
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
    """The offsets of this source, by group. None: they are of another source, or missing."""
    for offsets in _readings(given):
        if isinstance(offsets, dict) and all(type(one) is int for one in offsets.values()):
            return offsets
    return None


def _readings(given: Any) -> Iterator[Any]:
    """Possible values: with Connect it is parsed JSON, otherwise JSON text or, before Spark 4.2,
    the repr of a dict."""
    if not isinstance(given, str):
        yield given
        return
    for parse in (json.loads, ast.literal_eval):
        try:
            yield parse(given)
        except (ValueError, SyntaxError):
            continue
