"""Blobs of three members that are processes: who holds what, whoever is killed."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from rollq.base.errors import ErrorCode, RollqError
from rollq.base.jobs import BlobRef
from rollq.roles.blobs.client import BlobClient
from rollq.wire import messages as wire
from tests.integration.blob_members import (
    MIB,
    fetched,
    followers,
    holders,
    holds,
    put,
    refer,
    run,
)
from tests.integration.procs import Members, until
from tests.integration.talk import find_leader, hang_up_all


@pytest.fixture(autouse=True)
def _hang_up() -> Iterator[None]:
    yield
    hang_up_all()


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


def test_one_that_was_down_fetches_what_it_comes_to_need(tmp_path: Path) -> None:
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


def test_a_member_that_lost_its_disk_gets_the_files_after_the_state(tmp_path: Path) -> None:
    with Members(tmp_path, 3, snapshot_entries=20) as members:

        async def story() -> None:
            refs = [await put(members, os.urandom(100_000)) for _ in range(9)]
            leader, talker = find_leader(members.addresses)
            for number in range(1, 60):
                answer = refer(talker, number, refs[number % len(refs)])
                assert isinstance(answer, wire.Accepted)
            lost = followers(members, leader)[0]
            lost.kill()
            shutil.rmtree(lost.state)
            lost.start()
            until(lambda: all(holds(lost, ref.digest) for ref in refs))

        run(story())


def test_followers_send_to_the_leader_and_serve_members(tmp_path: Path) -> None:
    with Members(tmp_path, 3) as members:

        async def story() -> None:
            for member in members.all:
                async with BlobClient([member.address], "default") as client:
                    ref = await client.put(b"to whoever leads")
            held: list[int] = []
            for member in members.all:
                async with BlobClient([member.address], "default", "member") as peer:
                    held.append(len(await peer.have([ref.digest])))
            assert sorted(held)[-1] == 1

        run(story())
        with pytest.raises(RollqError) as caught:
            run(BlobClient([members.all[0].address], "another group").start())
        assert caught.value.code is ErrorCode.BAD_HANDSHAKE
        assert "another group" in caught.value.message
