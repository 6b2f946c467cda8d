"""Groups of one member and one worker each, and a router before them, as processes."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from rollq.net.ports import free_ports
from tests.integration.procs import ROOT, MemberProcess

CALC = "#!/bin/sh\necho got $1 {name}\n"
COPY = "#!/bin/sh\ncat in.bin > out.bin\necho {name}\n"
NAP = "#!/bin/sh\nsleep $1\n"


class CliProcess(MemberProcess):
    """A command of ours that runs until it is told to stop."""

    def __init__(self, directory: Path, port: int, *words: str) -> None:
        super().__init__(directory, port)
        self._words = words

    def spawn(self) -> MemberProcess:
        """Start it, and do not wait."""
        self.lines.clear()
        self.state.mkdir(parents=True, exist_ok=True)
        self._process = subprocess.Popen(
            [sys.executable, "-m", "rollq", *self._words],
            cwd=self.state,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env=os.environ | {"PYTHONPATH": str(ROOT / "src")},
        )
        self._reader = threading.Thread(target=self._read, args=(self._process,), daemon=True)
        self._reader.start()
        return self


class RoutedGrid:
    """Some groups, and a router.

    Attributes:
        address: Of the router.
        members, workers: By group.
        router: The process.
    """

    def __init__(self, directory: Path, count: int, *options: str) -> None:
        self.port, *ports = free_ports(count + 1)
        self.address = f"127.0.0.1:{self.port}"
        self.members: list[MemberProcess] = []
        self.workers: list[MemberProcess] = []
        groups: list[str] = []
        for number, port in enumerate(ports):
            name, folder = f"g{number}", directory / f"g{number}"
            for program, text in (("calc", CALC), ("copy", COPY), ("nap", NAP)):
                path = folder / "exec" / program
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text.format(name=name))
                path.chmod(0o755)
            self.members.append(MemberProcess(folder / "state", port, group=name))
            words = ("worker", "127.0.0.1", str(port), "--exec-dir", "exec", "--slots", "2")
            self.workers.append(CliProcess(folder, port, *words, "--cpu-cap", "1"))
            groups += ["--group", f"{name}=127.0.0.1:{port}"]
        routing = ("router", "--listen", self.address, *groups, *options)
        self.router = CliProcess(directory / "router", self.port, *routing)

    @contextlib.contextmanager
    def running(self) -> Iterator[RoutedGrid]:
        """Within this, all of it serves."""
        everybody = [*self.members, *self.workers, self.router]
        try:
            for member in self.members:
                member.spawn()
            for member in self.members:
                member.until_line("serving")
            for worker in self.workers:
                worker.spawn()
            self.start_router()
            yield self
        finally:
            for one in everybody:
                one.kill()

    def start_router(self) -> None:
        """Start it; returns when it serves."""
        self.router.spawn()
        self.router.until_line("serves on")


def ends_of(stdout: str) -> list[dict[str, object]]:
    """What a command wrote as JSON, a line each."""
    return [json.loads(line) for line in stdout.splitlines()]
