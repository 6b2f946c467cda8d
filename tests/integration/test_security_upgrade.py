"""TLS and authentication are switched on under load, in the order of docs/security.md: nothing is
lost, and clients and workers find their way by themselves."""

from __future__ import annotations

import json
import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from rollq.cli.fleet import write_program
from rollq.cli.main import app
from rollq.net.ports import free_ports
from rollq.roles.client.blocking.clients import BlockingClient
from tests.integration.patience import DEADLINE_S
from tests.integration.processes import Processes
from tests.integration.procs import until

IN_FLIGHT = 8
MORE = 20  # jobs that must have ended between two steps
ALLOW = ("--tls", "allow", "--auth", "allow")
REQUIRE = ("--tls", "require", "--auth", "require")


class Changing:
    """Three members and a worker, first without and then with credentials."""

    def __init__(self, processes: Processes) -> None:
        self.processes = processes
        self.directory = processes.directory / "cluster"
        self.addresses = [f"127.0.0.1:{port}" for port in free_ports(3)]
        self.servers = ",".join(self.addresses)
        self._starts: dict[str, int] = {}
        self.run("init", str(self.directory), "--hosts", self.servers)
        for number in (1, 2, 3):
            (self.directory / f"member-{number}" / "cluster.key").unlink()
        write_program(self.directory / "exec", "echo-it", 'echo "$1"')

    def start_member(self, number: int, *options: str) -> None:
        """Start a member, and wait until it serves."""
        name = f"member-{number}"
        words = ["leader", self.addresses[number - 1].rpartition(":")[2], "--group", "g1"]
        words += ["--peers", ",".join(a for a in self.addresses if a != self.addresses[number - 1])]
        if options:
            words += ["--credentials", str(self.directory / name), *options]
        self._start(name, "rollq member", words)

    def start_worker(self, *options: str) -> None:
        """Start the worker, and wait until it has found the leader."""
        host, _, port = self.addresses[0].rpartition(":")
        words = ["worker", host, port, "--servers", self.servers, "--cpu-cap", "1", *options]
        words += ["--exec-dir", str(self.directory / "exec")]
        self._start("worker", "connected to leader", words)

    def restart_members(self, who: str, *options: str) -> Iterator[str]:
        """Restart members one by one with these options, the leader last, each when the last one
        has caught up. Gives the name of each as it is back."""
        leader = self.look(who)["leader"]
        for number in sorted((1, 2, 3), key=lambda one: self.addresses[one - 1] == leader):
            self.processes.stop(f"member-{number}")
            self.start_member(number, *options)
            address = self.addresses[number - 1]
            until(partial(self._has_caught_up, who, address))
            yield f"member-{number}"

    def look(self, who: str = "") -> Any:
        """The group, as a plain link or the holder of credentials sees it."""
        words = ("cluster", "status", "--json", "-s", self.servers, *self.credentials(who))
        return json.loads(self.run(*words))

    def credentials(self, who: str) -> list[str]:
        """Options that give somebody's credentials; nobody has none."""
        return ["--credentials", str(self.directory / who)] if who else []

    def _has_caught_up(self, who: str, address: str) -> bool:
        (member,) = (one for one in self.look(who)["members"] if one["address"] == address)
        # Under load it is always some entries behind.
        return bool(member["active"]) and member["lag"] <= 4 * IN_FLIGHT

    def _start(self, name: str, ready: str, words: list[str]) -> None:
        self._starts[name] = self._starts.get(name, 0) + 1
        self.processes.start(name, *words)
        self.processes.until_said(name, ready, self._starts[name])

    def run(self, *words: str) -> str:
        """What a command says that must end well."""
        result = CliRunner().invoke(app, words, env={"ROLLQ_TIMEOUT": "60"})
        assert result.exit_code == 0, f"{words}: {result.output}"
        return result.stdout


class Load:
    """One client that submits without pause, a few at a time, and checks every result."""

    def __init__(self, name: str, servers: str, credentials: Path | str) -> None:
        self.ended = 0
        self.accepted = 0
        self.failure: BaseException | None = None
        self._name = name
        self._client = BlockingClient(
            servers, client_id=f"client/{name}", credentials=credentials, timeout=DEADLINE_S
        )
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def until_more(self) -> None:
        """Wait until some more jobs have ended."""
        wanted = self.ended + MORE
        until(lambda: self.ended >= wanted or self.failure is not None)
        assert self.failure is None, self.failure

    @contextmanager
    def going_on(self) -> Iterator[None]:
        """Run beside what is done inside; at the end all that was accepted has ended well."""
        self._thread.start()
        try:
            yield
        finally:
            self._is_over.set()
            self._thread.join(2 * DEADLINE_S)
        assert self.failure is None, self.failure
        assert self.ended == self.accepted

    def _run(self) -> None:
        try:
            with self._client as client:
                waiting: deque[tuple[str, Any]] = deque()
                while waiting or not self._is_over.is_set():
                    while len(waiting) < IN_FLIGHT and not self._is_over.is_set():
                        text = f"{self._name}-{self.accepted}"
                        waiting.append((text, client.submit("echo-it", [text])))
                        self.accepted += 1
                    text, handle = waiting.popleft()
                    result = handle.result(timeout=DEADLINE_S)
                    assert (result.ok, result.stdout) == (True, f"{text}\n"), result
                    self.ended += 1
        except BaseException as error:
            self.failure = error


def test_tls_and_logins_are_switched_on_under_load(tmp_path: Path) -> None:
    with Processes(tmp_path) as processes:
        cluster = Changing(processes)
        for number in (1, 2, 3):
            cluster.start_member(number)
        cluster.start_worker()
        plain = Load("plain", cluster.servers, "")
        with plain.going_on():
            plain.until_more()
            for _ in cluster.restart_members("", *ALLOW):
                plain.until_more()
            processes.stop("worker")
            cluster.start_worker("--credentials", str(cluster.directory / "worker-1"))
            plain.until_more()
        holder = Load("holder", cluster.servers, cluster.directory / "client")
        with holder.going_on():
            holder.until_more()
            for _ in cluster.restart_members("admin", *REQUIRE):
                holder.until_more()
        jobs = cluster.run("status", "--json", "-s", cluster.servers, *cluster.credentials("admin"))
        ended = json.loads(jobs)["jobs"]
        assert {state: count for state, count in ended.items() if count and state != "ok"} == {}
        refused = CliRunner().invoke(app, ["status", "-s", cluster.servers, "--timeout", "60"])
        assert "[tls_required]" in refused.stderr
        print(f"jobs: {plain.ended} of a plain client, {holder.ended} of one with credentials")
