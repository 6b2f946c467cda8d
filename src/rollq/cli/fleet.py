"""A small grid of real processes below one folder, for demonstrations: started, killed, started
again, and gone at the end with everything they wrote. They end with us, whatever ends us."""

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
    """One process, and the files that it writes to."""

    name: str
    process: subprocess.Popen[bytes]
    out: Path
    log: Path

    @property
    def is_alive(self) -> bool:
        """Whether it runs."""
        return self.process.poll() is None


class Fleet:
    """Members and workers as processes. Use it as a context: leaving it stops them all."""

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
        """All members, as clients want them."""
        return ",".join(self.addresses)

    def state_of(self, address: str) -> Path:
        """The state directory of a member."""
        return self.root / "state" / address.rpartition(":")[2]

    def pid_of(self, address: str) -> int:
        """The process of a member."""
        return self._children[address].process.pid

    def is_alive(self, name: str) -> bool:
        """Whether a member or worker runs."""
        return self._children[name].is_alive

    def exit_code_of(self, name: str) -> int | None:
        """How a member or worker ended; None if it runs."""
        return self._children[name].process.poll()

    def log_of(self, name: str) -> str:
        """What a member or worker has logged."""
        return self._children[name].log.read_text(encoding="utf-8", errors="replace")

    def start_members(self, ports: list[int], *options: str) -> None:
        """Start members that are each other's peers; returns when all listen."""
        self.addresses = [f"127.0.0.1:{port}" for port in ports]
        for address in self.addresses:
            self.start_member(address, *options)
        for address in self.addresses:
            self.await_line(address, "serves on")

    def start_member(self, address: str, *options: str) -> None:
        """Start one member, for the first time or again."""
        others = ",".join(other for other in self.addresses if other != address)
        port = address.rpartition(":")[2]
        peers = ["--peers", others] if others else []
        state = str(self.state_of(address))
        self._start(address, "leader", port, "--state", state, *peers, *options)

    def start_worker(self, name: str, *options: str) -> None:
        """Start a worker of this grid; returns when it runs."""
        host, _, port = self.addresses[0].rpartition(":")
        self._start(
            name,
            *("worker", host, port, "--name", name, "--servers", self.servers),
            *("--state", str(self.root / name), "--jobs-dir", str(self.root / "jobs"), *options),
        )
        self.await_line(name, "looking for a member")

    def kill(self, name: str) -> None:
        """kill -9."""
        child = self._children[name]
        child.process.kill()
        child.process.wait()

    def await_line(self, name: str, text: str) -> None:
        """Until a child has said something on stdout."""
        child = self._children[name]
        deadline = time.monotonic() + READY_S_MAX
        while text not in child.out.read_text(encoding="utf-8", errors="replace"):
            if not child.is_alive or time.monotonic() > deadline:
                last = self.log_of(name).strip()[-2000:]
                raise DialError(ErrorCode.UNREACHABLE, f"{name} did not start: {last or 'silent'}")
            time.sleep(POLL_S)

    def stop(self) -> None:
        """Ask all to stop, workers first; end those that do not."""
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
                start_new_session=True,  # Ctrl-C is ours to pass on, in the right order
                env=os.environ | {"ROLLQ_JSON": "0"} | self._leash.environment,
                pass_fds=(self._leash.handle,),
            )
        self._children[name] = Child(name, process, out, log)


def write_program(folder: Path, name: str, text: str) -> None:
    """A shell script that workers can run."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    path.write_text(f"#!/bin/sh\n{text}\n", encoding="utf-8")
    path.chmod(0o755)
