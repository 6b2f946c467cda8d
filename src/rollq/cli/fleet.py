"""A small grid of real processes in one directory, for demonstrations. At the end all processes are
stopped and their files removed; they also end if this process is killed."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rollq.base.errors import DialError, ErrorCode
from rollq.leash import Leash

READY_S_MAX: Final = 60.0
STOP_S_MAX: Final = 30.0
POLL_S: Final = 0.02


@dataclass(slots=True)
class Child:
    """A child process and its output files."""

    name: str
    process: subprocess.Popen[bytes]
    out: Path
    log: Path

    @property
    def is_alive(self) -> bool:
        """Whether it is running."""
        return self.process.poll() is None


class Fleet:
    """Members and workers as processes. A context manager, which stops them all at exit."""

    def __init__(self, root: Path, *, keep: bool = False) -> None:
        self.root = root
        self.addresses: list[str] = []
        self._keep = keep
        self._children: dict[str, Child] = {}
        self._leash = Leash()

    def __enter__(self) -> Fleet:
        self.root.mkdir(parents=True, exist_ok=True)
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()
        self._leash.let_go()
        if not self._keep:
            shutil.rmtree(self.root, ignore_errors=True)

    @property
    def servers(self) -> str:
        """The addresses of all members, for clients."""
        return ",".join(self.addresses)

    def state_of(self, address: str) -> Path:
        """The state directory of a member."""
        return self.root / "state" / address.rpartition(":")[2]

    def pid_of(self, address: str) -> int:
        """The process id of a member."""
        return self._children[address].process.pid

    def is_alive(self, name: str) -> bool:
        """Whether a member or worker is running."""
        return self._children[name].is_alive

    def exit_code_of(self, name: str) -> int | None:
        """The exit code of a member or worker; None while it runs."""
        return self._children[name].process.poll()

    def log_of(self, name: str) -> str:
        """The log of a member or worker."""
        return self._children[name].log.read_text(encoding="utf-8", errors="replace")

    def start_members(self, ports: list[int], *options: str) -> None:
        """Start members that are each other's peers; returns when all listen."""
        self.addresses = [f"127.0.0.1:{port}" for port in ports]
        for address in self.addresses:
            self.start_member(address, *options)
        for address in self.addresses:
            self.await_line(address, "serves on")

    def start_member(self, address: str, *options: str) -> None:
        """Start or restart one member."""
        others = ",".join(other for other in self.addresses if other != address)
        port = address.rpartition(":")[2]
        peers = ["--peers", others] if others else []
        state = str(self.state_of(address))
        self._start(address, "leader", port, "--state", state, *peers, *options)

    def start_worker(self, name: str, *options: str) -> None:
        """Start a worker of this grid; returns when it is running."""
        host, _, port = self.addresses[0].rpartition(":")
        self._start(
            name,
            *("worker", host, port, "--name", name, "--servers", self.servers),
            *("--state", str(self.root / name), "--jobs-dir", str(self.root / "jobs"), *options),
        )
        self.await_line(name, "looking for a member")

    def kill(self, name: str) -> None:
        """Kill a process by SIGKILL."""
        child = self._children[name]
        child.process.kill()
        child.process.wait()

    def await_line(self, name: str, text: str) -> None:
        """Wait until a child has written this text to stdout."""
        child = self._children[name]
        deadline = time.monotonic() + READY_S_MAX
        while text not in child.out.read_text(encoding="utf-8", errors="replace"):
            if not child.is_alive or time.monotonic() > deadline:
                last = self.log_of(name).strip()[-2000:]
                raise DialError(ErrorCode.UNREACHABLE, f"{name} did not start: {last or 'silent'}")
            time.sleep(POLL_S)

    def stop(self) -> None:
        """Stop all processes by SIGTERM, workers first; kill those that do not stop."""
        workers = [child for child in self._children.values() if child.name not in self.addresses]
        members = [child for child in self._children.values() if child.name in self.addresses]
        for group in (workers, members):
            self._stop([child for child in group if child.is_alive])

    def _stop(self, children: list[Child]) -> None:
        for child in children:
            child.process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + STOP_S_MAX
        for child in children:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.process.wait(max(0.1, deadline - time.monotonic()))
            if child.is_alive:
                child.process.kill()
                child.process.wait()

    def _start(self, name: str, *arguments: str) -> None:
        stem = name.replace(":", "-")
        out, log = self.root / f"{stem}.out", self.root / f"{stem}.log"
        with out.open("wb") as stdout, log.open("ab") as stderr:
            process = subprocess.Popen(
                [sys.executable, "-m", "rollq", *arguments],
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                start_new_session=True,  # Ctrl-C must not reach children: `stop` ends them in order
                env=os.environ | {"ROLLQ_JSON": "0"} | self._leash.environment,
                pass_fds=(self._leash.handle,),
            )
        self._children[name] = Child(name, process, out, log)


def write_program(folder: Path, name: str, text: str) -> None:
    """Write a shell script that workers can run."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
