"""The table of log events, and the page that lists it."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

from rollq.base.log_events import EVENTS, JOB_DEAD, LogEvent, seldom, tell
from rollq.base.repeats import QUIET_MS, Repeats

DOCS = Path(__file__).parents[3] / "docs"


class Log:
    """Keeps what it is told."""

    def __init__(self, level: int = 0) -> None:
        self.level = level
        self.lines: list[tuple[int, str, Any]] = []

    def isEnabledFor(self, level: int) -> bool:  # noqa: N802
        return level >= self.level

    def log(self, level: int, msg: object, *args: object, exc_info: Any = None, extra: Any = None):  # type: ignore[no-untyped-def]
        assert exc_info is None
        self.lines.append((level, str(msg) % args, extra))


def test_the_page_lists_the_table() -> None:
    made = runpy.run_path(str(DOCS / "make_logs.py"))
    assert made["page_text"]() == (DOCS / "logs.md").read_text(encoding="utf-8")


def test_words_are_the_events_own_and_fields_are_named_once() -> None:
    words = [event.word for event in EVENTS]
    assert len(set(words)) == len(words) > 40
    for event in EVENTS:
        assert event.word.replace("_", "").isalpha()
        assert event.word.islower()
        assert len(set(event.fields)) == len(event.fields)


def test_an_event_is_told_with_all_of_its_fields() -> None:
    log, event = Log(), LogEvent("dead", "warning", "job {job} is dead", ("attempt",))
    tell(log, event, job="x%s", attempt=2)
    ((level, text, extra),) = log.lines
    assert (level, text) == (30, "job x%s is dead")
    assert extra == {"event": "dead", "fields": {"job": "x%s", "attempt": 2}, "shown": ("attempt",)}


def test_what_is_not_written_is_not_made() -> None:
    log = Log(level=40)
    tell(log, JOB_DEAD)  # without the fields of its text
    assert log.lines == []


def test_what_comes_often_is_counted() -> None:
    repeats = Repeats()
    assert seldom(repeats, "k", 0, {"a": 1}) == {"a": 1}
    assert [seldom(repeats, "k", now_ms, {}) for now_ms in (1, 2)] == [None, None]
    assert seldom(repeats, "k", QUIET_MS, {"a": 1}) == {"a": 1, "suppressed": 2}
