"""How members look after blobs: rot, room, a shared store, memory."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from rollq.base.digests import Digest
from rollq.base.errors import ErrorCode, RollqError
from rollq.roles.blobs.client import BlobClient
from rollq.wire import messages as wire
from tests.integration.blob_members import (
    MIB,
    fetched,
    followers,
    holders,
    holds,
    place,
    put,
    read,
    refer,
    run,
)
from tests.integration.procs import MemberProcess, Members, until
from tests.integration.talk import find_leader, hang_up_all, job

EAGER = {"scrub_every_ms": 50, "scrub_round_ms": 50, "evict_every_ms": 50}


@pytest.fixture(autouse=True)
def _hang_up() -> Iterator[None]:
    yield
    hang_up_all()


def memory_kib(member: MemberProcess, what: str) -> int:
    for line in read(Path(f"/proc/{member.pid}/status")).splitlines():
        if line.startswith(what.encode()):
            return int(line.split()[1])
    raise AssertionError(what)


def test_fifty_megabytes_each_way_take_little_memory_and_no_log(tmp_path: Path) -> None:
    with Members(tmp_path, 3) as members:

        async def story() -> None:
            _, talker = find_leader(members.addresses)
            before = {member: memory_kib(member, "VmRSS") for member in members.all}
            data = os.urandom(50_000_000)
            ref = await put(members, data)
            assert isinstance(refer(talker, 1, ref), wire.Accepted)
            for number, member in enumerate(members.all):
                assert await fetched(member.address, ref, tmp_path / f"{number}") == data
            for member in members.all:
                assert memory_kib(member, "VmHWM") - before[member] <= 16 * 1024
                segments = sorted((member.state / "wal").glob("*.log"))
                log = b"".join(read(path) for path in segments).rstrip(b"\0")
                assert 0 < len(log) <= 64 * 1024

        run(story())


def test_members_that_share_a_store_make_no_copies(tmp_path: Path) -> None:
    url = f"file://{tmp_path / 'shared'}"
    with Members(tmp_path, 3, blobs={"url": url}) as members:

        async def story() -> None:
            data = os.urandom(MIB)
            ref = await put(members, data)
            leader, talker = find_leader(members.addresses)
            assert isinstance(refer(talker, 1, ref), wire.Accepted)
            later = await put(members, b"not referred to")
            members.at(leader).kill()
            _, talker = find_leader(members.addresses)
            numbers = iter(range(10, 1000))
            until(lambda: isinstance(refer(talker, next(numbers), later), wire.Accepted))
            for number, member in enumerate(followers(members, leader)):
                assert await fetched(member.address, ref, tmp_path / f"{number}") == data
            assert not holders(members, ref.digest)

        run(story())


def test_a_follower_without_room_is_done_without_and_two_are_told(tmp_path: Path) -> None:
    with Members(tmp_path, 3) as members:
        leader, talker = find_leader(members.addresses)
        first, second = followers(members, leader)

        async def story() -> None:
            # A folder that cannot be written to stands for a disk that cannot.
            for blocked in (first, second):
                blocked.stop()
                shutil.rmtree(blocked.state / "blobs" / "partial", ignore_errors=True)
                (blocked.state / "blobs" / "partial").write_bytes(b"")
                blocked.start()
                if blocked is first:
                    ref = await put(members, b"two of three")
                    assert holders(members, ref.digest) == 2
                    assert isinstance(refer(talker, 1, ref), wire.Accepted)
            async with BlobClient([leader], "default", patience_s=1) as client:
                with pytest.raises(RollqError) as caught:
                    await client.put(b"one of three")
            assert first.address in caught.value.message
            assert isinstance(refer(talker, 2), wire.Accepted)

        run(story())


def flip(member: MemberProcess, digest: Digest) -> None:
    path = place(member, digest)
    path.chmod(0o644)
    with path.open("r+b") as file:
        byte = file.read(1)
        file.seek(0)
        file.write(bytes((byte[0] ^ 1,)))
    path.chmod(0o444)


def test_a_flipped_bit_on_a_minority_is_found_and_healed(tmp_path: Path) -> None:
    with Members(tmp_path, 3, blobs=EAGER) as members:

        async def story() -> None:
            ref = await put(members, os.urandom(MIB))
            until(lambda: holders(members, ref.digest) == 3)
            for member in members.all:
                flip(member, ref.digest)
                member.until_line("is corrupt")
                until(lambda: holders(members, ref.digest) == 3)

        run(story())


def test_a_rotten_blob_is_not_handed_out_and_healed_at_once(tmp_path: Path) -> None:
    """The scrub comes later; whoever fetches the blob notices first."""
    lazy = {"scrub_every_ms": 3_600_000}
    with Members(tmp_path, 3, blobs=lazy) as members:

        async def story() -> None:
            data = os.urandom(MIB)
            ref = await put(members, data)
            until(lambda: holders(members, ref.digest) == 3)
            leader, _ = find_leader(members.addresses)
            for number, member in enumerate(members.all):
                flip(member, ref.digest)
                who = "client" if member.address == leader else "reader"
                assert await fetched(member.address, ref, tmp_path / f"{number}", who) == data
                assert holds(member, ref.digest)
                place(member, ref.digest).unlink()
                assert await fetched(member.address, ref, tmp_path / f"x{number}", who) == data

        run(story())


def test_pins_outlive_a_restart_and_the_rest_goes(tmp_path: Path) -> None:
    # So much time is there to name what was uploaded, on whatever machine.
    settings = EAGER | {"bytes_max": 1, "lease_ms": 4_000}
    with Members(tmp_path, 3, blobs=settings) as members:

        async def story() -> None:
            async with BlobClient(members.addresses, "default") as client:
                _, talker = find_leader(members.addresses)
                kept = await client.put(os.urandom(MIB))
                assert isinstance(refer(talker, 1, kept), wire.Accepted)
                for member in members.all:
                    assert member.stop() == 0
                    member.start()
                free = await client.put(os.urandom(MIB))
                until(lambda: not holders(members, free.digest))
                until(lambda: holders(members, kept.digest) == 3)
                with pytest.raises(RollqError) as caught:
                    await client.fetch(free.digest, tmp_path / "copy", free.size)
                assert caught.value.code is ErrorCode.BLOB_MISSING
                _, talker = find_leader(members.addresses)
                talker.say(wire.Cancel(b"c" * 16, (job(1),)))
                until(lambda: not holders(members, kept.digest))

        run(story())
