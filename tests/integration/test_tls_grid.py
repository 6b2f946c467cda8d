"""A whole grid over TLS: clients, worker, members, blobs, readers, worker to worker."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from rollq import BlockingClient, BlockingMultiClient, Executor, RollqError
from rollq.base.errors import DialError, ErrorCode, StateError
from rollq.net.dialer import dial
from rollq.net.link import Link
from rollq.net.ports import free_ports
from rollq.roles.reader.reader import Reader
from rollq.roles.worker.neighbours import Neighbours
from rollq.security.credentials import NONE, Credentials
from rollq.security.identity import CertificateRole
from rollq.security.mode import Mode
from rollq.wire import messages as wire
from rollq.wire.compact import Message
from tests.integration.blob_member import ref_of
from tests.integration.patience import DEADLINE_S
from tests.integration.procs import MemberProcess, until
from tests.integration.small_grid import SmallGrid
from tests.integration.test_worker_neighbours import NOBODY, store_of
from tests.integration.workers import write_program
from tests.unit.security.kit import Cluster

LARGE = os.urandom(3_000_000)


@dataclass
class Secured:
    """A grid, and who may come to it."""

    grid: SmallGrid
    client: Credentials
    worker: Credentials
    stranger: Credentials

    @property
    def address(self) -> str:
        return self.grid.address


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    cluster = Cluster(tmp_path_factory.mktemp("home"))
    member, worker, client = map(
        cluster.credentials,
        (CertificateRole.MEMBER, CertificateRole.WORKER, CertificateRole.CLIENT),
    )
    stranger = Cluster(tmp_path_factory.mktemp("away")).credentials(CertificateRole.CLIENT)
    directory = tmp_path_factory.mktemp("grid")
    write_program(directory, "copy", "cp in.bin out.bin; cat in.bin | wc -c")
    settings = {"credentials": member, "tls": Mode.REQUIRE}
    with SmallGrid(directory, member=settings, credentials=worker) as grid:
        yield Secured(grid, client, worker, stranger)


def test_a_job_with_files_small_and_large(secured: Secured) -> None:
    with BlockingClient(secured.address, credentials=secured.client.directory) as client:
        for data in (b"few bytes", LARGE):
            job = client.submit("copy", files={"in.bin": data})
            result = job.result(DEADLINE_S).raise_for_status()
            assert int(result.stdout) == len(data)
            assert result.outputs["out.bin"].read() == data


def test_other_kinds_of_clients(secured: Secured) -> None:
    credentials = secured.client
    with BlockingMultiClient([secured.address], credentials=credentials) as several:
        job = several.submit("copy", files={"in.bin": b"abc"})
        assert job.result(DEADLINE_S).ok
    with Executor(secured.address, credentials=Path(credentials.directory)) as executor:
        assert executor.submit("copy").exception(DEADLINE_S) is None


def test_a_reader_has_history_and_tables(secured: Secured) -> None:
    with Reader(secured.address, credentials=secured.client) as reader:
        span = reader.span()
        assert b"".join(piece.lines() for piece in reader.pieces(1, span.applied))
        handle = reader.table("jobs")
        for number in range(len(handle.parts)):
            assert list(reader.part(handle, number))
        reader.hold("someone", 1)
        assert [one.name for one in reader.holders()] == ["someone"]
        reader.free("someone")


def test_without_credentials_each_says_what_is_wrong(secured: Secured) -> None:
    with (
        pytest.raises(RollqError, match="only connections with TLS are accepted"),
        BlockingClient(secured.address, timeout=0.5) as client,
    ):
        client.counts()
    with pytest.raises(StateError) as told, Reader(secured.address) as reader:
        reader.span()
    assert told.value.code is ErrorCode.TLS_REQUIRED


def test_another_authority_is_told_at_once(secured: Secured) -> None:
    with (
        pytest.raises(RollqError, match=r"not in our ca\.pem"),
        BlockingClient(secured.address, timeout=0.5, credentials=secured.stranger) as client,
    ):
        client.counts()
    with (
        pytest.raises(DialError, match=r"not in our ca\.pem") as told,
        Reader(secured.address, credentials=secured.stranger) as reader,
    ):
        reader.span()
    assert told.value.code is ErrorCode.BAD_CERTIFICATE


@pytest.mark.parametrize("who", ["client", "worker", "nobody"])
def test_who_is_no_member_does_not_speak_as_one(secured: Secured, who: str) -> None:
    """Refused before the first byte of consensus, although the port is the same."""
    credentials = secured.client
    if who == "worker":
        credentials = secured.worker
    elif who == "nobody":
        credentials = Credentials(credentials.directory, credentials.ca)

    async def story() -> Message | str:
        said: asyncio.Queue[Message | str] = asyncio.Queue()

        def hear(_: Link, messages: list[Message]) -> None:
            said.put_nowait(messages[0])

        def closed(_: Link, reason: str) -> None:
            said.put_nowait(reason)

        link = await dial(secured.address, "default", hear, closed, credentials=credentials)
        link.send(wire.LeaderHello(7, "127.0.0.1:1", bytes(16), 1, 0))
        told = await said.get()
        assert isinstance(await said.get(), str), "and it is closed"
        return told

    told = asyncio.run(asyncio.wait_for(story(), DEADLINE_S))
    assert isinstance(told, wire.Error)
    assert told.code == ErrorCode.ACCESS_DENIED
    assert "the certificate of a member is asked for" in told.message


def test_blobs_from_worker_to_worker(secured: Secured, tmp_path: Path) -> None:
    async def story() -> None:
        there, here = store_of(tmp_path / "there", LARGE), store_of(tmp_path / "here")
        serving, taking = Neighbours(secured.worker), Neighbours(secured.worker)
        address = await serving.serve(there, (NOBODY,))
        for other in (Neighbours(secured.client), Neighbours(secured.stranger), Neighbours(NONE)):
            assert not await other.fetch((address,), ref_of(LARGE), here, None)
            await other.stop()
        assert await taking.fetch((address,), ref_of(LARGE), here, None)
        await taking.stop()
        await serving.stop()
        there.close()
        here.close()

    asyncio.run(asyncio.wait_for(story(), DEADLINE_S))


def test_a_worker_without_a_certificate_serves_nobody_in_the_open(
    secured: Secured, tmp_path: Path
) -> None:
    async def story() -> None:
        store = store_of(tmp_path, LARGE)
        with_token = Credentials(secured.worker.directory, secured.worker.ca)
        serving = Neighbours(with_token)
        assert await serving.serve(store, (NOBODY,)) == ""
        await serving.stop()
        store.close()

    asyncio.run(asyncio.wait_for(story(), DEADLINE_S))


class Group:
    """Members in processes, each with TLS as it is told."""

    def __init__(self, directory: Path, modes: tuple[str, ...]) -> None:
        self.cluster = Cluster(directory / "home")
        self.client = self.cluster.credentials(CertificateRole.CLIENT)
        ports = free_ports(len(modes))
        self.addresses = [f"127.0.0.1:{port}" for port in ports]
        self.members = [
            MemberProcess(
                directory / f"m{port}",
                port,
                peers=[one for one in self.addresses if one != f"127.0.0.1:{port}"],
                tls=mode,
                credentials=self.cluster.credentials(CertificateRole.MEMBER, f"m{port}").directory
                if mode != "off"
                else "",
            )
            for port, mode in zip(ports, modes, strict=True)
        ]

    def __enter__(self) -> Group:
        for member in self.members:
            member.spawn()
        return self

    def __exit__(self, *exc: object) -> None:
        for member in self.members:
            member.kill()


def is_done(change: Callable[[str], object]) -> bool:
    """Whether a change of the queue was answered. A young group may elect again, and then its
    leader cannot tell what became of it."""
    try:
        change("q")
    except StateError as error:
        if error.code is not ErrorCode.OUTCOME_UNKNOWN:
            raise
        return False
    return True


def test_members_over_tls_elect_and_elect_again(tmp_path: Path) -> None:
    with Group(tmp_path, ("require",) * 3) as group:
        servers = ",".join(group.addresses)
        with BlockingClient(servers, timeout=DEADLINE_S, credentials=group.client) as client:
            until(lambda: is_done(client.pause))
            led = client.leader
            next(one for one in group.members if one.address == led).kill()
            until(lambda: is_done(client.resume))
            assert client.leader != led


def test_members_with_and_without_tls_are_one_group_on_their_way(tmp_path: Path) -> None:
    with Group(tmp_path, ("off", "allow", "allow")) as group:
        old, *new = group.addresses
        timeout: dict[str, Any] = {"timeout": DEADLINE_S}
        with BlockingClient(",".join(group.addresses), **timeout) as client:
            until(lambda: is_done(client.pause))
        # Clients with credentials speak with those that are ready for them.
        with Reader(new, credentials=group.client) as reader:
            assert reader.span().applied
        with pytest.raises(DialError, match="does not speak TLS"):
            Reader(old, credentials=group.client, timeout_s=0.1).span()
        # One of the new ones is needed for a majority, and it speaks with the others.
        group.members[2].kill()
        with BlockingClient(",".join(group.addresses[:2]), **timeout) as client:
            until(lambda: is_done(client.resume))


def test_a_member_uses_new_files_at_sighup(tmp_path: Path) -> None:
    with Group(tmp_path, ("require",)) as group:
        (member,) = group.members
        member.until_line("serving")
        with BlockingClient(member.address, timeout=DEADLINE_S, credentials=group.client) as client:
            client.counts()
            made = Path(tmp_path / "home" / f"m{member.port}")
            group.cluster.renew(Credentials(str(made)))
            member.send(signal.SIGHUP)
            member.until_line("new links use it")
            client.counts()
            assert not any("hung up" in line for line in member.lines), "the link stays"
            with BlockingClient(
                member.address, timeout=DEADLINE_S, credentials=group.client
            ) as other:
                other.counts()
