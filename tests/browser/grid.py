"""A real grid with pages: three members, each with `--http`, and two workers."""

from __future__ import annotations

import os
import stat
import textwrap
import urllib.request
from pathlib import Path
from typing import Any, Self

import msgspec

from rollq import BlockingClient
from rollq.net.ports import free_ports
from tests.integration.patience import DEADLINE_S
from tests.integration.processes import Processes
from tests.integration.procs import until

PROGRAMS = {
    "hello": 'echo "hello $*"; echo "from stderr" >&2',
    # Says a line each time that its file is touched by the test, and ends when `gate` is there.
    "gated": 'echo "line one"; while ! [ -e "$1" ]; do sleep 0.05; done; echo "line two"',
    "fails": 'echo "about to fail"; echo "no such thing: $1" >&2; exit 3',
    "checks": '[ "$1" = good ] || { echo "bad argument: $1" >&2; exit 4; }; echo fine',
    "odd": "exit $((ROLLQ_TASK % 2))",
    "writes": 'printf "a,b\\n1,2\\n" > table.csv; echo written',
    "shouts": "printf '<script>document.title=\"taken\"</script><img src=x>\\n'",
}


class BrowserGrid(Processes):
    """Three members with pages and two workers, by name: `member0` to `member2`, `worker0`, …"""

    def __init__(self, directory: Path, members: int = 3) -> None:
        super().__init__(directory)
        ports = free_ports(2 * members)
        self.ports, self.http_ports = ports[:members], ports[members:]
        self.addresses = [f"127.0.0.1:{port}" for port in self.ports]
        self.failed = ""  # the id of a job that failed, once there is one
        self.array = ""
        self.batch = ""

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            super().__exit__()
            raise
        return self

    def _start(self) -> None:
        programs = self.directory / "exec"
        programs.mkdir()
        for name, text in PROGRAMS.items():
            path = programs / name
            path.write_text(f"#!/bin/sh\n{textwrap.dedent(text)}\n", encoding="utf-8")
            path.chmod(path.stat().st_mode | stat.S_IXUSR)
        for number in range(len(self.ports)):
            self.start_member(number)
        for number in range(2):
            self.start_worker(f"worker{number}")
        for number in range(2):
            self.until_said(f"worker{number}", "connected to leader")
        self.client = BlockingClient(
            ",".join(self.addresses), client_id="tests", timeout=DEADLINE_S
        ).__enter__()
        until(lambda: len(list(self.client.workers())) == 2)
        for number in range(len(self.ports)):
            until(lambda number=number: self.is_ready(number))  # type: ignore[misc]

    def __exit__(self, *exc: object) -> None:
        self.client.__exit__(None, None, None)
        super().__exit__(*exc)

    def start_member(self, number: int) -> None:
        """Start a member on what it left on disk."""
        peers = ",".join(one for one in self.addresses if one != self.addresses[number])
        self.start(
            f"member{number}",
            *("leader", str(self.ports[number]), "--state", f"state{number}"),
            *(("--peers", peers) if peers else ()),
            *("--http", str(self.http_ports[number])),
        )

    def start_worker(self, name: str, *words: str) -> None:
        """Start a worker that runs the programs above."""
        self.start(
            name,
            *("worker", "127.0.0.1", str(self.ports[0]), "--servers", ",".join(self.addresses)),
            *("--exec-dir", "exec", "--jobs-dir", f"jobs-{name}", "--state", f"state-{name}"),
            *("--name", name, "--cpu-cap", "1.0"),
            *words,
        )

    def url(self, number: int) -> str:
        """Of the pages of a member."""
        return f"http://127.0.0.1:{self.http_ports[number]}"

    def ask(self, number: int, path: str) -> Any:
        """What the HTTP interface of a member answers."""
        with urllib.request.urlopen(f"{self.url(number)}{path}", timeout=DEADLINE_S) as answer:
            return msgspec.json.decode(answer.read())

    def is_ready(self, number: int) -> bool:
        """Whether the pages of a member reach it."""
        try:
            with urllib.request.urlopen(f"{self.url(number)}/readyz", timeout=DEADLINE_S):
                return True
        except OSError:
            return False

    def leader(self) -> int:
        """Which member leads."""
        self.client.counts()
        return self.addresses.index(self.client.leader)

    def gate(self, name: str) -> Path:
        """A file for which `gated` waits."""
        return self.directory / f"gate-{name}-{os.getpid()}"
