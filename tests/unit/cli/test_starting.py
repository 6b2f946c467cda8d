"""Ctrl-C while the command line is imported and built, and how it starts without streams or with
those of another encoding."""

from __future__ import annotations

import os
import signal
import subprocess
import sys

import pytest

from rollq.cli.failures import EXIT_INTERRUPTED, EXIT_UNREACHABLE, EXIT_USAGE

IMPORT_OF = """
class Interrupts:
    def find_spec(self, name, path, target=None):
        if name == "{}":
            os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupts())
"""
NTH_IMPORT = """
class Interrupts:
    left = None
    def find_spec(self, name, path, target=None):
        if self.left is None and name.startswith("rollq.") and name != "rollq.__main__":
            self.left = {}
        if self.left is not None:
            self.left -= 1
            if self.left == 0:
                os.kill(os.getpid(), signal.SIGINT)
sys.meta_path.insert(0, Interrupts())
"""
STARTS = 12
IMPORTS_APART = 60
IMPORTS = IMPORT_OF.format("rollq.cli.tree")
OF_LIBRARY = IMPORT_OF.format("msgspec")  # it swallows an exception, and crashes for it later
BUILDS = """
import typer.main
typer.main.get_command = lambda app: os.kill(os.getpid(), signal.SIGINT)
"""
RUNS = """
import typer.main
def interrupted(**given):
    os.kill(os.getpid(), signal.SIGINT)
typer.main.get_command = lambda app: interrupted
"""


def started(
    moment: str, handler: str = "default_int_handler", words: tuple[str, ...] = ("--version",)
) -> subprocess.CompletedProcess[str]:
    """The command line, interrupted at a moment, in a process that began with this handler."""
    code = (
        f"import os, signal, sys\nsignal.signal(signal.SIGINT, signal.{handler})\n{moment}\n"
        f"from rollq.__main__ import main\nsys.argv = ['rollq', *{words}]\nmain()"
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)


@pytest.mark.parametrize(
    "moment", [OF_LIBRARY, IMPORTS, BUILDS], ids=["library", "imports", "builds"]
)
def test_it_ends_by_the_signal_and_without_a_traceback(moment: str) -> None:
    done = started(moment)
    assert (done.returncode, done.stderr) == (-signal.SIGINT, "")


@pytest.mark.parametrize("number", range(STARTS))
def test_no_moment_of_the_start_has_a_traceback_or_a_crash(number: int) -> None:
    words = ("status", "--servers", "127.0.0.1:1", "--timeout", "0.1")
    done = started(NTH_IMPORT.format(1 + number * IMPORTS_APART), words=words)
    assert done.returncode in (-signal.SIGINT, EXIT_INTERRUPTED, EXIT_UNREACHABLE), done.stderr
    assert "raceback" not in done.stderr


def test_commands_are_interrupted_by_an_exception() -> None:
    assert "KeyboardInterrupt" in started(RUNS).stderr


def test_the_import_of_a_command_is_a_part_of_it() -> None:
    done = started(IMPORT_OF.format("rollq.cli.status"), words=("status",))
    assert (done.returncode, done.stderr) == (EXIT_INTERRUPTED, "interrupted\n")


@pytest.mark.parametrize("moment", [IMPORTS, RUNS], ids=["imports", "runs"])
def test_who_ignores_it_is_not_interrupted(moment: str) -> None:
    """A shell starts programs in the background so."""
    assert started(moment, "SIG_IGN").returncode == 0


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_streams_that_are_closed_lead_nowhere(closed: str) -> None:
    """Else a socket has the number of one, and libuv aborts when it is closed."""
    ask = f"{sys.executable} -m rollq status --servers 127.0.0.1:1 --timeout 0.1 {closed}"
    done = subprocess.run(["sh", "-c", ask], capture_output=True, text=True, check=False)
    assert done.returncode == EXIT_UNREACHABLE, done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    "words", ["submit show --payload -", "publish news -", "sql -", "blobs gc --state . --keep -"]
)
def test_stdin_that_is_to_be_read_must_not_be_closed(words: str) -> None:
    ask = f"{sys.executable} -m rollq {words} <&-"
    done = subprocess.run(["sh", "-c", ask], capture_output=True, text=True, check=False)
    assert done.returncode == EXIT_USAGE, done.stderr
    assert done.stderr.startswith("rollq: stdin is closed, and is to be read [bad_options]\n")


def test_nobody_is_asked_on_a_closed_stdin() -> None:
    ask = f"{sys.executable} -m rollq dlq purge --all <&-"
    done = subprocess.run(["sh", "-c", ask], capture_output=True, text=True, check=False)
    assert done.returncode == EXIT_USAGE
    assert "stdin is not a terminal" in done.stderr


@pytest.mark.parametrize("encoding", ["latin-1", "ascii", "ascii:strict"])
def test_stdout_that_lacks_a_character_gets_another(encoding: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "rollq", "status", "--help"],
        capture_output=True,
        env=os.environ | {"PYTHONIOENCODING": encoding, "LC_ALL": "C.UTF-8"},
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"HOST:PORT," in done.stdout


def test_so_they_do_for_the_loop_of_a_client() -> None:
    code = "from rollq.net.loops import new_loop; new_loop().close()"
    ask = f"{sys.executable} -c '{code}' <&- >&-"
    assert subprocess.run(["sh", "-c", ask], check=False).returncode == 0
