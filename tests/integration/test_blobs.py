"""Blobs over real sockets: a server on a listener, and members as processes that are killed."""

from __future__ import annotations

import asyncio
import hashlib
import os
import resource
import socket
from collections.abc import Awaitable, Callable, Coroutine
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from rollq.base.access import LinkRole
from rollq.base.digests import Digest
from rollq.base.errors import DiskError, ErrorCode, RollqError, StateError
from rollq.base.limits import BLOB_WINDOW_BYTES
from rollq.net.link import Link
from rollq.net.listener import Listener
from rollq.roles.blobs.client import BlobClient
from rollq.roles.blobs.server import BlobServer, Greeting
from rollq.roles.door import Door
from rollq.store.blobs.local import LocalBlobs
from rollq.wire.blob_messages import BlobChunk, HelloBlobs
from rollq.wire.compact import Message
from rollq.wire.messages import NotLeader, Welcome
from tests.integration.patience import DEADLINE_S
from tests.integration.procs import MemberProcess

MIB = 1024 * 1024


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(story, DEADLINE_S))


def digest_of(data: bytes) -> Digest:
    return hashlib.sha256(data).digest()


class Serving:
    """A server of blobs in this process. Counts the bytes of blobs that come in."""

    def __init__(
        self,
        folder: Path,
        stored: Callable[[Digest], Awaitable[None]] | None = None,
        greet: Callable[[HelloBlobs], Greeting] | None = None,
    ) -> None:
        self.store = LocalBlobs(folder)
        self.server = BlobServer(self.store, greet or self._greet, stored)
        self.door = Door({LinkRole.BLOBS: self.server})
        self.listener = Listener("g", self._hear, self.door.closed)
        self.links: dict[Link, None] = {}
        self.chunk_bytes = 0
        self.cuts: list[int] = []  # cuts the link once so many have come, one after the other
        self.address = ""

    async def __aenter__(self) -> Serving:
        self.server.start()
        self.address = f"127.0.0.1:{await self.listener.start('127.0.0.1', 0)}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.server.stop()
        await self.server.stop()
        await self.listener.stop("over")
        self.store.close()

    def _greet(self, hello: HelloBlobs) -> Greeting:
        return Welcome("g", 1, hello.features)

    def _hear(self, link: Link, messages: list[Message]) -> None:
        self.links[link] = None
        self.chunk_bytes += sum(
            message.packed or len(message.data)
            for message in messages
            if isinstance(message, BlobChunk)
        )
        if self.cuts and self.chunk_bytes >= self.cuts[0]:
            self.cuts.pop(0)
            link.abort("cut by the test")
            return
        self.door.messages(link, messages)


def test_files_and_bytes_come_and_go(tmp_path: Path) -> None:
    async def story() -> None:
        large = os.urandom(3 * MIB + 7)
        (tmp_path / "large").write_bytes(large)
        async with (
            Serving(tmp_path / "store") as serving,
            BlobClient([serving.address], "g") as client,
        ):
            seen: list[tuple[int, int]] = []
            refs = await asyncio.gather(
                client.put(tmp_path / "large", lambda *moved: seen.append(moved)),
                client.put(b"small"),
                client.put(b""),
                *(client.put(bytes([number]) * 100_000) for number in range(40)),
            )
            assert refs[0].digest == digest_of(large)
            assert refs[0].size == len(large)
            assert seen == sorted(seen)
            assert seen[-1] == (len(large), len(large))
            assert await client.have([digest_of(b"small"), digest_of(large), bytes(32)]) == {
                digest_of(b"small"): 5,
                digest_of(large): len(large),
            }
            other = LocalBlobs(tmp_path / "other")
            fetched = [client.fetch(ref.digest, other) for ref in refs]
            assert await asyncio.gather(*fetched) == [ref.size for ref in refs]
            assert all(other.verify(ref.digest) for ref in refs)
            other.close()
            await client.fetch(digest_of(large), tmp_path / "copy")
            assert (tmp_path / "copy").read_bytes() == large
            before = serving.chunk_bytes
            await client.put(tmp_path / "large")
            assert serving.chunk_bytes == before

    run(story())
    assert sorted(os.listdir(tmp_path)) == ["copy", "large", "other", "store"]


def test_two_that_put_the_same_send_it_once(tmp_path: Path) -> None:
    async def story() -> None:
        data = os.urandom(5 * MIB)
        async with (
            Serving(tmp_path / "store") as serving,
            BlobClient([serving.address], "g") as one,
            BlobClient([serving.address], "g") as two,
        ):
            await asyncio.gather(one.put(data), two.put(data), one.put(data))
            assert serving.chunk_bytes == len(data)

    run(story())


@pytest.mark.parametrize("cuts", [[10], [1, 9, 20]])
def test_a_put_that_is_cut_sends_only_the_rest(tmp_path: Path, cuts: list[int]) -> None:
    async def story() -> None:
        data = os.urandom(24 * MIB)
        async with (
            Serving(tmp_path / "store") as serving,
            BlobClient([serving.address], "g") as client,
        ):
            serving.cuts = [cut * MIB for cut in cuts]
            await client.put(data)
            assert serving.store.verify(digest_of(data))
            assert len(serving.links) == 1 + len(cuts)
            again = serving.chunk_bytes - len(data)
            assert 0 <= again <= len(cuts) * BLOB_WINDOW_BYTES

    run(story())


def test_a_fetch_that_is_cut_or_given_up_goes_on(tmp_path: Path) -> None:
    async def story() -> None:
        data = os.urandom(24 * MIB)
        async with (
            Serving(tmp_path / "store") as serving,
            BlobClient([serving.address], "g") as client,
        ):
            ref = await client.put(data)

            def give_up(done: int, size: int) -> None:
                if done > size // 2:
                    fetching.cancel()

            target = tmp_path / "target"
            fetching = asyncio.create_task(client.fetch(ref.digest, target, progress=give_up))
            with pytest.raises(asyncio.CancelledError):
                await fetching
            assert not target.exists()
            seen: list[int] = []

            def cut(done: int, size: int) -> None:
                if not seen:
                    next(iter(serving.links)).abort("cut by the test")
                seen.append(done)

            await client.fetch(ref.digest, target, ref.size, cut)
            assert seen[0] > ref.size // 2
            assert target.read_bytes() == data
            assert len(serving.links) == 2

    run(story())


def test_what_changes_while_it_is_sent_is_named(tmp_path: Path) -> None:
    async def story() -> None:
        path = tmp_path / "moving target"
        path.write_bytes(os.urandom(6 * MIB))

        def change(done: int, size: int) -> None:
            with path.open("r+b") as file:
                file.seek(-1, os.SEEK_END)
                file.write(b"?!"[done % 2 : done % 2 + 1])

        async with (
            Serving(tmp_path / "store") as serving,
            BlobClient([serving.address], "g") as client,
        ):
            with pytest.raises(RollqError) as caught:
                await client.put(path, change)
            assert caught.value.code is ErrorCode.BLOB_CORRUPT
            assert "moving target" in caught.value.message
            assert not list(serving.store.digests())

    run(story())


def test_what_is_rotten_or_missing_is_not_handed_over(tmp_path: Path) -> None:
    async def story() -> None:
        async with (
            Serving(tmp_path / "store") as serving,
            BlobClient([serving.address], "g") as client,
        ):
            ref = await client.put(os.urandom(MIB))
            path = serving.store.path(ref.digest)
            assert path is not None
            path.chmod(0o644)
            with path.open("r+b") as file:
                file.write(b"rotten")
            target = tmp_path / "target"
            with pytest.raises(RollqError) as caught:
                await client.fetch(ref.digest, target)
            assert caught.value.code is ErrorCode.BLOB_CORRUPT
            assert str(target) in caught.value.message
            for digest, size in ((bytes(32), None), (bytes(32), 5)):
                with pytest.raises(RollqError) as caught:
                    await client.fetch(digest, target, size)
                assert caught.value.code is ErrorCode.BLOB_MISSING
            assert not target.exists()

    run(story())


def test_a_full_disk_is_told_and_nothing_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def story() -> None:
        async with (
            Serving(tmp_path / "store") as serving,
            BlobClient([serving.address], "g") as client,
        ):
            begin = serving.store.begin

            def full(digest: Digest, size: int) -> Any:
                incoming = begin(digest, size)

                def write(data: bytes) -> None:
                    raise DiskError(ErrorCode.DISK_FULL, "no room")

                monkeypatch.setattr(incoming, "write", write)
                return incoming

            monkeypatch.setattr(serving.store, "begin", full)
            with pytest.raises(RollqError) as caught:
                await client.put(os.urandom(9 * MIB))
            assert caught.value.code is ErrorCode.DISK_FULL
            monkeypatch.setattr(serving.store, "begin", begin)
            await client.put(b"room again")

    run(story())


def test_stored_is_told_when_it_is_where_it_must_be(tmp_path: Path) -> None:
    async def story() -> None:
        asked: list[Digest] = []

        async def stored(digest: Digest) -> None:
            asked.append(digest)
            if len(asked) == 1:
                await asyncio.get_running_loop().run_in_executor(None, lambda: None)
                raise StateError(ErrorCode.CAP_REACHED, "no copies")

        async with Serving(tmp_path / "store", stored) as serving:
            async with BlobClient([serving.address], "g") as client:
                with pytest.raises(RollqError) as caught:
                    await client.put(b"x")
                assert caught.value.code is ErrorCode.CAP_REACHED
                await client.put(b"x")
            async with BlobClient([serving.address], "g", "member") as member:
                await member.put(b"y")
        assert asked == [digest_of(b"x")] * 2

    run(story())


def test_the_leader_is_followed(tmp_path: Path) -> None:
    async def story() -> None:
        async with Serving(tmp_path / "leader") as leader:

            def send_on(hello: HelloBlobs) -> Greeting:
                return NotLeader(leader.address)

            async with (
                Serving(tmp_path / "follower", greet=send_on) as follower,
                BlobClient([follower.address]) as client,
            ):
                ref = await client.put(b"for the leader")
                assert leader.store.size(ref.digest) == ref.size

    run(story())


def test_an_upload_moves_on_with_the_lead(tmp_path: Path) -> None:
    async def story() -> None:
        data = os.urandom(12 * MIB)
        async with Serving(tmp_path / "old") as old, Serving(tmp_path / "new") as new:
            leaders = [old.address]

            def greet(hello: HelloBlobs) -> Greeting:
                return Welcome("g", 1) if leaders[-1] == old.address else NotLeader(new.address)

            old.server._greet = greet

            def hand_over(done: int, size: int) -> None:
                if done > size // 2 and leaders[-1] == old.address:
                    leaders.append(new.address)
                    old.server.redirect_clients(NotLeader(new.address))

            async with (
                BlobClient([old.address], "g", "member") as member,
                BlobClient([old.address], "g") as client,
            ):
                ref = await client.put(data, hand_over)
                assert new.store.size(ref.digest) == ref.size
                assert old.store.size(ref.digest) is None
                links = len(old.links)
                await member.have([ref.digest])
                assert len(old.links) == links

    run(story())


def test_nobody_there_is_told_in_time() -> None:
    async def story() -> None:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            address = f"127.0.0.1:{taken.getsockname()[1]}"
        client = BlobClient([address], patience_s=0.2)
        for use in (client.start, partial(client.put, b"x"), client.__aenter__):
            with pytest.raises(RollqError) as caught:
                await use()
            assert caught.value.code is ErrorCode.UNREACHABLE
        await client.stop()

    run(story())


def test_a_large_blob_does_not_take_memory(tmp_path: Path) -> None:
    async def story() -> None:
        path = tmp_path / "large"
        with path.open("wb") as file:
            for _ in range(160):
                file.write(os.urandom(MIB))
        async with (
            Serving(tmp_path / "store") as serving,
            BlobClient([serving.address], "g") as client,
        ):
            await client.put(os.urandom(8 * MIB))
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            ref = await client.put(path)
            await client.fetch(ref.digest, tmp_path / "copy", ref.size)
            grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        assert grown < 48 * 1024  # both ends are in this process

    run(story())


def test_a_member_that_is_killed_half_way_gets_only_the_rest(tmp_path: Path) -> None:
    data = os.urandom(48 * MIB)
    member = MemberProcess(tmp_path / "m")
    part = tmp_path / "m" / "blobs" / "partial" / digest_of(data).hex()

    async def story() -> None:
        seen: list[int] = []  # what was acknowledged: at the kill, and after it

        def note(done: int, size: int) -> None:
            if done > size // 3 and not seen:
                member.kill()
                assert part.stat().st_size >= done
                loop.run_in_executor(None, member.start)
                seen.append(done)
            elif seen:
                seen.append(done)

        loop = asyncio.get_running_loop()
        async with BlobClient([member.address]) as client:
            ref = await client.put(data, note)
            # Acknowledgements that were under way at the kill may still be read after it.
            assert min(seen[1:]) >= seen[0]
            await client.fetch(ref.digest, tmp_path / "copy")

    member.start()
    try:
        run(story())
        assert (tmp_path / "copy").read_bytes() == data
        assert member.stop() == 0
    finally:
        member.kill()
