"""Pages whose commands are typed into a shell, and must print what the page shows.

A block of `console` holds commands after `$`, and below each what it prints; `…` stands for any
text, and a line of `…` alone for any number of lines. A block marked `background` holds one command
that goes on running, as in a terminal of its own: what is shown must appear. A block of any other
language with a title (`python title="tasks.py"`) is the file of that name.
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

from rollq.net.ports import free_ports
from tests.integration.patience import DEADLINE_S

PORT = re.compile(r"\b50\d\d\b")  # of a page's processes: they are others when it is run

BLOCK = re.compile(r"^```(\w+)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
TITLE = re.compile(r'title="([^"]+)"')
END_OF_OUTPUT = "--- end of output ---"


@dataclass(frozen=True)
class Step:
    """One command and the lines that it prints, or a file that is written."""

    command: str
    shown: tuple[str, ...]
    in_background: bool = False
    file: str = ""  # if this is one; then `command` is what it holds


def run_page(
    text: str,
    folder: Path,
    bin_folder: Path = Path(sys.executable).parent,
    *,
    command_s: float = DEADLINE_S,
) -> None:
    """Type all that a page shows in a folder, with the programs of an environment; a command may
    take so many seconds."""
    documented = sorted(set(PORT.findall(text)))
    ports = dict(zip(documented, map(str, free_ports(len(documented))), strict=True))
    steps = list(steps_of(PORT.sub(lambda found: ports[found[0]], text)))
    # Commands that name no member ask the first: its port is another one here.
    server = f"127.0.0.1:{ports.get('5000', '5000')}"
    with terminals(folder, bin_folder, server, command_s) as shell:
        for step in steps:
            if step.file:
                path = folder / step.file
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(step.command, encoding="utf-8")
            elif step.in_background:
                shell.start(step)
            else:
                printed = shell.type(step.command)
                assert matches(step.shown, printed), story(step, printed)


class Terminals:
    """A shell in a folder, and commands that run beside it until the end."""

    def __init__(self, folder: Path, bin_folder: Path, server: str, command_s: float) -> None:
        self._folder = folder
        self._command_s = command_s
        self._env = os.environ | {
            "PATH": f"{bin_folder}{os.pathsep}{os.environ['PATH']}",
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
        lines = until(self._shell, END_OF_OUTPUT, command, self._command_s)
        # printf begins with an empty line, so that output without a last newline is seen, too.
        return lines[:-1] if lines and not lines[-1] else lines

    def start(self, step: Step) -> None:
        """Start a command that goes on; returns when it has printed what is shown."""
        process = self._open(["bash", "--noprofile", "--norc", "-c", f"exec {step.command}"])
        self._background.append(process)
        for line in step.shown:
            until(process, line, step.command, self._command_s)
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
def terminals(folder: Path, bin_folder: Path, server: str, command_s: float) -> Iterator[Terminals]:
    """Terminals that are closed whatever happens."""
    opened = Terminals(folder, bin_folder, server, command_s)
    try:
        yield opened
    finally:
        opened.close()


def steps_of(text: str) -> Iterator[Step]:
    """The commands and files of a page in their order."""
    for language, rest_of_line, block in BLOCK.findall(text):
        title = TITLE.search(rest_of_line)
        if title:
            yield Step(block, (), file=title[1])
        if language != "console":
            continue
        for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
            first, *rest = part.splitlines()
            # A line that begins with `>` goes on with the command, as shells show it.
            count = next((n for n, line in enumerate(rest) if not line.startswith(">")), len(rest))
            command = "\n".join([first, *(line[2:] for line in rest[:count])])
            yield Step(command, tuple(rest[count:]), "background" in rest_of_line)


def until(process: subprocess.Popen[str], wanted: str, command: str, command_s: float) -> list[str]:
    """The lines that a command prints before the first one that is like the wanted one."""
    assert process.stdout is not None
    # A line that never comes ends the process, and with it the reading.
    alarm = threading.Timer(command_s, process.kill)
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
