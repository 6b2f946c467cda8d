"""From the wheel of an earlier commit to that of this one: three members and a worker with data,
one restarted after another while clients of both versions submit without pause.

What an earlier version accepted must be there and end under this one: files, jobs of a queue that
is paused, jobs that wait for their time. At the end the histories of all members are compared.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from rollq.cli.audit import audit
from rollq.cli.fleet import write_program
from rollq.net.ports import free_ports
from tests.integration.patience import DEADLINE_S
from tests.integration.processes import Processes
from tests.integration.procs import until
from tests.release.environments import ROOT, Environment, build, install, sources_of

GROUP = "g1"
PAPER = "日本語 and bytes\n" * 10_000  # a file that is not inline
MORE = 50  # jobs that must have ended between two steps, of each client

# A client of whichever version runs it: submits until its input ends, and checks every result.
LOAD = """
import sys, threading
from rollq import BlockingClient

over = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), over.set()), daemon=True).start()
with BlockingClient(sys.argv[1], timeout=120) as client:
    number = 0
    while not over.is_set():
        jobs = {n: client.submit("echo-it", [str(n)]) for n in range(number, number + 8)}
        for n, job in jobs.items():
            assert job.result(timeout=120).stdout == f"{n}\\n"
        number += len(jobs)
        print(number, flush=True)
"""


def main() -> None:
    """Build both, install both, and go from one to the other."""
    parser = argparse.ArgumentParser(prog="python -m tests.release.upgrade", description=__doc__)
    parser.add_argument("commit", help="of this repository, from which the upgrade starts")
    commit = parser.parse_args().commit
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        old_sources = sources_of(commit, folder / "sources")
        old = install(build(old_sources, folder / "dist-old")[1], folder / "old")
        new = install(build(ROOT, folder / "dist-new")[1], folder / "new")
        print(f"from {commit} to {new.run('rollq', '--version').strip()}", flush=True)
        (folder / "grid").mkdir()
        with Processes(folder / "grid") as processes:
            upgrade(Group(processes), old, new)


def upgrade(group: Group, old: Environment, new: Environment) -> None:
    """The story: data, load, members, worker, and the end of all that was begun."""
    group.change_to(old)
    for number in range(3):
        group.start_member(number)
    group.start_worker()
    kept = group.leave_data()
    loads = [Load(environment, group) for environment in (old, new)]
    until_more(loads)
    group.change_to(new)
    for number in group.followers_first():
        group.processes.stop(f"member-{number}")
        group.start_member(number)
        until(partial(group.has_caught_up, number))
        until_more(loads)
        print(f"member {number + 1} is upgraded, and jobs go on", flush=True)
    group.processes.stop("worker")
    group.start_worker()
    until_more(loads)
    print("the worker is upgraded, and jobs go on", flush=True)
    group.check_data(kept)
    ended = [load.stop() for load in loads]
    print(f"jobs under load: {ended[0]} of an old client, {ended[1]} of a new one")
    for number in range(3):
        group.processes.stop(f"member-{number}")
    found = audit([group.processes.directory / f"state/{port}" for port in group.ports])
    wrong = [*found.problems, *found.lost, *found.ended_twice]
    assert not wrong, wrong
    print(f"{found.rows} rows of history on {found.members} members; each job ended once")


class Group:
    """Three members and a worker, of the version that is set when they are started."""

    def __init__(self, processes: Processes) -> None:
        self.processes = processes
        self.ports = free_ports(3)
        self.addresses = [f"127.0.0.1:{port}" for port in self.ports]
        self.servers = ",".join(self.addresses)
        self._rollq: Callable[..., str] = lambda *_: ""
        self._starts: dict[str, int] = {}
        write_program(processes.directory / "exec", "echo-it", 'echo "$1"')
        write_program(processes.directory / "exec", "copy", 'cat "$1" > copy.txt')

    def change_to(self, environment: Environment) -> None:
        """Use this version from now on."""
        self.processes.python = str(environment.bin / "python")
        self._rollq = partial(environment.run, "rollq")

    def start_member(self, number: int) -> None:
        """Start a member, and wait until it serves."""
        peers = ",".join(one for one in self.addresses if one != self.addresses[number])
        words = ["leader", str(self.ports[number]), "--group", GROUP, "--peers", peers]
        # Few entries, so that snapshots of the old version are read by the new one.
        self._start(f"member-{number}", "rollq member", [*words, "--snapshot-entries", "200"])

    def start_worker(self) -> None:
        """Start the worker, and wait until it has found the leader."""
        words = ["worker", "127.0.0.1", str(self.ports[0]), "--servers", self.servers]
        self._start("worker", "connected to leader", [*words, "--exec-dir", "exec", "--slots", "2"])

    def leave_data(self) -> list[str]:
        """Jobs whose end or whose files are asked for later: one with an output file, one in a
        queue that is paused, one that waits for its time, and an array."""
        paper = self.processes.directory / "paper.txt"
        paper.write_text(PAPER, encoding="utf-8")
        copy = self._ask("submit", "copy", "paper.txt", "--file", str(paper)).strip()
        self._ask("wait", copy)
        self._ask("queue", "pause", "later")
        words = [["--queue", "later"], ["--delay", "3600"], ["--queue", "later", "--array", "20"]]
        return [copy, *(self._ask("submit", "echo-it", "kept", *one).strip() for one in words)]

    def check_data(self, kept: list[str]) -> None:
        """What was left by the old version ends under the new one."""
        copy, paused, delayed, array = kept
        folder = self.processes.directory / "fetched"
        self._ask("fetch", copy, "--save", str(folder))
        assert (folder / "copy.txt").read_text(encoding="utf-8") == PAPER
        self._ask("queue", "resume", "later")
        self._ask("wait", paused, array)
        assert self._ask("logs", paused) == "kept\n"
        assert json.loads(self._ask("job", delayed, "--json"))["state"] == "delayed"
        self._ask("cancel", delayed)
        print("what the old version kept is there: files, paused, delayed and array jobs")

    def followers_first(self) -> list[int]:
        """The numbers of the members, the leader last."""
        leader = self._status()["leader"]
        return sorted(range(3), key=lambda number: self.addresses[number] == leader)

    def has_caught_up(self, number: int) -> bool:
        """Whether a member has all that the leader has."""
        members = self._status()["members"]
        (one,) = (one for one in members if one["address"] == self.addresses[number])
        return bool(one["active"]) and one["lag"] == 0

    def _status(self) -> Any:
        return json.loads(self._ask("cluster", "status", "--json"))

    def _ask(self, *words: str) -> str:
        return self._rollq(*words, "--servers", self.servers, "--timeout", str(DEADLINE_S))

    def _start(self, name: str, ready: str, words: list[str]) -> None:
        self._starts[name] = self._starts.get(name, 0) + 1
        self.processes.start(name, *words)
        self.processes.until_said(name, ready, self._starts[name])


class Load:
    """A client in a process of its own, of one version."""

    def __init__(self, environment: Environment, group: Group) -> None:
        self._log = environment.folder / "load.log"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [str(environment.bin / "python"), "-c", LOAD, group.servers],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=subprocess.STDOUT,
                cwd=environment.folder,
            )

    @property
    def ended(self) -> int:
        """How many of its jobs have ended well."""
        said = self._log.read_text(encoding="utf-8")
        assert self._process.poll() is None, said
        lines = said.split("\n")
        return int(lines[-2]) if len(lines) > 1 else 0

    def stop(self) -> int:
        """Let it end; how many jobs it saw to their end."""
        self._process.communicate(timeout=2 * DEADLINE_S)
        said = self._log.read_text(encoding="utf-8")
        assert self._process.returncode == 0, said
        return int(said.split()[-1])


def until_more(loads: list[Load]) -> None:
    """Wait until every client has seen some more jobs end."""
    wanted = [load.ended + MORE for load in loads]
    until(lambda: all(load.ended >= least for load, least in zip(loads, wanted, strict=True)))


if __name__ == "__main__":
    main()
