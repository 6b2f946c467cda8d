"""The tutorials are true: a shell is given every command in them, and prints what they show.

A block of `console` holds commands after `$`, and below each what it prints; `…` stands for any
text, and a line of `…` alone for any number of lines. A block marked `background` holds one command
that goes on running, as in a terminal of its own: what is shown must appear.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from rollq.net.ports import free_ports
from tests.integration.patience import DEADLINE_S

DOCS = Path(__file__).parents[2] / "docs"
PAGES = ("tutorial.md", "tutorial.ja.md")
PORTS = ("5000", "5001", "5002", "5003")

BLOCK = re.compile(r"^```console( background)?\n(.*?)^```", re.MULTILINE | re.DOTALL)
END_OF_OUTPUT = "--- end of output ---"


@dataclass(frozen=True)
class Step:
    """One command, and the lines that it prints."""

    command: str
    shown: tuple[str, ...]
    in_background: bool


def test_every_command_prints_what_the_tutorial_shows(tmp_path: Path) -> None:
    """Of one page: the others show the same commands (below)."""
    ports = dict(zip(PORTS, free_ports(len(PORTS)), strict=True))
    # Commands that name no member ask the first: its port is another one here.
    with terminals(tmp_path, f"127.0.0.1:{ports[PORTS[0]]}") as shell:
        for step in steps_of(PAGES[0], ports):
            if step.in_background:
                shell.start(step)
            else:
                printed = shell.type(step.command)
                assert matches(step.shown, printed), story(step, printed)


def test_the_tutorials_show_the_same_commands_in_every_language() -> None:
    first, *others = [BLOCK.findall((DOCS / page).read_text(encoding="utf-8")) for page in PAGES]
    assert all(blocks == first for blocks in others)


@pytest.mark.parametrize(
    ("shown", "printed", "expected"),
    [
        (["a", "b"], ["a", "b"], True),
        (["a"], ["a", "b"], False),
        (["a", "…", "d"], ["a", "b", "c", "d"], True),
        (["a", "…", "d"], ["a", "d"], True),
        (["a", "…", "d"], ["a", "b", "c"], False),
        (["id …, 3 slots"], ["id 17, 3 slots"], True),
        (["id …, 3 slots"], ["id 17, 4 slots"], False),
    ],
)
def test_what_is_printed_is_compared_line_by_line(
    shown: list[str], printed: list[str], expected: bool
) -> None:
    assert matches(tuple(shown), printed) is expected


class Terminals:
    """A shell in a folder, and commands that run beside it until the end."""

    def __init__(self, folder: Path, server: str) -> None:
        self._folder = folder
        self._env = os.environ | {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
            "HOME": str(folder),
            "COLUMNS": "80",
            "ROLLQ_SERVERS": server,
        }
        self._background: list[subprocess.Popen[str]] = []
        self._readers: list[threading.Thread] = []
        self._shell = self._open(["bash", "--noprofile", "--norc"])

    def type(self, command: str) -> list[str]:
        """Run a command to its end; the lines that it printed."""
        assert self._shell.stdin is not None
        # The exit code stays there for `echo $?`. The next commands are no input of this one.
        self._shell.stdin.write(
            f"(exit $last)\n{{ {command}\n}} </dev/null\nlast=$?; printf '\\n{END_OF_OUTPUT}\\n'\n"
        )
        self._shell.stdin.flush()
        lines = until(self._shell, END_OF_OUTPUT, command)
        # printf begins with an empty line, so that output without a last newline is seen, too.
        return lines[:-1] if lines and not lines[-1] else lines

    def start(self, step: Step) -> None:
        """Start a command that goes on; returns when it has printed what is shown."""
        process = self._open(["bash", "--noprofile", "--norc", "-c", f"exec {step.command}"])
        self._background.append(process)
        for line in step.shown:
            until(process, line, step.command)
        # What it prints from here on is read and dropped: a full pipe would stop it.
        assert process.stdout is not None
        self._readers.append(threading.Thread(target=process.stdout.read))
        self._readers[-1].start()

    def close(self) -> None:
        """End everything, the newest first."""
        for process in reversed(self._background):
            process.terminate()
        self._shell.kill()
        for process in [*self._background, self._shell]:
            process.wait(DEADLINE_S)
        for reader in self._readers:
            reader.join(DEADLINE_S)
        for process in [*self._background, self._shell]:
            assert process.stdin is not None
            assert process.stdout is not None
            process.stdin.close()
            process.stdout.close()

    def _open(self, command: list[str]) -> subprocess.Popen[str]:
        return subprocess.Popen(
            command,
            cwd=self._folder,
            env=self._env,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )


@contextmanager
def terminals(folder: Path, server: str) -> Iterator[Terminals]:
    """Terminals that are closed whatever happens."""
    opened = Terminals(folder, server)
    try:
        yield opened
    finally:
        opened.close()


def steps_of(page: str, ports: dict[str, int]) -> Iterator[Step]:
    """The commands of a page in their order, on ports that are free."""
    text = (DOCS / page).read_text(encoding="utf-8")
    for documented, port in ports.items():
        text = re.sub(rf"\b{documented}\b", str(port), text)
    for background, block in BLOCK.findall(text):
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            first, *rest = part.splitlines()
            # A line that begins with `>` goes on with the command, as shells show it.
            count = next((n for n, line in enumerate(rest) if not line.startswith(">")), len(rest))
            command = "\n".join([first, *(line[2:] for line in rest[:count])])
            yield Step(command, tuple(rest[count:]), bool(background))


def until(process: subprocess.Popen[str], wanted: str, command: str) -> list[str]:
    """The lines that a command prints before the first one that is like the wanted one."""
    assert process.stdout is not None
    # A line that never comes ends the process, and with it the reading.
    alarm = threading.Timer(DEADLINE_S, process.kill)
    alarm.start()
    lines: list[str] = []
    try:
        for line in process.stdout:
            if is_like(wanted, line.rstrip("\n")):
                return lines
            lines.append(line.rstrip("\n"))
    finally:
        alarm.cancel()
    raise AssertionError(f"$ {command}\n{wanted!r} was not printed, but:\n" + "\n".join(lines))


def matches(shown: tuple[str, ...], printed: list[str]) -> bool:
    """Whether these lines are what is shown."""
    if not shown:
        return not printed
    if shown[0] == "…":
        return any(matches(shown[1:], printed[n:]) for n in range(len(printed) + 1))
    return bool(printed) and is_like(shown[0], printed[0]) and matches(shown[1:], printed[1:])


def is_like(shown: str, line: str) -> bool:
    """Whether this line is the one that is shown, where `…` is any text."""
    pattern = ".*".join(re.escape(part) for part in shown.split("…"))
    return re.fullmatch(pattern, line.rstrip()) is not None


def story(step: Step, printed: list[str]) -> str:
    """What was typed, what is shown, and what came."""
    return "\n".join(
        [f"$ {step.command}", "--- shown", *step.shown, "--- printed", *printed],
    )
