"""The shell of `rollq sql`: statements typed one after the other, with history and completion."""

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
\\q        leave, as Ctrl-D does
Ctrl-C    cancels a query that runs, or drops what is typed
"""
_LEAVING: Final = ("\\q", "exit", "quit")


class SqlShell:
    """Reads statements and has them answered until it is left."""

    def __init__(self, answer: Callable[[str], None], cancel: Callable[[], None]) -> None:
        """Nothing is read yet.

        Args:
            answer: asks a statement and writes what comes; raises RollqError if it is refused.
            cancel: ends what was asked last.
        """
        self._answer = answer
        self._cancel = cancel

    def run(self) -> None:
        """Until Ctrl-D or \\q."""
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
        """Do what was typed; whether to go on."""
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
        """Whether it was answered."""
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
    """Whether Enter ends what is typed, instead of a line of it."""
    from rollq.spark.asking.typing_help import split_statements

    line = text.strip()
    return line.startswith("\\") or line.lower() in ("", *_LEAVING) or not split_statements(text)[1]


def completions(text: str, cursor: int) -> Iterable[tuple[str, int, str]]:
    """Words that may stand at the cursor, how many letters of each are there, what it is."""
    from rollq.spark.asking.typing_help import candidates

    part, found = candidates(text[:cursor], text)
    return [(one.text, len(part), one.meaning) for one in found]


def _session() -> PromptSession[str]:
    from prompt_toolkit import PromptSession
    from prompt_toolkit.application import get_app
    from prompt_toolkit.completion import Completer, Completion
    from prompt_toolkit.filters import Condition
    from prompt_toolkit.lexers import PygmentsLexer
    from pygments.lexers.sql import SqlLexer  # type: ignore[import-untyped]

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
    """What was typed before, which only this user may read; of this shell alone if there is no
    place for it."""
    from prompt_toolkit.history import FileHistory, InMemoryHistory

    try:
        path = history_path()
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    except (OSError, RuntimeError):  # the latter: no home directory is known
        return InMemoryHistory()
    return FileHistory(str(path))


def history_path() -> Path:
    """Where it is kept."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    return Path(base, "rollq", "sql_history")
