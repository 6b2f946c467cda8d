"""What is alarming is red on a terminal, and plain everywhere else."""

from __future__ import annotations

import io
import logging
import sys
from typing import Any

import pytest

from rollq.cli.cluster import show_cluster
from rollq.cli.logs import Lines
from rollq.cli.output import alarming


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_red_is_for_terminals_that_want_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert alarming("x", Terminal()) == "\x1b[31mx\x1b[0m"
    assert alarming("x", io.StringIO()) == "x"
    monkeypatch.setenv("NO_COLOR", "1")
    assert alarming("x", Terminal()) == "x"


@pytest.mark.parametrize("is_terminal", [True, False])
def test_alarms_and_warnings_are_red(is_terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    screen = Terminal() if is_terminal else io.StringIO()
    monkeypatch.setattr(sys, "stdout", screen)
    monkeypatch.setattr(sys, "stderr", screen)
    group: dict[str, Any] = {"leader": "a", "term": 1, "commit": 1, "applied": 1, "members": []}
    show_cluster(group | {"alarms": [{"text": "t", "todo": "d"}]})
    assert ("\x1b[31mALARM t: d" in screen.getvalue()) == is_terminal
    assert "ALARM t: d" in screen.getvalue()
    for level in (logging.INFO, logging.WARNING):
        line = Lines().format(logging.LogRecord("rollq.member", level, "", 1, "text", (), None))
        assert line.startswith("\x1b[31m") == (is_terminal and level == logging.WARNING)
