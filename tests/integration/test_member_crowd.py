"""Many connections at once: idle ones cost little, and too many are refused, not fatal."""

from __future__ import annotations

import resource
import socket
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from rollq.net.listener import descriptors_max
from tests.integration.patience import DEADLINE_S
from tests.integration.procs import MemberProcess, until
from tests.integration.talk import accepted, client, hang_up_all

WANTED = 10_000
THREADS = 4


@pytest.fixture(autouse=True)
def _hang_up() -> Iterator[None]:
    yield
    hang_up_all()


def hello(number: int) -> bytes:
    """A legacy client: its id as the subject, nothing else."""
    name = f"idle-{number}".encode()
    head = struct.pack("<IB16s16sH", 39 + len(name), 9, b"", b"", len(name))
    return head + name + struct.pack("<I", 0)


def crowd(port: int, count: int) -> list[socket.socket]:
    """So many clients that say hello and then nothing."""
    sockets: list[socket.socket] = []

    def dial(numbers: range) -> None:
        for number in numbers:
            one = socket.create_connection(("127.0.0.1", port), DEADLINE_S)
            sockets.append(one)
            one.sendall(hello(number))

    threads = [
        threading.Thread(target=dial, args=(range(n, count, THREADS),)) for n in range(THREADS)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sockets


def test_ten_thousand_idle_connections(tmp_path: Path) -> None:
    count = min(WANTED, descriptors_max() - 500)
    member = MemberProcess(tmp_path / "state").start()
    process = psutil.Process(member.pid)
    before = process.memory_info().rss
    sockets: list[socket.socket] = []
    try:
        first = client(member.address, "first")
        assert accepted(first, range(1, 11))
        sockets = crowd(member.port, count)
        assert len(sockets) == count
        assert accepted(first, range(11, 21))
        until(lambda: process.num_fds() > count)
        late = client(member.address, "late")
        assert accepted(late, range(21, 31))
        assert process.memory_info().rss - before < count * 32 * 1024
    finally:
        for one in sockets:
            one.close()
    assert accepted(first, range(31, 41))
    until(lambda: process.num_fds() < 100)
    assert member.stop() == 0


def test_more_connections_than_descriptors_are_refused_and_the_log_goes_on(tmp_path: Path) -> None:
    limit = 300  # of which the member keeps 256 for itself
    member = MemberProcess(
        tmp_path / "state",
        prefix=("/bin/sh", "-c", f'ulimit -n {limit}; exec "$@"', "sh"),
        snapshot_entries=20,
    ).start()
    assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] > limit
    first = client(member.address, "first")
    sockets = [
        socket.create_connection(("127.0.0.1", member.port), DEADLINE_S) for _ in range(limit)
    ]
    try:
        member.until_line("more than 44 connections")
        for number in range(1, 60):  # also snapshots, which open files
            assert accepted(first, [number])
        until(lambda: list((tmp_path / "state" / "snapshots").glob("*.snap")))
    finally:
        for one in sockets:
            one.close()

    def is_served() -> bool:
        try:
            client(member.address, "late").close()
        except ConnectionError:
            return False
        return True

    until(is_served)
    assert member.stop() == 0
