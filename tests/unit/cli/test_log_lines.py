"""Log lines as text and as JSON: what strangers named neither begins a line nor moves a cursor."""

from __future__ import annotations

import json
import logging
import sys
from typing import Any

import pytest

from rollq.base.log_events import ELECTED, JOB_DEAD, LOGIN_FAILED, LogEvent, tell
from rollq.cli.logs import JsonLines, Lines

NASTY = 'a\n2026-01-31 12:30:59.123 member  forged\r\x1b[31m\u202e\u2028 "x=1" \\'


class Kept(logging.Handler):
    """Formats what is told, and keeps it."""

    def __init__(self, formatter: logging.Formatter) -> None:
        super().__init__()
        self.setFormatter(formatter)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


def told(formatter: logging.Formatter, event: LogEvent, **fields: Any) -> str:
    log = logging.Logger("rollq.member")
    kept = Kept(formatter)
    log.addHandler(kept)
    tell(log, event, **fields)
    (line,) = kept.lines
    return line


def test_a_line_for_people_has_the_sentence_and_what_it_does_not_say() -> None:
    line = told(Lines(), ELECTED, term=4, voters=3, unled_ms=312)
    assert line[24:] == "member  this member is the leader in term 4 voters=3 unled_ms=312"
    line = told(Lines(), JOB_DEAD, job="j", cause="nacked", attempt=3, exec="a b", suppressed=9)
    assert line.endswith('WARNING: job j is dead: nacked attempt=3 exec="a b" suppressed=9')


def test_a_json_line_has_the_event_its_fields_and_what_the_process_is() -> None:
    row = json.loads(told(JsonLines({"group": "g1"}), ELECTED, term=4, voters=3, unled_ms=312))
    assert row.pop("ts") > 1_700_000_000_000
    assert row == {
        "level": "info",
        "logger": "rollq.member",
        "event": "elected",
        "message": "this member is the leader in term 4",
        "fields": {"group": "g1", "term": 4, "voters": 3, "unled_ms": 312},
    }


@pytest.mark.parametrize("formatter", [Lines(), JsonLines()], ids=["text", "json"])
def test_nothing_that_strangers_named_looks_like_another_line(formatter: logging.Formatter) -> None:
    for event, field in ((LOGIN_FAILED, "cause"), (JOB_DEAD, "exec")):
        fields = {"address": "", "cause": "", "job": "", field: NASTY}
        line = told(formatter, event, **fields)
        assert line.isprintable(), "one line, and nothing that a terminal obeys"
        assert "forged" in line


def test_the_lines_of_an_exception_are_indented() -> None:
    for formatter in (Lines(), JsonLines()):
        try:
            raise ValueError(NASTY)
        except ValueError:
            info = sys.exc_info()
        record = logging.LogRecord("rollq.net", logging.ERROR, "", 0, "cannot %s", ("do",), info)
        first, *others = formatter.format(record).split("\n")
        assert "cannot do" in first
        assert all(line.startswith("    ") and line.isprintable() for line in others)


def test_a_name_that_is_no_text_can_be_written() -> None:
    line = told(JsonLines(), JOB_DEAD, job="j", cause="nacked", exec="caf\udce9")
    assert json.loads(line)["fields"]["exec"] == "caf\\udce9"
