"""What was done to other systems of this kind, tried on ours. A test is named after its case."""

from __future__ import annotations

import contextlib
import gzip
import pickle
import socket
import subprocess
import sys
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest

from rollq.base.errors import DiskError, ErrorCode, LocalError
from rollq.base.ids import NIL_ID
from rollq.base.limits import RECORD_BYTES_MAX
from rollq.net.ports import free_ports
from rollq.raft import types as raft
from rollq.security.identity import CertificateRole, parse_uri
from rollq.store.identity import NONCE_BITS
from rollq.store.record import HEADER_BYTES, find_headers
from rollq.wire import messages as wire
from rollq.wire.frame import Frame, encode_frame
from rollq.wire.header import AREAS, HAS_HEADER
from rollq.wire.login_messages import Login
from tests.integration.access_grid import access_grid
from tests.integration.patience import DEADLINE_S
from tests.integration.procs import MemberProcess, until
from tests.integration.talk import FEATURES, Talker, accepted, client, find_leader, hang_up_all
from tests.integration.test_access_links import dialed, run
from tests.unit.roles.members import Group


@pytest.fixture(scope="module")
def member(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MemberProcess]:
    process = MemberProcess(tmp_path_factory.mktemp("member")).start()
    find_leader([process.address])
    yield process
    hang_up_all()
    process.kill()


@pytest.fixture
def serves(member: MemberProcess) -> Iterator[MemberProcess]:
    """The member, which still serves when the attack is over."""
    yield member
    assert accepted(client(member.address), [1])


def said(address: str, data: bytes) -> bytes:
    """What a member answers to bytes, until it hangs up."""
    host, _, port = address.rpartition(":")
    with socket.create_connection((host, int(port)), DEADLINE_S) as link:
        link.sendall(data)
        answer = b""
        try:
            while more := link.recv(65_536):
                answer += more
        except ConnectionResetError:
            pass
    return answer


def test_cve_2023_48022_jobs_are_taken_of_anybody_who_reaches_the_port(tmp_path: Path) -> None:
    """Ray: an interface for jobs without a login, on a port that all could reach."""
    words = ("leader", str(free_ports(1)[0]), "--host", "0.0.0.0", "--state", str(tmp_path / "s"))
    refused = subprocess.run(
        [sys.executable, "-m", "rollq", *words],
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
        check=False,
    )
    assert refused.returncode == 2
    assert "[unprotected]" in refused.stderr

    async def story() -> None:
        async with access_grid(tmp_path) as grid:
            nobody = grid.credentials("nobody")
            async with dialed(grid.address, type(nobody)(ca=nobody.ca)) as words:
                answer = await words.ask(wire.HelloClient("nobody/1", 0, FEATURES))
            assert answer.code == ErrorCode.LOGIN_REQUIRED

    run(story())


def test_cve_2021_42343_a_local_cluster_listens_on_all_interfaces(tmp_path: Path) -> None:
    """Dask."""
    (port,) = free_ports(1)
    words = ("leader", str(port), "--state", str(tmp_path / "state"))
    process = subprocess.Popen(
        [sys.executable, "-m", "rollq", *words],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert set(until(lambda: listening(port))) == {"0100007F"}
    finally:
        process.kill()
        process.wait()


def listening(port: int) -> list[str]:
    """The addresses on which somebody listens at a port, as the kernel writes them."""
    lines = Path("/proc/net/tcp").read_text().splitlines()
    lines += Path("/proc/net/tcp6").read_text().splitlines()
    places = [words[1].split(":") for words in map(str.split, lines) if words[3:4] == ["0A"]]
    return [address for address, where in places if int(where, 16) == port]


def test_cve_2021_37218_the_certificate_of_a_worker_opens_consensus(tmp_path: Path) -> None:
    """Nomad: any certificate of the cluster was enough for the port of Raft."""

    async def story() -> None:
        async with access_grid(tmp_path) as grid:
            raft_before = grid.members[0].driver.raft.term
            for role in (CertificateRole.WORKER, CertificateRole.CLIENT, CertificateRole.ADMIN):
                credentials = grid.credentials(f"{role}-1", role)
                hello = grid.members[0].driver.hello(grid.address)
                vote = raft.RequestVote(hello.member_id, 9, raft_before + 1, 99, 99, transfer=True)
                async with dialed(grid.address, credentials) as words:
                    answer = await words.ask(hello, vote)
                assert answer.code == ErrorCode.ACCESS_DENIED, role
            assert grid.members[0].driver.raft.term == raft_before

    run(story())


def test_ghsa_38x3_76xf_cq45_links_between_servers_have_a_way_in_without_login(
    serves: MemberProcess,
) -> None:
    """NATS: what let clients in without a login counted for routes between servers too."""
    for login in ((), (Login("token", "anonymous", b"rollq_anonymous_" + b"1" * 40),)):
        talker = Talker(serves.address)
        hello = wire.LeaderHello(7, "127.0.0.1:1", NIL_ID, 1 << NONCE_BITS, 0)
        talker.say(*login, hello, raft.TimeoutNow(1, 7, 1))
        talker.is_over()
    refused = Talker(serves.address)
    refused.say(hello, wire.MemberReport(7, 1))
    assert refused.hear(wire.Error).code == ErrorCode.LOGIN_REQUIRED


def test_cve_2026_5724_the_stream_of_replication_is_given_to_anybody(serves: MemberProcess) -> None:
    """Temporal."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        us = f"127.0.0.1:{server.getsockname()[1]}"
        talker = Talker(serves.address)
        hello = wire.LeaderHello(7, us, NIL_ID, 1 << NONCE_BITS, 0, features=("keys",))
        talker.say(hello, wire.HistoryFetch(1, 99))
        assert talker.hear(wire.Error).code == ErrorCode.LOGIN_REQUIRED
        assert talker.is_over()


def test_cve_2026_27571_a_bomb_is_inflated_before_the_login(serves: MemberProcess) -> None:
    """NATS: compression was agreed on before anybody had logged in."""
    bomb = gzip.compress(bytes(256 * 1024 * 1024))
    before = memory_bytes(serves.pid)
    for kind in (9, 12, 21):
        said(serves.address, encode_frame(Frame(kind, NIL_ID, NIL_ID, "", bomb)))
        packed = Frame(kind | HAS_HEADER, NIL_ID, NIL_ID, "", AREAS["gzip"] + bomb)
        said(serves.address, encode_frame(packed))
    assert memory_bytes(serves.pid) - before < 128 * 1024 * 1024


def memory_bytes(pid: int) -> int:
    """The most that a process ever had."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM"))


@pytest.mark.parametrize("kind", [9, 12, 21])
@pytest.mark.parametrize("length", [0, 1, 36, 2**31, 2**32 - 1])
def test_cve_2026_27889_a_length_before_the_login_ends_the_server(
    serves: MemberProcess, kind: int, length: int
) -> None:
    """NATS, also CVE-2026-33218 and CVE-2026-33219."""
    said(serves.address, length.to_bytes(4, "little") + bytes([kind]) + bytes(64))


def test_cve_2026_33246_who_speaks_is_taken_from_what_is_said(tmp_path: Path) -> None:
    """NATS, also CVE-2026-33223: a header of the client was believed."""

    async def story() -> None:
        async with access_grid(tmp_path) as grid:
            alice = grid.credentials("alice")
            async with dialed(grid.address, alice) as words:
                answer = await words.ask(wire.HelloClient("bob/1", 0, FEATURES))
            assert answer.code == ErrorCode.ACCESS_DENIED
            async with dialed(grid.address, alice) as words:
                welcome = await words.ask(wire.HelloClient("alice/1", 0, FEATURES))
                assert isinstance(welcome, wire.Welcome)
                job = wire.SubmitJob(bytes(15) + b"\1", "bob", "show", "show", b"{}")
                answer = await words.ask(job)
            assert getattr(answer, "code", None) == ErrorCode.ACCESS_DENIED, answer

    run(story())


@pytest.mark.parametrize(
    "uri",
    [
        "rollq://grid/member/a/b",
        "rollq://grid/member/",
        "rollq://grid/MEMBER/a",
        "rollq://grid/client/a,rollq://grid/member/a",
        "rollq://grid/client/a\nrollq://grid/member/a",
        "rollq://grid/../member/a",
        "rollq://grid/member/a ",
        " rollq://grid/member/a",
        "ROLLQ://grid/member/a",
        "x-rollq://grid/member/a",
        "CN=a,O=member",
    ],
)
def test_cve_2026_33248_a_name_in_a_certificate_is_compared_loosely(uri: str) -> None:
    """NATS: who somebody is was found by a part of the name."""
    with pytest.raises(LocalError):
        parse_uri(uri)


@pytest.mark.parametrize("length", [RECORD_BYTES_MAX, RECORD_BYTES_MAX + 1, 2**31, 2**32 - 1])
def test_cve_2020_15106_a_length_in_the_log_is_believed(length: int) -> None:
    """etcd, also CVE-2020-15112: a damaged log was an allocation of any size, or the end."""
    group = Group()
    group.elect()
    group.kill("a")
    disk = group.disks["a"]
    (name,) = (f"wal/{name}" for name in disk.names("wal"))
    data = disk.read(name, 0, disk.size(name))
    at, _ = list(find_headers(data, 0, 1))[-1]
    header = bytearray(data[at : at + HEADER_BYTES - 4])
    header[-8:-4] = length.to_bytes(4, "little")
    disk.write(name, at, bytes(header) + crc32(header).to_bytes(4, "little"))
    tracemalloc.start()
    try:
        with contextlib.suppress(DiskError):
            group.start("a")
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak_bytes < 64 * 1024 * 1024


class Creates:
    """Whoever unpickles it makes a file."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return (Path.touch, (self._path,))


def test_pysyncobj_rq_and_cve_2021_23727_what_comes_in_is_unpickled(
    serves: MemberProcess, tmp_path: Path
) -> None:
    """PySyncObj between members, RQ from its queue, Celery from its results."""
    trap = tmp_path / "executed"
    payload = pickle.dumps(Creates(trap))
    pickle.loads(payload)
    assert trap.exists()  # it works
    trap.unlink()
    said(serves.address, payload)
    for kind in (9, 12, 21):
        said(serves.address, encode_frame(Frame(kind, NIL_ID, NIL_ID, "", payload)))
    talker = client(serves.address)
    assert accepted(talker, [77], payload)
    talker.say(wire.Query(b"q" * 16, "cluster", payload))
    talker.hear_any()
    assert not trap.exists()
