"""Pages beside real members: what is killed, and what goes on."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from rollq.net.ports import free_ports
from tests.integration.patience import DEADLINE_S
from tests.integration.processes import Processes
from tests.integration.procs import until


class Grid:
    """Three members with pages, and a worker."""

    def __init__(self, directory: Path, processes: Processes) -> None:
        (directory / "exec").mkdir()
        program = directory / "exec" / "hello"
        program.write_text('#!/bin/sh\necho hello "$@"\n')
        program.chmod(0o755)
        ports = free_ports(6)
        self.processes = processes
        self.addresses = [f"127.0.0.1:{port}" for port in ports[:3]]
        self.pages = dict(zip(self.addresses, ports[3:], strict=True))
        for address, page in self.pages.items():
            peers = ",".join(one for one in self.addresses if one != address)
            port = address.rpartition(":")[2]
            words = ("--peers", peers, "--http", str(page), "--state", f"state-{port}")
            processes.start(address, "leader", port, *words)
        first = self.addresses[0].rpartition(":")[2]
        processes.start("worker", "worker", "127.0.0.1", first, "--exec-dir", "exec")

    def client(self, address: str) -> httpx.Client:
        """Requests to the pages of a member."""
        base = f"http://127.0.0.1:{self.pages[address]}/api/v1/"
        return httpx.Client(base_url=base, timeout=DEADLINE_S)

    def leader(self, address: str) -> str:
        """Who leads, as the pages of a member say."""

        def look() -> str:
            with self.client(address) as client:
                try:
                    answer = client.get("cluster")
                except httpx.TransportError:
                    return ""
                return str(answer.json()["leader"]) if answer.status_code == 200 else ""

        return until(look)

    def pid_of_pages(self, address: str) -> int:
        """The process that serves the pages of a member; 0: there is none."""
        port = str(self.pages[address])
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                words = path.read_bytes().split(b"\0")
            except OSError:
                continue
            if b"web" in words and port.encode() in words:
                return int(path.parent.name)
        return 0


@pytest.fixture
def grid(tmp_path: Path) -> Iterator[Grid]:
    with Processes(tmp_path) as processes:
        yield Grid(tmp_path, processes)


def ended(client: httpx.Client, job_id: str) -> dict[str, Any]:
    def look() -> dict[str, Any] | None:
        answer = client.get(f"jobs/{job_id}")
        document: dict[str, Any] = answer.json()
        return document if answer.status_code == 200 and "end" in document else None

    return until(look)


def test_pages_of_a_follower_go_on_when_the_leader_is_killed(grid: Grid) -> None:
    leader = grid.leader(grid.addresses[0])
    follower = next(one for one in grid.addresses if one != leader)
    assert grid.leader(follower) == leader  # its pages are served
    with grid.client(follower) as client:
        assert client.get("overview").json()["member"] == follower
        first = client.post("jobs", json={"exec": "hello", "key": "1"})
        assert first.status_code == 201
        grid.processes.send(leader, signal.SIGKILL)
        assert client.get("jobs").status_code == 200, "it is read from the follower at once"
        second = client.post("jobs", json={"exec": "hello", "key": "2"})  # waits for the next one
        assert second.status_code == 201, second.text
        assert ended(client, second.json()["id"])["state"] == "ok"
        again = client.post("jobs", json={"exec": "hello", "key": "1"})
        assert again.json() == first.json()
    assert grid.leader(follower) in set(grid.addresses) - {leader}


def test_pages_that_are_killed_come_back_and_their_member_does_not_notice(grid: Grid) -> None:
    address = grid.addresses[0]
    grid.leader(address)
    before = grid.pid_of_pages(address)
    os.kill(before, signal.SIGKILL)
    until(lambda: grid.pid_of_pages(address) not in (0, before))
    grid.leader(address)
    assert "the web process ended (signal 9)" in grid.processes.said(address)


def test_pages_end_with_their_member(grid: Grid) -> None:
    """However that ends."""
    killed, stopped = grid.addresses[:2]
    for address in (killed, stopped):
        grid.leader(address)
    grid.processes.send(killed, signal.SIGKILL)
    until(lambda: not grid.pid_of_pages(killed))
    grid.processes.stop(stopped)
    assert not grid.pid_of_pages(stopped)
