"""What real processes tell a service manager, and the units that `rollq init` writes for it."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

import psutil
import pytest
from typer.testing import CliRunner

from rollq.cli.main import app
from rollq.net.ports import free_ports
from tests.integration.patience import DEADLINE_S
from tests.integration.procs import until
from tests.integration.workers import write_program

WATCHDOG_USEC = 300_000


class Manager:
    """A socket that hears what a process tells, and the process."""

    def __init__(self, address: str) -> None:
        self.words: list[str] = []
        self._address = address
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self._socket.bind("\0" + address[1:] if address.startswith("@") else address)
        self._socket.setblocking(False)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._socket.close()

    def start(self, directory: Path, *words: str) -> None:
        """Start a process that is to tell how it is."""
        notes = {"NOTIFY_SOCKET": self._address, "WATCHDOG_USEC": str(WATCHDOG_USEC)}
        self._process = subprocess.Popen(
            [sys.executable, "-m", "rollq", *words],
            cwd=directory,
            env=os.environ | notes,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def send(self, number: int) -> None:
        """A signal to the process."""
        assert self._process is not None
        self._process.send_signal(number)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def wait(self) -> int:
        """Its exit code."""
        assert self._process is not None
        return self._process.wait(DEADLINE_S)

    def hear(self) -> list[str]:
        """All that was told so far."""
        while True:
            try:
                self.words += self._socket.recv(4_096).decode().split("\n")
            except BlockingIOError:
                return self.words

    def count(self, word: str) -> int:
        return self.hear().count(word)

    def until_told(self, word: str, times: int = 1) -> None:
        until(lambda: self.count(word) >= times)


@contextmanager
def managed(address: str) -> Iterator[Manager]:
    with Manager(address) as manager:
        yield manager


@pytest.mark.parametrize("kind", ["path", "abstract"])
def test_a_member_tells_how_it_is(tmp_path: Path, kind: str) -> None:
    name = f"@rollq-test-{os.getpid()}" if kind == "abstract" else str(tmp_path / "notify")
    with managed(name) as manager:
        manager.start(tmp_path, "leader", str(free_ports(1)[0]))
        manager.until_told("READY=1")
        before = manager.words[: manager.words.index("READY=1")]
        assert "STATUS=starting" in before
        assert any(word.startswith("EXTEND_TIMEOUT_USEC=") for word in before)
        until(lambda: any(word.startswith("STATUS=leads 1 members") for word in manager.hear()))
        manager.until_told("WATCHDOG=1", manager.count("WATCHDOG=1") + 3)
        manager.send(signal.SIGTERM)
        assert manager.wait() == 0
        assert "STOPPING=1" in manager.hear()
        assert manager.count("READY=1") == 1


def test_a_process_that_stands_still_gives_no_sign_of_life(tmp_path: Path) -> None:
    with managed(str(tmp_path / "notify")) as manager:
        manager.start(tmp_path, "leader", str(free_ports(1)[0]))
        manager.until_told("WATCHDOG=1", 2)
        manager.send(signal.SIGSTOP)
        until(lambda: psutil.Process(manager.pid).status() == psutil.STATUS_STOPPED)
        told = manager.count("WATCHDOG=1")
        time.sleep(2 * WATCHDOG_USEC / 1_000_000)
        assert manager.count("WATCHDOG=1") == told
        manager.send(signal.SIGCONT)
        manager.until_told("WATCHDOG=1", told + 1)


def test_a_worker_is_ready_when_a_leader_has_welcomed_it(tmp_path: Path) -> None:
    write_program(tmp_path, "show", "env > env.txt")
    port = str(free_ports(1)[0])
    with managed(str(tmp_path / "w")) as worker, managed(str(tmp_path / "m")) as member:
        worker.start(tmp_path, "worker", "127.0.0.1", port, "--exec-dir", "exec")
        worker.until_told("STATUS=looking for a leader, 0 jobs running")
        assert worker.count("READY=1") == 0
        member.start(tmp_path, "leader", port)
        worker.until_told("READY=1")
        worker.until_told("STATUS=connected, 0 jobs running")
        servers = ("--servers", f"127.0.0.1:{port}")
        words = ["submit", "show", "--wait", "--output", "env.txt", *servers]
        assert CliRunner().invoke(app, words).exit_code == 0
        found = [path.read_text() for path in tmp_path.glob("jobs/**/env.txt")]
        assert not any("NOTIFY_SOCKET" in text or "WATCHDOG" in text for text in found)
        worker.send(signal.SIGTERM)
        assert worker.wait() == 0


def test_a_manager_that_is_gone_is_no_matter(tmp_path: Path) -> None:
    with managed(str(tmp_path / "notify")) as manager:
        manager.start(tmp_path, "leader", str(free_ports(1)[0]))
        manager.until_told("READY=1")
        (tmp_path / "notify").unlink()
        manager.send(signal.SIGTERM)
        assert manager.wait() == 0


@pytest.mark.parametrize("hosts", ["", "10.0.0.1,10.0.0.2,10.0.0.3"], ids=["here", "three"])
def test_units_are_what_systemd_takes(tmp_path: Path, hosts: str) -> None:
    words = ["init", str(tmp_path / "c"), *(["--hosts", hosts] if hosts else [])]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    assert "systemctl enable --now rollq-member-1" in result.output
    units = sorted((tmp_path / "c" / "systemd").iterdir())
    assert [one.name for one in units] == [
        *(f"rollq-member-{number}.service" for number in (1, 2, 3)),
        "rollq-worker-1.service",
    ]
    for unit in units:
        text = unit.read_text()
        name = unit.stem.removeprefix("rollq-")
        for file in (tmp_path / "c" / name).iterdir():
            assert f"LoadCredential={file.name}:/etc/rollq/{name}/{file.name}\n" in text
        assert "Type=notify\n" in text
    if shutil.which("systemd-analyze") is None:
        pytest.skip("systemd-analyze is not installed")
    checked = subprocess.run(
        ["systemd-analyze", "verify", "--man=no", *map(str, units)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (checked.returncode, checked.stderr) == (0, ""), checked.stderr
