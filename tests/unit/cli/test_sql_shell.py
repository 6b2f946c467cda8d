"""The shell of `rollq sql`: what is typed, and what is asked."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest
from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

from rollq.base.errors import ErrorCode, LocalError
from rollq.cli.sql_shell import SqlShell, completions, is_whole


class Asked:
    """Who answers: notes what was asked, and cannot do everything."""

    def __init__(self) -> None:
        self.statements: list[str] = []
        self.cancelled = 0

    def answer(self, statement: str) -> None:
        self.statements.append(statement)
        if "nope" in statement:
            raise LocalError(ErrorCode.BAD_OPTIONS, "there is no table nope", "tables: jobs")
        if "forever" in statement:
            raise KeyboardInterrupt

    def cancel(self) -> None:
        self.cancelled += 1


def typed(text: str) -> Asked:
    asked = Asked()
    with create_pipe_input() as keys:
        keys.send_text(text)
        with create_app_session(input=keys, output=DummyOutput()):
            SqlShell(asked.answer, asked.cancel).run()
    return asked


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path


def test_a_statement_may_take_several_lines(home: Path) -> None:
    asked = typed("SELECT 1\r, 2;\rselect 'a\r;';\r\\q\r")
    assert asked.statements == ["SELECT 1\n, 2", "select 'a\n;'"]
    history = home / "rollq" / "sql_history"
    assert "+SELECT 1\n+, 2;\n" in history.read_text()
    assert stat.S_IMODE(history.stat().st_mode) == 0o600


def test_what_was_typed_before_comes_back() -> None:
    typed("SELECT 1;\r\x04")
    assert typed("\x1b[A\r\x04").statements == ["SELECT 1"]  # arrow up, in another shell


def test_words_are_completed() -> None:
    assert completions("SELECT * FROM utili", 19) == [("utilisation", 5, "gold_utilisation, table")]
    assert completions(r"\d utili", 8) == [("utilisation", 5, "gold_utilisation, table")]


def test_after_an_error_it_goes_on(capsys: pytest.CaptureFixture[str]) -> None:
    asked = typed("SELECT * FROM nope; SELECT 2;\rSELECT 3;\r\x04")
    assert asked.statements == ["SELECT * FROM nope", "SELECT 3"]
    assert capsys.readouterr().err == "there is no table nope\n  tables: jobs\n"


def test_an_interrupt_cancels_the_query_and_not_the_shell(
    capsys: pytest.CaptureFixture[str],
) -> None:
    asked = typed("SELECT forever;\rSELECT 4;\rquit\r")
    assert (asked.statements, asked.cancelled) == (["SELECT forever", "SELECT 4"], 1)
    assert capsys.readouterr().err == "cancelled\n"


def test_an_interrupt_drops_what_is_typed() -> None:
    assert typed("SELECT 5\r\x03SELECT 6;\r\x04").statements == ["SELECT 6"]


def test_short_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert typed("\\d\r\\d jobs\r\\?\r\x04").statements == ["SHOW TABLES", "DESCRIBE jobs"]
    assert "Tab completes" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["", "  ", "\\d jobs", "exit", "SELECT 1;", "-- only a remark"])
def test_enter_ends_what_is_whole(text: str) -> None:
    assert is_whole(text)
    assert not is_whole("SELECT 1")
