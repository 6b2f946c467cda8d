"""The processes of a round, and what they left behind."""

from __future__ import annotations

import contextlib
import re
import shutil
import signal
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench.chaos.load import PROGRAM
from bench.chaos.wires import Way, Wires
from bench.peers.rollq_failover import ends_in_history
from bench.procs import READY_S_MAX, Process, python, wait_until

MEMBERS: Final = ("m1", "m2", "m3")
WORKERS: Final = ("w1", "w2")
CLIENT: Final = "c1"
SCRIPT: Final = '#!/bin/sh\n: > "$1/$2.$$"\nexec sleep "$3"\n'
LEADS: Final = re.compile(rb"this member is the leader in term (\d+)")
LOAD_S_MAX: Final = 150.0


@dataclass(slots=True)
class Notes:
    """What the client wrote down: (when, key), in order."""

    asks: list[tuple[float, str]] = field(default_factory=list)
    acks: list[tuple[float, str]] = field(default_factory=list)
    results: list[tuple[float, str]] = field(default_factory=list)
    bad: list[str] = field(default_factory=list)


class Grid:
    """Three members, two workers and a client on some wires. `with` ends all of them."""

    def __init__(self, folder: Path, wires: Wires) -> None:
        self.wires = wires
        self.processes: dict[str, Process] = {}
        self._folder = folder
        self._runs = folder / "runs"
        self._programs = folder / "programs"

    def __enter__(self) -> Grid:
        try:
            self._start()
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    # --- faults

    def leader(self) -> str:
        """The member that was elected last, by what they log."""
        wait_until(lambda: any(self._term(name) for name in MEMBERS), "a leader")
        terms = {name: self._term(name) for name in MEMBERS}
        return max(terms, key=lambda name: terms[name])

    def stop(self, *names: str) -> None:
        """SIGSTOP."""
        for name in names:
            self.processes[name].signal(signal.SIGSTOP)

    def go_on(self, *names: str) -> None:
        """SIGCONT."""
        for name in names:
            self.processes[name].signal(signal.SIGCONT)

    def others(self, name: str) -> list[str]:
        """All hosts but one."""
        return [one for one in (*MEMBERS, *WORKERS, CLIENT) if one != name]

    def cut(self, some: list[str], others: list[str]) -> None:
        """Nothing goes between the ones and the others."""
        ways: list[Way] = [(a, b) for a in some for b in others]
        self.wires.swallow([*ways, *((b, a) for a, b in ways)])

    # --- the load

    def notes(self) -> Notes:
        """What the client knows by now."""
        notes = Notes()
        tables = {"asks": notes.asks, "ack": notes.acks, "result": notes.results}
        for line in (self._folder / "client.txt").read_text().splitlines():
            at, what, key, *rest = line.split(" ")
            if what in tables:
                tables[what].append((float(at), key))
            if what == "refused" or (what == "result" and rest != ["OK"]):
                notes.bad.append(line)
        return notes

    def until(
        self, is_so: Callable[[Notes], bool], what: str, seconds: float = READY_S_MAX
    ) -> None:
        """Wait until the client has noted something."""
        self.processes[CLIENT].wait_for(lambda: is_so(self.notes()), what, seconds)

    def end_load(self) -> None:
        """Submit no more, and wait for the results."""
        self.processes[CLIENT].signal(signal.SIGTERM)
        self.processes[CLIENT].wait(LOAD_S_MAX)

    def runs_again(self) -> int:
        """How often programs were started beyond once a job."""
        files = [path.name.partition(".")[0] for path in self._runs.iterdir()]
        return len(files) - len(set(files))

    def ended_twice(self) -> int:
        """By the history of all members, after they were stopped."""
        ends = ends_in_history([self._folder / name for name in MEMBERS])
        return sum(count - 1 for count in ends.values())

    def stop_members(self) -> None:
        """Politely, so that their history is sealed."""
        for name in (*WORKERS, *MEMBERS):
            self.processes.pop(name).stop()

    # --- processes

    def _start(self) -> None:
        self._runs.mkdir(parents=True)
        self._programs.mkdir()
        script = self._programs / PROGRAM
        script.write_text(SCRIPT)
        script.chmod(0o755)
        wires = self.wires
        for name in MEMBERS:
            host, port = wires.listen(name)
            peers = ",".join(wires.address(other) for other in MEMBERS if other != name)
            argv = ["leader", str(port), "--host", host, "--advertise", wires.address(name)]
            argv += ["--peers", peers, "--state", str(self._folder / name), "--no-columns"]
            argv += ["--unsafe-no-auth"]  # hosts of their own, on wires of our own
            self._run(name, python("rollq", *argv))
        self.leader()
        host, _, port_text = wires.address(MEMBERS[0]).rpartition(":")
        for name in WORKERS:
            argv = ["worker", host, port_text, "--servers", self.servers, "--name", name]
            argv += ["--exec-dir", str(self._programs), "--jobs-dir", str(self._folder / "jobs")]
            argv += ["--state", str(self._folder / name), "--cpu-cap", "1"]
            argv += ["--unsafe-no-auth"]
            self._run(name, python("rollq", *argv))
        log = self._folder / "client.txt"
        log.touch()
        self._run(CLIENT, python("bench.chaos.load", self.servers, str(log), str(self._runs)))
        self.until(lambda notes: len(notes.results) >= 20, "the first results")

    @property
    def servers(self) -> str:
        """Every member's address."""
        return ",".join(map(self.wires.address, MEMBERS))

    def _run(self, name: str, argv: list[str]) -> None:
        argv = [*self.wires.prefix(name), *argv]
        process = Process(argv, self._folder / f"{name}.log")
        self.processes[name] = process
        self.wires.started(name, process.pid)

    def _term(self, name: str) -> int:
        with contextlib.suppress(OSError):
            found = LEADS.findall((self._folder / f"{name}.log").read_bytes())
            return int(found[-1]) if found else 0
        return 0

    def _end(self) -> None:
        for process in self.processes.values():
            process.kill()
        self.processes.clear()
        self.wires.close()
        shutil.rmtree(self._folder, ignore_errors=True)
