"""The shell of `rollq sql`: an interactive prompt, with history and completion."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rollq.base.errors import RollqError

if TYPE_CHECKING:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.history import History

PROMPT: Final = "rollq> "
MORE: Final = "   ... "
HELP: Final = """\
A statement ends with a semicolon and may take several lines. Tab completes tables and columns.
\\d        tables
\\d TABLE  columns of a table
\\q        quit, like Ctrl-D
Ctrl-C    cancels a running query, or clears the input
"""
_LEAVING: Final = ("\\q", "exit", "quit")


class SqlShell:
    """Reads and runs statements until the user quits."""

    def __init__(self, answer: Callable[[str], None], cancel: Callable[[], None]) -> None:
        """Create a shell.

        Args:
            answer: Runs a statement and writes its result; raises RollqError.
            cancel: Cancels the running statement.
        """
        self._answer = answer
        self._cancel = cancel

    def run(self) -> None:
        """Run until Ctrl-D or \\q."""
        session = _session()
        while True:
            try:
                text = session.prompt(PROMPT)
            except KeyboardInterrupt:
                continue
            except EOFError:
                return
            if not self.take(text):
                return

    def take(self, text: str) -> bool:
        """Process input; returns false to quit."""
        from rollq.spark.asking.typing_help import split_statements

        line = text.strip()
        if line.rstrip(";").lower() in _LEAVING:
            return False
        if line.startswith("\\"):
            self._command(line.rstrip(";").split())
            return True
        done, rest = split_statements(text)
        for one in (*done, rest):
            if one and not self._ask(one):
                break
        return True

    def _command(self, words: list[str]) -> None:
        if words[0] == "\\d":
            self._ask(f"DESCRIBE {words[1]}" if words[1:] else "SHOW TABLES")
        else:
            sys.stdout.write(HELP)

    def _ask(self, statement: str) -> bool:
        """Run a statement; returns whether it succeeded."""
        try:
            self._answer(statement)
        except RollqError as error:
            sys.stderr.write(f"{error.message}\n" + (f"  {error.hint}\n" if error.hint else ""))
            return False
        except KeyboardInterrupt:
            self._cancel()
            sys.stderr.write("cancelled\n")
            return False
        return True


def is_whole(text: str) -> bool:
    """Whether Enter submits the input, instead of starting a new line."""
    from rollq.spark.asking.typing_help import split_statements

    line = text.strip()
    return line.startswith("\\") or line.lower() in ("", *_LEAVING) or not split_statements(text)[1]


def completions(text: str, cursor: int) -> Iterable[tuple[str, int, str]]:
    """Completions at the cursor: the word, the offset of its start, and its meaning."""
    from rollq.spark.asking.typing_help import candidates

    part, found = candidates(text[:cursor], text)
    return [(one.text, len(part), one.meaning) for one in found]


def _session() -> PromptSession[str]:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.application import get_app
    from prompt_toolkit.completion import Completer, Completion
    from prompt_toolkit.filters import Condition
    from prompt_toolkit.lexers import PygmentsLexer
    from pygments.lexers.sql import SqlLexer

    class Words(Completer):
        def get_completions(self, document: Any, complete_event: Any) -> Iterable[Completion]:
            for word, length, meaning in completions(document.text, document.cursor_position):
                yield Completion(word, start_position=-length, display_meta=meaning)

    return PromptSession(
        history=_history(),
        completer=Words(),
        complete_while_typing=False,
        lexer=PygmentsLexer(SqlLexer),
        multiline=Condition(lambda: not is_whole(get_app().current_buffer.text)),
        prompt_continuation=MORE,
    )


def _history() -> History:
    """The input history, which only this user can read; in memory if there is no place for it."""
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    try:
        path = history_path()
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except (OSError, RuntimeError):  # RuntimeError: there is no home directory
        return InMemoryHistory()
    return FileHistory(str(path))


def history_path() -> Path:
    """The file of the history."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base, "rollq", "sql_history")
