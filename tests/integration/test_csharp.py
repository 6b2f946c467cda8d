"""A client and a worker in C#, as the author of a legacy peer would write them.

Their source is `csharp/Peer.cs`. Where a compiler of Mono is installed (Debian: `mono-mcs` and
`mono-runtime`) they run against three members; what they send in a fixed conversation is in
`csharp/golden`, and is replayed everywhere.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration import talk
from tests.integration.legacy_peer import Peer, hang_up
from tests.integration.patience import DEADLINE_S
from tests.integration.procs import MemberProcess, Members

HERE = Path(__file__).parent / "csharp"
GOLDEN = HERE / "golden"
NEEDS_MONO = pytest.mark.skipif(
    not shutil.which("mcs") or not shutil.which("mono"),
    reason="needs mcs and mono (Debian: apt-get install mono-mcs mono-runtime)",
)
JOBS = int(os.environ.get("ROLLQ_CSHARP_JOBS", "12"))
BYTES = 2_200_000  # of a file in a job, and of its output: three megabytes in base64


@pytest.fixture(autouse=True)
def _hang_up() -> Iterator[None]:
    """Nothing stays open after a test."""
    yield
    hang_up()
    talk.hang_up_all()


@pytest.fixture(scope="module")
def peer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The peers, compiled."""
    program = tmp_path_factory.mktemp("csharp") / "peer.exe"
    subprocess.run(["mcs", f"-out:{program}", str(HERE / "Peer.cs")], check=True)
    return program


def test_the_bytes_of_csharp_peers_are_understood(tmp_path: Path) -> None:
    member = MemberProcess(tmp_path / "state").start()
    worker, client = Peer(member.port), Peer(member.port)
    worker.socket.sendall((GOLDEN / "worker.bin").read_bytes())
    client.socket.sendall((GOLDEN / "client.bin").read_bytes())
    assert exactly(worker, "assigned.bin") == (GOLDEN / "assigned.bin").read_bytes()
    worker.socket.sendall((GOLDEN / "ack.bin").read_bytes())
    assert exactly(client, "result.bin") == (GOLDEN / "result.bin").read_bytes()
    assert member.stop() == 0


def exactly(one: Peer, name: str) -> bytes:
    """As many bytes of what a peer is sent as a golden file has."""
    count = (GOLDEN / name).stat().st_size
    data = b""
    while len(data) < count:
        piece = one.socket.recv(count - len(data))
        assert piece, "the member hung up"
        data += piece
    return data


@NEEDS_MONO
def test_the_golden_bytes_are_those_of_the_source(peer: Path, tmp_path: Path) -> None:
    subprocess.run(["mono", str(peer), "golden", str(tmp_path)], check=True)
    for golden in GOLDEN.iterdir():
        assert (tmp_path / golden.name).read_bytes() == golden.read_bytes(), golden.name


@NEEDS_MONO
def test_megabytes_go_both_ways_through_a_change_of_leader(peer: Path, tmp_path: Path) -> None:
    with Members(tmp_path, 3) as members:
        leader, _ = talk.find_leader(members.addresses)
        addresses = ",".join(members.addresses)
        worker = start(peer, "worker", addresses, "calcA", "4")
        client = start(peer, "client", addresses, "calcA", str(JOBS), str(BYTES))
        try:
            lines = []
            assert client.stdout is not None
            for line in client.stdout:
                lines.append(line.strip())
                if line.strip() == f"result {JOBS // 3}":
                    members.at(leader).kill()
            assert client.wait(DEADLINE_S) == 0, lines
            assert lines[-1] == f"{JOBS} of {JOBS}"
        finally:
            for process in (worker, client):
                process.kill()
                process.wait()
                if process.stdout is not None:
                    process.stdout.close()


def start(peer: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(["mono", str(peer), *arguments], stdout=subprocess.PIPE, text=True)
