"""Uploads whose leader is killed, and another member leads: they go on there where they were."""

from __future__ import annotations

import hashlib
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rollq import BlockingClient
from rollq.base.digests import Digest
from rollq.base.limits import BLOB_WINDOW_BYTES, BLOB_WRITE_BYTES
from rollq.roles.blobs import carrier
from rollq.roles.blobs.carrier import Packer, Source
from rollq.roles.blobs.client import BlobClient
from rollq.roles.blobs.orders import Read
from rollq.wire.blob_messages import BlobChunk
from tests.integration.blob_members import MIB, followers, holders, place, run
from tests.integration.procs import MemberProcess, Members, until
from tests.integration.talk import find_leader, hang_up_all

SIZE = 48 * MIB
MIDDLE = SIZE // 2
# On the way to the leader, written there and not passed on, and what a step of writing is more.
AGAIN_MAX = 2 * BLOB_WINDOW_BYTES + BLOB_WRITE_BYTES
WAIT_S = 18.0


@pytest.fixture(autouse=True)
def _hang_up() -> Iterator[None]:
    yield
    hang_up_all()


class Sent:
    """Counts what the client of this process reads to send it; calls somebody in its middle."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, in_the_middle: Callable[[], None]) -> None:
        self.bytes = 0
        self.offsets: list[int] = []
        self._in_the_middle = in_the_middle
        self._is_over = threading.Event()
        self._read = carrier.read_chunks
        monkeypatch.setattr(carrier, "read_chunks", self._counted)

    def _counted(self, source: Source, order: Read, packer: Packer | None) -> list[BlobChunk]:
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


def give(members: Members, file: Path) -> None:
    async def story() -> None:
        async with BlobClient(members.addresses, "default") as client:
            await client.put(file)

    run(story())


def cache_put(members: Members, file: Path) -> None:
    with BlockingClient(",".join(members.addresses), timeout=WAIT_S) as client:
        client.cache_put("d1", {"data": file}, need=0)


def submit(members: Members, file: Path) -> None:
    with BlockingClient(",".join(members.addresses), timeout=WAIT_S) as client:
        client.submit("nobody-has-it", files={"data": file})


@pytest.mark.parametrize("act", [give, cache_put, submit])
def test_what_arrived_is_not_sent_to_the_next_leader(
    act: Callable[[Members, Path], None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "large"
    data = os.urandom(SIZE)
    file.write_bytes(data)
    digest: Digest = hashlib.sha256(data).digest()
    with Members(tmp_path, 3) as members:
        leader, talker = find_leader(members.addresses)
        talker.close()

        def kill() -> None:
            others = followers(members, leader)
            until(lambda: min(part_bytes(one, digest) for one in others) >= MIDDLE - AGAIN_MAX)
            members.at(leader).kill()

        sent = Sent(monkeypatch, kill)
        act(members, file)
        assert not place(members.at(leader), digest).exists()
        assert holders(members, digest) == 2
        assert SIZE <= sent.bytes <= SIZE + AGAIN_MAX
        assert sent.offsets.count(0) == 1
