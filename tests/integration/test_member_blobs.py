"""Blobs of three members that are processes: who holds what, whoever is killed or rots."""

from __future__ import annotations

import asyncio
import hashlib
import os
import shutil
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from rollq.base.digests import Digest
from rollq.base.errors import ErrorCode, RollqError
from rollq.base.jobs import BlobRef
from rollq.roles.blobs.client import BlobClient
from rollq.wire import messages as wire
from tests.integration.procs import DEADLINE_S, MemberProcess, Members, until
from tests.integration.talk import Talker, find_leader, hang_up_all, job

MIB = 1024 * 1024
EAGER = {"scrub_every_ms": 50, "scrub_round_ms": 50, "evict_every_ms": 50}


@pytest.fixture(autouse=True)
def _hang_up() -> Iterator[None]:
    yield
    hang_up_all()


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(story, 2 * DEADLINE_S))


def place(member: MemberProcess, digest: Digest) -> Path:
    return member.state / "blobs" / digest.hex()[:2] / digest.hex()[2:]


def holds(member: MemberProcess, digest: Digest) -> bool:
    """Whether the member has it, whole."""
    try:
        return hashlib.sha256(place(member, digest).read_bytes()).digest() == digest
    except FileNotFoundError:
        return False


def holders(members: Members, digest: Digest) -> int:
    return sum(holds(member, digest) for member in members.all)


async def put(members: Members, data: bytes) -> BlobRef:
    async with BlobClient(members.addresses, "default") as client:
        return await client.put(data)


def read(path: Path) -> bytes:
    return path.read_bytes()


async def fetched(address: str, ref: BlobRef, target: Path, who: str = "reader") -> bytes:
    async with BlobClient([address], "default", who) as client:
        await client.fetch(ref.digest, target, ref.size)
    return read(target)


def refer(talker: Talker, number: int, *refs: BlobRef) -> object:
    """Submit a job that needs blobs; the answer."""
    talker.say(wire.SubmitJob(job(number), "ann", "calc", "calc", b"{}", None, refs))
    return talker.hear_any()


def followers(members: Members, leader: str) -> list[MemberProcess]:
    return [member for member in members.all if member.address != leader]


def test_stored_means_on_a_majority_and_any_member_hands_it_out(tmp_path: Path) -> None:
    with Members(tmp_path, 3) as members:

        async def story() -> None:
            data = os.urandom(5 * MIB)
            ref = await put(members, data)
            assert holders(members, ref.digest) >= 2
            until(lambda: holders(members, ref.digest) == 3)
            for number, member in enumerate(members.all):
                got = await fetched(member.address, ref, tmp_path / f"copy{number}")
                assert got == data

        run(story())


def test_with_a_minority_up_nothing_is_stored_and_with_a_majority_it_is(tmp_path: Path) -> None:
    with Members(tmp_path, 3) as members:
        leader, talker = find_leader(members.addresses)
        first, second = followers(members, leader)
        first.kill()

        async def story() -> None:
            data = os.urandom(MIB)
            ref = await put(members, data)
            assert holds(members.at(leader), ref.digest)
            assert holds(second, ref.digest)
            assert isinstance(refer(talker, 1, ref), wire.Accepted)
            # The one that was down comes to need it when it applies the job, and fetches it.
            first.start()
            until(lambda: holds(first, ref.digest))

        run(story())


def test_a_command_waits_for_its_blobs(tmp_path: Path) -> None:
    with Members(tmp_path, 3) as members:
        _, talker = find_leader(members.addresses)
        nowhere = BlobRef(bytes(32), 5)
        answer = refer(talker, 1, nowhere)
        assert isinstance(answer, wire.Error)
        assert (answer.code, answer.retryable) == (ErrorCode.BLOB_MISSING, True)

        async def story() -> None:
            ref = await put(members, b"small")
            answer = refer(talker, 2, ref, nowhere)
            assert isinstance(answer, wire.Error)
            assert nowhere.digest.hex() in answer.message
            assert isinstance(refer(talker, 3, ref), wire.Accepted)

        run(story())


def test_a_leader_that_is_killed_half_way_or_after_takes_nothing_with_it(tmp_path: Path) -> None:
    with Members(tmp_path, 3) as members:

        async def story() -> None:
            data = os.urandom(24 * MIB)
            async with BlobClient(members.addresses, "default") as client:
                leader, _ = find_leader(members.addresses)
                killed: list[str] = []

                def kill(done: int, size: int) -> None:
                    if done > size // 2 and not killed:
                        killed.append(leader)
                        members.at(leader).kill()

                (tmp_path / "large").write_bytes(data)
                ref = await client.put(tmp_path / "large", kill)
                assert killed
                assert holders(members, ref.digest) == 2
                members.at(leader).start()
                second, talker = find_leader(members.addresses)
                assert isinstance(refer(talker, 1, ref), wire.Accepted)
                until(lambda: holders(members, ref.digest) == 3)
                # A new leader does not know who holds what nobody refers to yet: it asks.
                later = await client.put(b"not referred to")
                members.at(second).kill()
                _, talker = find_leader(members.addresses)
                numbers = iter(range(10, 1000))
                until(lambda: isinstance(refer(talker, next(numbers), later), wire.Accepted))
                await client.fetch(ref.digest, tmp_path / "copy", ref.size)
                assert (tmp_path / "copy").read_bytes() == data

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
                member.until_line("is rotten")
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
    settings = EAGER | {"bytes_max": 1, "lease_ms": 1_000}
    with Members(tmp_path, 3, blobs=settings) as members:

        async def story() -> None:
            async with BlobClient(members.addresses, "default") as client:
                kept = await client.put(os.urandom(MIB))
                _, talker = find_leader(members.addresses)
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
