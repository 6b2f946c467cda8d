"""Caches on a real worker, with a scripted member that has blobs."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from msgspec import UNSET

from rollq.base.jobs import BlobRef, Status
from rollq.wire import messages as wire
from rollq.wire.models import (
    CacheEntryModel,
    CachePutRequest,
    CachePutResult,
    InputFile,
    decode_model,
    encode_model,
)
from tests.integration.blob_member import BlobMember
from tests.integration.fake_member import job_id
from tests.integration.patience import DEADLINE_S
from tests.integration.workers import eventually, running, write_program

MIB = 1024 * 1024
CAT = "cat data/a.bin; echo; ls -l data/a.bin | cut -c1-10\n"


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(story, DEADLINE_S))


def acks(member: BlobMember) -> list[CachePutResult]:
    """Every final answer so far."""
    found = [message for message in member.received if isinstance(message, wire.CacheAck)]
    results = [decode_model(message.payload, CachePutResult) for message in found]
    return [one for one in results if one.status != "MOVING"]


async def answer(member: BlobMember, request: CachePutRequest) -> tuple[str, str]:
    """What a worker answers to a put."""
    count = len(acks(member))
    member.send(wire.CachePut(b"p" * 16, encode_model(request)))
    await member.until(lambda: len(acks(member)) > count)
    result = acks(member)[-1]
    assert result.cache_id == request.cache_id
    return result.status, result.message or ""


def carrying(**files: bytes) -> CachePutRequest:
    entries = tuple(CacheEntryModel(f"data/{name}.bin", data) for name, data in files.items())
    return CachePutRequest("d1", entries, "job.assign.*")


def kept(ref: BlobRef, *sources: str, mode: int = 0o644, cache_id: str = "d1") -> CachePutRequest:
    entry = CacheEntryModel("data/a.bin", None, ref.digest.hex(), ref.size, mode)
    return CachePutRequest(cache_id, (entry,), "", kept=True, sources=sources or UNSET)


def assign(member: BlobMember, number: int, cache_id: str = "d1", name: str = "data/a.bin") -> None:
    member.assign_files(number, "cat", files=(InputFile(name, cache_id),))


async def read(member: BlobMember, number: int) -> str:
    """What a job reads of its cached input."""
    assign(member, number)
    ack, result = await member.outcome(number)
    assert ack.status == Status.OK
    return (result.stdout or "").splitlines()[0]


def test_files_that_come_with_a_put_are_kept_once(tmp_path: Path) -> None:
    write_program(tmp_path, "cat", CAT)

    async def story() -> None:
        member = BlobMember(tmp_path / "member")
        async with running(tmp_path, member):
            granted = member.granted
            assert await answer(member, carrying(a=b"one", b=b"two")) == ("OK", "added=2")
            assert await answer(member, carrying(a=b"one")) == ("SKIPPED", "already-present=1")
            more = await answer(member, carrying(a=b"one", c=b"three"))
            assert more == ("OK", "added=1, skipped=1")
            status, text = await answer(member, carrying(a=b"other"))
            assert status == "FAILED"
            assert "holds other files" in text
            assert member.granted == granted, "a put takes no credit and gives none"
            assert await read(member, 1) == "one"
        # Another life of the same worker finds them, and does not tell the group: it has none.
        member = BlobMember(tmp_path / "member")
        async with running(tmp_path, member):
            assert await read(member, 1) == "one"
            assert acks(member) == []
            assert await answer(member, carrying(a=b"one")) == ("SKIPPED", "already-present=1")

    run(story())


def test_bad_puts_fail_with_a_reason(tmp_path: Path) -> None:
    async def story() -> None:
        member = BlobMember(tmp_path / "member")
        async with running(tmp_path, member):
            bad = CachePutRequest("d1", (CacheEntryModel("../x", b"x"),), "")
            assert (await answer(member, bad))[0] == "FAILED"
            assert (await answer(member, CachePutRequest("", (), "")))[0] == "FAILED"
            nameless = CachePutRequest("d2", (CacheEntryModel("x", b"x"),), "", kept=True)
            assert "digest" in (await answer(member, nameless))[1]
            member.send(wire.CachePut(b"p" * 16, b"{"))
            await member.until(lambda: len(acks(member)) == 4)
            assert not (tmp_path / "x").exists()

    run(story())


def test_a_cache_of_the_group_is_fetched_kept_and_let_go(tmp_path: Path) -> None:
    write_program(tmp_path, "cat", CAT)

    async def story() -> None:
        member = BlobMember(tmp_path / "member")
        ref = member.put(b"kept")
        async with running(tmp_path, member):
            assert member.hellos[-1].blob_address.startswith("127.0.0.1:")
            assert await answer(member, kept(ref)) == ("OK", "added=1")
            assert await answer(member, kept(ref)) == ("SKIPPED", "already-present=1")
            for number in range(1, 6):
                assert await read(member, number) == "kept"
            assert member.gets == [ref.digest]
            assert (await answer(member, carrying(z=b"z")))[0] == "FAILED"
        member = BlobMember(tmp_path / "member")
        async with running(tmp_path, member):
            await member.until(lambda: acks(member))
            assert acks(member)[0].status == "HELD"
            assert await answer(member, kept(ref)) == ("SKIPPED", "already-present=1")
            assert member.gets == []
            # The group says what is in it, also if that is something else by now.
            other = member.put(b"newer")
            assert await answer(member, kept(other)) == ("OK", "added=1")
            assert await read(member, 9) == "newer"
            gone = CachePutRequest("d1", (), "", kept=True, removed=True)
            member.send(wire.CachePut(bytes(16), encode_model(gone)))
            await eventually(lambda: not list((tmp_path / "state" / "caches").iterdir()))
            assign(member, 10)
            await member.until(lambda: job_id(10) in member.nacks)
            assert "not on this worker" in member.nacks[job_id(10)].detail

    run(story())


def test_a_job_waits_for_the_file_that_it_needs(tmp_path: Path) -> None:
    write_program(tmp_path, "cat", CAT)

    async def story() -> None:
        member = BlobMember(tmp_path / "member")
        ref = member.put(b"soon")
        async with running(tmp_path, member):
            member.send(wire.CachePut(bytes(16), encode_model(kept(ref, mode=0o755))))
            assign(member, 1)
            assign(member, 2, name="data/none.bin")
            _, result = await member.outcome(1)
            assert (result.stdout or "").splitlines() == ["soon", "-r-xr-xr-x"]
            ack, result = await member.outcome(2)
            assert (ack.status, member.nacks) == (Status.FAILED, {})
            assert "no file 'data/none.bin'" in str(result.stderr)
            assert member.gets == [ref.digest]

    run(story())


def test_workers_fetch_from_each_other_and_from_a_member_if_need_be(tmp_path: Path) -> None:
    async def story() -> None:
        first, second = BlobMember(tmp_path / "m1"), BlobMember(tmp_path / "m2")
        data = os.urandom(3 * MIB)
        ref = first.put(data)
        (tmp_path / "w1").mkdir()
        (tmp_path / "w2").mkdir()
        async with running(tmp_path / "w1", first), running(tmp_path / "w2", second):
            assert await answer(first, kept(ref)) == ("OK", "added=1")
            neighbour = first.hellos[-1].blob_address
            assert await answer(second, kept(ref, "127.0.0.1:1", neighbour)) == ("OK", "added=1")
            assert second.gets == []
            other = second.put(b"at the member alone")
            put = kept(other, neighbour, cache_id="d2")
            assert await answer(second, put) == ("OK", "added=1")
            assert second.gets == [other.digest]

    run(story())
