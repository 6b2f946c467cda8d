"""`rollq top` on a real terminal (a pty) against real members, and away from one."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import threading
import time
from collections.abc import Iterator

import pytest

from rollq.cli.fleet import Fleet, write_program
from rollq.net.ports import free_ports
from tests.integration.patience import DEADLINE_S
from tests.integration.test_cli import Grid


class Terminal:
    """A process on a terminal of its own, and everything that it wrote."""

    def __init__(self, *arguments: str) -> None:
        self.master, self.slave = pty.openpty()
        self.resize(80, 24)
        self.before = termios.tcgetattr(self.slave)
        self.output = b""
        environment = {**os.environ, "TERM": "xterm"}
        environment.pop("COLUMNS", None)
        environment.pop("LINES", None)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "rollq", *arguments],
            stdin=self.slave,
            stdout=self.slave,
            stderr=self.slave,
            env=environment,
            start_new_session=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Terminal:
        return self

    def __exit__(self, *exc: object) -> None:
        if self.process.poll() is None:
            self.process.kill()
            self.process.wait()
        os.close(self.slave)
        self._reader.join(DEADLINE_S)
        os.close(self.master)

    def resize(self, columns: int, lines: int) -> None:
        fcntl.ioctl(self.slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))

    def type(self, text: str) -> None:
        """Press keys; what comes from now on is their answer."""
        self.output = b""
        os.write(self.master, text.encode())

    def until(self, text: str) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while text.encode() not in self.output:
            shown = self.output[-3000:].decode(errors="replace")
            assert time.monotonic() < deadline, f"{text!r} did not come:\n{shown}"
            time.sleep(0.02)

    def ended(self) -> int:
        """Its exit code; the terminal is as it was before."""
        code = self.process.wait(DEADLINE_S)
        assert termios.tcgetattr(self.slave) == self.before
        self.until("\x1b[?25h\x1b[?1049l")
        return code

    def _read(self) -> None:
        with contextlib.suppress(OSError):
            while data := os.read(self.master, 65_536):
                self.output += data


@pytest.fixture(scope="module")
def grid(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Grid]:
    root = tmp_path_factory.mktemp("grid")
    write_program(root / "exec", "slow", "echo begun; exec sleep 600")
    write_program(root / "exec", "bad", "echo no row 7 >&2; exit 3")
    with Fleet(root) as fleet:
        fleet.start_members(free_ports(3))
        fleet.start_worker("w1", "--exec-dir", str(root / "exec"), "--cpu-cap", "1")
        grid = Grid(fleet)
        grid.run("submit", "slow")
        grid.run("submit", "bad", "--wait", code=3)
        grid.until(lambda: grid.lines("jobs", "--state", "running"))
        yield grid


def test_one_frame_for_scripts(grid: Grid) -> None:
    shown = grid.run("top", "--interval", "0.2")
    assert "leader 127.0.0.1:" in shown.splitlines()[0]
    for part in (
        "queues (2)",
        "workers, 1 of 4 slots busy (1)",
        "running longest (1)",
        "slow",
        "w1",
    ):
        assert part in shown
    assert "\x1b" not in shown
    document = grid.json("top", "--once", "--interval", "0.2")
    assert document["jobs"]["failed"] == 1
    assert document["rates"]["accepted"] == 0.0
    assert [one["exec"] for one in document["slowest"]] == ["slow"]


def test_keys_lead_to_a_job_and_back(grid: Grid) -> None:
    with Terminal("top", "-s", grid.fleet.servers) as top:
        top.until("running longest (1)")
        top.type("/bad\r\r")
        top.until("jobs of queue bad (1)")
        top.until("failed")
        top.type("\r")
        top.until("its program ended with exit code 3 on worker w1")
        top.until("no row 7")
        top.type("?")
        top.until("keys of rollq top")
        top.type("\x1b")
        top.until("exit code 3")
        top.type("q")
        assert top.ended() == 0


def test_the_output_of_a_job_that_runs(grid: Grid) -> None:
    with Terminal("top", "-s", grid.fleet.servers) as top:
        top.until("running longest (1)")
        top.type("\t\t\r")
        top.until("it is running on worker w1")
        top.until("begun")
        top.type("q")
        assert top.ended() == 0


def test_another_size_is_drawn_anew(grid: Grid) -> None:
    with Terminal("top", "-s", grid.fleet.servers) as top:
        top.until("running longest (1)")
        top.output = b""
        top.resize(120, 40)
        os.kill(top.process.pid, signal.SIGWINCH)
        top.until("\x1b[40;1H")
        top.type("q")
        assert top.ended() == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "term"])
def test_signals_leave_the_terminal_as_it_was(grid: Grid, number: int) -> None:
    with Terminal("top", "-s", grid.fleet.servers) as top:
        top.until("running longest (1)")
        os.kill(top.process.pid, number)
        assert top.ended() == 0


def test_it_goes_on_through_a_change_of_leader(grid: Grid) -> None:
    with Terminal("top", "-s", grid.fleet.servers, "--interval", "0.2") as top:
        top.until("running longest (1)")
        addresses = grid.fleet.addresses
        leader = grid.json("status")["cluster"]["leader"]
        other = next(one for one in addresses if one != leader)
        os.kill(grid.fleet.pid_of(other), signal.SIGSTOP)
        try:
            grid.fleet.kill(leader)  # one of three is left that answers: nobody can lead
            top.until("no leader, since ")
        finally:
            os.kill(grid.fleet.pid_of(other), signal.SIGCONT)
        grid.until(lambda: grid.json("status")["cluster"]["leader"] != leader)
        top.output = b""
        top.until(f"leader {grid.json('status')['cluster']['leader']}")
        top.type("q")
        assert top.ended() == 0
        grid.fleet.start_member(leader)
