"""For tests of blobs on members that are processes: who holds what, on disk."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

from rollq.base.digests import Digest
from rollq.base.jobs import BlobRef
from rollq.roles.blobs.client import BlobClient
from rollq.wire import messages as wire
from tests.integration.patience import DEADLINE_S
from tests.integration.procs import MemberProcess, Members
from tests.integration.talk import Talker, job

MIB = 1024 * 1024


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(story, DEADLINE_S))


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
