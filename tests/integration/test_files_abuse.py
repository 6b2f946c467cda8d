"""Links for blobs to a running member, from those who mean it no good."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import random
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import zstandard

from rollq.base.errors import ErrorCode
from rollq.base.limits import (
    BLOB_ASK_MAX,
    BLOB_BYTES_MAX,
    BLOB_CHUNK_BYTES_MAX,
    BLOB_UPLOADS_MAX,
)
from rollq.roles.blobs.client import BlobClient
from rollq.wire import messages as wire
from rollq.wire.blob_messages import (
    BlobAsk,
    BlobChunk,
    BlobDrop,
    BlobGet,
    BlobGo,
    BlobHave,
    BlobMore,
    BlobPut,
    BlobStored,
    HelloBlobs,
)
from rollq.wire.compact import Message, encode_compact
from rollq.wire.frame import encode_frame
from tests.integration.faults import start_alone
from tests.integration.procs import MemberProcess, until
from tests.integration.talk import Talker, accepted, client, hang_up_all

MIB = 1024 * 1024
DIGEST = hashlib.sha256(b"").digest()[::-1]
MEMORY_GROWTH_MAX = 48 * MIB


@pytest.fixture(scope="module")
def member(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MemberProcess]:
    running = start_alone(tmp_path_factory.mktemp("abuse") / "state")
    yield running
    running.kill()


@pytest.fixture(autouse=True)
def _hang_up() -> Iterator[None]:
    yield
    hang_up_all()


def dial(member: MemberProcess, who: str = "client") -> Talker:
    talker = Talker(member.address)
    talker.say(HelloBlobs(who, "default"))
    talker.hear(wire.Welcome)
    return talker


def memory(member: MemberProcess, field: str) -> int:
    status = Path(f"/proc/{member.pid}/status").read_text()
    match = re.search(rf"^{field}:\s+(\d+) kB$", status, re.MULTILINE)
    assert match is not None
    return 1024 * int(match.group(1))


NUMBERS = iter(range(1, 1_000_000))


def serves(member: MemberProcess) -> bool:
    """Whether others notice nothing: a job, and a blob there and back."""

    async def there_and_back() -> bool:
        async with BlobClient([member.address]) as blobs:
            ref = await blobs.put(os.urandom(100_000))
            return await blobs.have([ref.digest]) == {ref.digest: ref.size}

    accepted(client(member.address), [next(NUMBERS)])
    return asyncio.run(asyncio.wait_for(there_and_back(), 15))


def begin(talker: Talker, size: int, digest: bytes = DIGEST) -> None:
    talker.say(BlobPut(digest, size))
    assert hear_go(talker).error == 0


def hear_go(talker: Talker) -> BlobGo:
    """The answer to a put; before it the member may say that it is at it."""
    while isinstance(said := talker.hear_any(), BlobMore):
        pass
    assert isinstance(said, BlobGo)
    return said


def test_bytes_that_mean_nothing_end_their_link_alone(member: MemberProcess) -> None:
    for data in (random.Random(7).randbytes(1 << 16), b"\xff" * 4_096, bytes(4_096), b"\0\0\0\x7f"):
        talker = dial(member)
        with contextlib.suppress(ConnectionError):
            talker.socket.sendall(data)
        if len(data) > 4:
            assert talker.is_over()
    assert serves(member)


@pytest.mark.parametrize(
    "words",
    [
        [HelloBlobs("client", "default")],
        [BlobGo(DIGEST, 0)],
        [BlobStored(DIGEST)],
        [BlobHave(bytes(16), (1,))],
        [wire.SubmitJob(bytes(16), "ann", "calc", "calc", b"{}")],
        [BlobAsk(bytes(16), (DIGEST,) * (BLOB_ASK_MAX + 1))],
        [BlobGet(DIGEST, -1)],
        [BlobPut(DIGEST, -1)],
        [BlobPut(DIGEST, 9), BlobPut(DIGEST, 9)],
        [BlobPut(DIGEST, 9), BlobChunk(DIGEST, 0, b"too soon")],
    ],
    ids=lambda words: type(words[-1]).__name__,
)
def test_words_out_of_place_end_their_link_alone(
    member: MemberProcess, words: list[Message]
) -> None:
    talker = dial(member)
    # Our own end would not say them. At once, so that no answer comes between.
    talker.socket.sendall(b"".join(encode_frame(encode_compact(word)) for word in words))
    assert talker.is_over()
    assert serves(member)


@pytest.mark.parametrize("size", [BLOB_BYTES_MAX + 1, 2**63 - 1, BLOB_BYTES_MAX])
def test_sizes_that_nobody_has_are_refused_at_once(member: MemberProcess, size: int) -> None:
    talker = dial(member)
    talker.say(BlobPut(DIGEST, size))
    assert hear_go(talker).error
    talker.say(BlobDrop(DIGEST), BlobMore(DIGEST, 7), BlobGet(DIGEST, 2**63 - 1))
    assert talker.hear_any().error
    begin(talker, 9)
    assert serves(member)


BOMB = zstandard.ZstdCompressor().compress(bytes(256 * MIB))


@pytest.mark.parametrize(
    "chunk",
    [
        BlobChunk(DIGEST, 5, b"x"),
        BlobChunk(DIGEST, -1, b"x"),
        BlobChunk(DIGEST, 0, b""),
        BlobChunk(DIGEST, 0, b"x" * (BLOB_CHUNK_BYTES_MAX + 1)),
        BlobChunk(DIGEST, 0, b"x", -1),
        BlobChunk(DIGEST, 0, b"x", 2**62),
        BlobChunk(DIGEST, 0, BOMB, BLOB_CHUNK_BYTES_MAX),
        BlobChunk(DIGEST, 0, os.urandom(1_000), 2_000),
    ],
)
def test_chunks_that_cannot_be_are_refused(member: MemberProcess, chunk: BlobChunk) -> None:
    before = memory(member, "VmRSS")
    Path(f"/proc/{member.pid}/clear_refs").write_text("5")
    talker = dial(member)
    begin(talker, 2 * BLOB_CHUNK_BYTES_MAX)
    talker.say(chunk)
    while not isinstance(said := talker.hear_any(), wire.Error | BlobStored):
        assert isinstance(said, BlobMore)
    assert isinstance(said, wire.Error) or said.error
    assert serves(member)
    assert memory(member, "VmHWM") - before < MEMORY_GROWTH_MAX


def test_crumbs_take_no_more_memory_than_chunks(member: MemberProcess) -> None:
    talker = dial(member)
    before = memory(member, "VmRSS")
    Path(f"/proc/{member.pid}/clear_refs").write_text("5")
    begin(talker, 4 * MIB)
    talker.socket.settimeout(10)
    with contextlib.suppress(ConnectionError):
        for at in range(0, 600_000, 20_000):
            talker.say(*(BlobChunk(DIGEST, at + one, b"x") for one in range(20_000)))
    talker.close()
    assert serves(member)
    assert memory(member, "VmHWM") - before < MEMORY_GROWTH_MAX


def test_content_that_is_not_what_it_says_is_refused(member: MemberProcess) -> None:
    talker = dial(member)
    digest = hashlib.sha256(b"right").digest()
    begin(talker, 5, digest)
    talker.say(BlobChunk(digest, 0, b"wrong"))
    while isinstance(said := talker.hear_any(), BlobMore):
        pass
    assert isinstance(said, BlobStored)
    assert said.error
    talker.say(BlobGet(digest, 0))
    assert talker.hear_any().error
    assert not (member.state / "blobs" / "partial" / digest.hex()).exists()


def test_a_part_that_somebody_spoiled_does_not_spoil_the_upload(member: MemberProcess) -> None:
    """Also what a computer left that lost its power: a file with its size and without its bytes."""
    data = os.urandom(MIB)
    digest = hashlib.sha256(data).digest()
    talker = dial(member)
    begin(talker, MIB, digest)
    talker.say(BlobChunk(digest, 0, bytes(MIB // 2)))
    while talker.hear(BlobMore).offset < MIB // 2:
        pass
    talker.close()
    part = member.state / "blobs" / "partial" / digest.hex()
    until(lambda: part.exists() and part.stat().st_size == MIB // 2)

    async def put() -> None:
        async with BlobClient([member.address]) as blobs:
            assert (await blobs.put(data)).digest == digest

    asyncio.run(asyncio.wait_for(put(), 15))


def test_a_thousand_idle_links_hold_up_nobody(member: MemberProcess) -> None:
    assert serves(member)
    before = memory(member, "VmRSS")
    links = [dial(member, who) for who in ("client", "worker", "reader", "member") * 250]
    assert len(links) == 1_000
    assert serves(member)
    assert memory(member, "VmRSS") - before < MEMORY_GROWTH_MAX

    def open_count() -> int:
        return len(os.listdir(f"/proc/{member.pid}/fd"))

    with_all = open_count()
    hang_up_all()
    until(lambda: open_count() <= with_all - 1_000)
    assert serves(member)


def test_one_that_stops_in_the_middle_leaves_room_for_others(member: MemberProcess) -> None:
    """Fifteen uploads that never go on: the sixteenth place is enough for all others."""
    for number in range(15):
        talker = dial(member)
        begin(talker, MIB, bytes([number]) * 32)
    assert serves(member)


def test_those_that_stop_in_the_middle_give_way(member: MemberProcess) -> None:
    """All places are taken by uploads that never go on, and more of them wait."""
    links = [dial(member) for _ in range(BLOB_UPLOADS_MAX)]
    for number, talker in enumerate(links):
        begin(talker, MIB, bytes([100 + number]) * 32)
    for number in range(BLOB_UPLOADS_MAX):
        dial(member).say(BlobPut(bytes([150 + number]) * 32, MIB))
    assert serves(member)
    assert hear_stored(links[0]).error == ErrorCode.OVERLOADED


def hear_stored(talker: Talker) -> BlobStored:
    """The end of a put; before it the member may say that it is at it."""
    while isinstance(said := talker.hear_any(), BlobMore):
        pass
    assert isinstance(said, BlobStored)
    return said
