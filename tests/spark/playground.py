"""A small live grid for the examples in the docs: a member, and a worker with two programs."""

from __future__ import annotations

import contextlib
import io
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from rollq.cli.main import app
from tests.integration.small_grid import SmallGrid

PROGRAMS = {
    "calcA": "echo $(($1 + $2))",
    "flaky": '[ "$1" != bad ] || exit 75',
}
ADDRESS = "127.0.0.1:5000"  # as the pages say


class Playground:
    """Runs what the pages show, one piece after the other, in one folder and one process."""

    def __init__(self, folder: Path, address: str) -> None:
        self.folder = folder
        self.address = address
        self.names: dict[str, Any] = {"__name__": "__main__"}
        self._terminal = CliRunner()

    def run_python(self, code: str, title: str) -> str:
        """Run a piece of Python after those before it; what it printed."""
        code = code.replace(ADDRESS, self.address)
        with contextlib.chdir(self.folder), contextlib.redirect_stdout(io.StringIO()) as printed:
            exec(compile(code, title, "exec"), self.names)
        return printed.getvalue()

    def run_commands(self, text: str) -> str:
        """Run lines of `rollq …`, in this process, so that they share its Spark; what they
        printed."""
        printed = ""
        lines = text.replace("\\\n", " ").replace(ADDRESS, self.address).splitlines()
        with contextlib.chdir(self.folder):
            for line in filter(None, map(str.strip, lines)):
                program, *words = shlex.split(line, comments=True)
                assert program == "rollq", f"only rollq can be run here: {line}"
                known = {"ROLLQ_SERVERS": self.address}  # as a member at ADDRESS would be
                result = self._terminal.invoke(app, words, env=known, catch_exceptions=False)
                assert result.exit_code == 0, f"{line}\n{result.output}"
                printed += result.stdout
        return printed


@contextlib.contextmanager
def playground(folder: Path) -> Iterator[Playground]:
    """The grid runs while this lasts."""
    with SmallGrid(folder) as grid:
        work = folder / "work"
        for place in (folder / "exec", work / "bin"):
            place.mkdir(parents=True, exist_ok=True)
            for name, text in PROGRAMS.items():
                (place / name).write_text(f"#!/bin/sh\n{text}\n")
                (place / name).chmod(0o755)
        yield Playground(work, grid.address)
