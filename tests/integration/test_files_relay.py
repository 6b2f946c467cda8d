"""Uploads whose leader is killed, and another member leads: they go on there where they were."""

from __future__ import annotations

import asyncio
import hashlib
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from rollq import BlockingClient
from rollq.base.digests import Digest
from rollq.base.errors import ErrorCode, RollqError
from rollq.base.limits import BLOB_RELAYS_MAX, BLOB_WINDOW_BYTES, BLOB_WRITE_BYTES
from rollq.raft.types import Member
from rollq.roles.blobs import carrier
from rollq.roles.blobs.carrier import ChunkCompressor, Source
from rollq.roles.blobs.client import BlobClient
from rollq.roles.blobs.files import BytesSource
from rollq.roles.blobs.orders import Read
from rollq.roles.blobs.relay import Growth
from rollq.roles.member.blobs.relays import Relays
from rollq.wire.blob_messages import BlobChunk
from tests.integration.blob_members import MIB, followers, holders, place, run
from tests.integration.patience import DEADLINE_S
from tests.integration.procs import MemberProcess, Members, until
from tests.integration.talk import find_leader, hang_up_all
from tests.integration.test_blobs import Serving

SIZE = 24 * MIB
MIDDLE = SIZE // 2
# On the way to the leader, written there and not passed on, and what a step of writing is more.
AGAIN_MAX = 2 * BLOB_WINDOW_BYTES + BLOB_WRITE_BYTES


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Members]:
    with Members(tmp_path_factory.mktemp("members"), 3) as running:
        yield running


@pytest.fixture(autouse=True)
def _hang_up(members: Members) -> Iterator[None]:
    yield
    hang_up_all()
    for member in members.all:  # whatever became of the test, the next one has three
        if not member.is_running:
            member.start()


class Sent:
    """Counts what the client of this process reads to send it; calls somebody in its middle."""

    def __init__(
        self, monkeypatch: pytest.MonkeyPatch, in_the_middle: Callable[[], object]
    ) -> None:
        self.bytes = 0
        self.offsets: list[int] = []
        self._in_the_middle = in_the_middle
        self._is_over = threading.Event()
        self._read = carrier.read_chunks
        monkeypatch.setattr(carrier, "read_chunks", self._counted)

    def _counted(
        self, source: Source, order: Read, packer: ChunkCompressor | None
    ) -> list[BlobChunk]:
        self.bytes += order.length
        self.offsets.append(order.offset)
        if self.bytes >= MIDDLE and not self._is_over.is_set():
            self._is_over.set()
            self._in_the_middle()
        return self._read(source, order, packer)


def part_bytes(member: MemberProcess, digest: Digest) -> int:
    """What a member has of an upload."""
    part = member.state / "blobs" / "partial" / digest.hex()
    return part.stat().st_size if part.exists() else 0


def large(folder: Path) -> tuple[Path, Digest]:
    """A file that takes a while, and its digest."""
    file = folder / "large"
    file.write_bytes(os.urandom(SIZE))
    return file, hashlib.sha256(file.read_bytes()).digest()


def give(members: Members, file: Path) -> None:
    async def story() -> None:
        async with BlobClient(members.addresses, "default") as client:
            await client.put(file)

    run(story())


def cache_put(members: Members, file: Path) -> None:
    with BlockingClient(",".join(members.addresses), timeout=DEADLINE_S) as client:
        client.cache_put("d1", {"data": file}, need=0)


def submit(members: Members, file: Path) -> None:
    with BlockingClient(",".join(members.addresses), timeout=DEADLINE_S) as client:
        client.submit("nobody-has-it", files={"data": file})


def leader_of(members: Members) -> MemberProcess:
    leader, talker = find_leader(members.addresses)
    talker.close()
    return members.at(leader)


def until_followed(members: Members, leader: MemberProcess, digest: Digest, sent: Sent) -> None:
    """Until the others have as much as they must have of what was read. No more is read meanwhile:
    one read of a transfer follows the other, and the last one waits here."""
    others = followers(members, leader.address)
    until(lambda: min(part_bytes(one, digest) for one in others) >= sent.bytes - AGAIN_MAX)


@pytest.mark.parametrize("act", [give, cache_put, submit])
def test_what_arrived_is_not_sent_to_the_next_leader(
    act: Callable[[Members, Path], None],
    members: Members,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    file, digest = large(tmp_path)
    leader = leader_of(members)

    def kill() -> None:
        until_followed(members, leader, digest, sent)
        leader.kill()

    sent = Sent(monkeypatch, kill)
    act(members, file)
    assert not place(leader, digest).exists()
    assert holders(members, digest) == 2
    assert SIZE <= sent.bytes <= SIZE + AGAIN_MAX
    assert sent.offsets.count(0) == 1


def test_what_arrived_is_not_sent_when_a_leader_hands_over(
    members: Members, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, digest = large(tmp_path)
    leader = leader_of(members)

    def stop() -> None:
        until_followed(members, leader, digest, sent)
        leader.stop()

    sent = Sent(monkeypatch, stop)
    give(members, file)
    assert SIZE <= sent.bytes <= SIZE + AGAIN_MAX


def test_one_that_hangs_holds_up_nobody(
    members: Members, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, digest = large(tmp_path)
    leader = leader_of(members)
    hanging = followers(members, leader.address)[0]

    def hang() -> None:
        until_followed(members, leader, digest, sent)
        hanging.send(signal.SIGSTOP)

    sent = Sent(monkeypatch, hang)
    try:
        give(members, file)
        assert holders(members, digest) == 2
    finally:
        hanging.send(signal.SIGCONT)
    until(lambda: holders(members, digest) == 3)


def test_others_take_what_comes_while_it_comes_and_keep_nothing_that_is_wrong(
    members: Members, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, wrong = os.urandom(SIZE), bytes(range(32))
    others = followers(members, leader_of(members).address)
    Sent(monkeypatch, lambda: until(lambda: all(part_bytes(one, wrong) for one in others)))

    async def story() -> None:
        async with BlobClient(members.addresses, "default") as client:
            with pytest.raises(RollqError) as caught:
                await client.put(data, digest=wrong)
            assert caught.value.code is ErrorCode.BLOB_CORRUPT
            ref = await client.put(data)
            until(lambda: holders(members, ref.digest) == 3)

    run(story())
    assert not any(place(one, wrong).exists() for one in members.all)


def test_so_many_are_passed_on_at_once() -> None:
    class Peer:
        """Takes nothing."""

        async def give(self, *_: object) -> None:
            await asyncio.Event().wait()

    voters = tuple(Member(number, f"m{number}:1") for number in (1, 2, 3))
    peer: Any = Peer()

    async def story() -> None:
        relays = Relays(lambda *_: BytesSource(b""), lambda: 1, lambda: voters, lambda _: peer)
        alone = Relays(lambda *_: BytesSource(b""), lambda: 1, lambda: voters[:1], lambda _: peer)
        size = BLOB_WINDOW_BYTES + 1
        assert relays.begin(bytes(32), size, 1) is None
        assert alone.begin(bytes(32), size, 0) is None
        begun = [relays.begin(bytes([number]) * 32, size, 0) for number in range(BLOB_RELAYS_MAX)]
        assert None not in begun
        assert relays.begin(bytes(32), size, 0) is None
        assert begun[0] is not None
        begun[0].end()
        for _ in range(3):  # its tasks are told, end, and are seen to have ended
            await asyncio.sleep(0)
        assert relays.begin(bytes(32), size, 0) is not None
        await relays.stop()
        await relays.stop()

    run(story())


def test_one_that_comes_to_lead_takes_the_turn_from_the_last_leader(tmp_path: Path) -> None:
    """It may be there, and say nothing any more, while its copy is under way."""
    data = os.urandom(8 * MIB)
    digest = hashlib.sha256(data).digest()

    async def story() -> None:
        async with (
            Serving(tmp_path) as serving,
            BlobClient([serving.address], "g", "member") as last,
            BlobClient([serving.address], "g") as client,
        ):
            growth, arrived = Growth(5 * MIB), asyncio.Event()

            def moved(offset: int, _: int) -> None:
                if offset == growth.ready:
                    arrived.set()

            copy = asyncio.create_task(last.give(digest, lambda: BytesSource(data), growth, moved))
            await arrived.wait()
            upload = asyncio.create_task(client.put(data))
            await asyncio.to_thread(until, lambda: serving.server.uploads.is_wanted(digest))
            serving.server.end_copies()
            await upload
            await copy  # dials again, and hears that nothing is lacking
            assert serving.chunk_bytes == len(data)

    run(story())
