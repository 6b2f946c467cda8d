"""A group that keeps files, as clients see it: what tests of files on the client share."""

from __future__ import annotations

import asyncio
import hashlib
import os
from collections.abc import Callable, Coroutine, Iterable
from pathlib import Path
from typing import Any

from rollq.base.digests import Digest
from rollq.base.errors import ErrorCode, RemoteError, RollqError
from rollq.base.jobs import BlobRef
from rollq.base.limits import INLINE_BYTES_MAX
from rollq.roles.client.engine.supplier import Supplier
from rollq.roles.client.jobs.inputs import Inputs
from rollq.roles.client.jobs.specs import JobSpec
from rollq.roles.client.jobs.supply import Supply, supply_of
from rollq.roles.client.session.group_session import Answer
from rollq.wire import messages as wire

JOB = b"j" * 16
LARGE = os.urandom(INLINE_BYTES_MAX)


def digest_of(data: bytes) -> Digest:
    return hashlib.sha256(data).digest()


class FakeBlobs:
    """A group that keeps what it is given."""

    def __init__(self) -> None:
        self.kept: dict[Digest, bytes] = {}
        self.puts: list[Digest] = []
        self.asked = 0
        self.error: RollqError | None = None
        self.before_put: Callable[[], object] = lambda: None
        self.is_stopped = False

    async def have(self, digests: Iterable[Digest]) -> dict[Digest, int]:
        self.asked += 1
        return {one: len(self.kept[one]) for one in digests if one in self.kept}

    async def put(self, source: Any, progress: Any, digest: Digest | None) -> BlobRef:
        self.before_put()
        if self.error is not None:
            raise self.error
        data = source if isinstance(source, bytes) else source.read_bytes()
        if digest_of(data) != digest:
            raise RemoteError(ErrorCode.BLOB_CORRUPT, "not what it says")
        progress(len(data) // 2, len(data))
        self.kept[digest] = data
        self.puts.append(digest)
        return BlobRef(digest, len(data))

    async def fetch(self, digest: Digest, into: Path, size: int | None, progress: Any) -> int:
        if self.error is not None:
            error, self.error = self.error, None
            raise error
        await asyncio.to_thread(into.write_bytes, self.kept[digest])
        if progress is not None:
            progress(size, size)
        return len(self.kept[digest])

    def connected_at(self) -> float:
        return asyncio.get_running_loop().time()

    async def stop(self) -> None:
        self.is_stopped = True


class FakeSession:
    """Answers requests: what it lacks first, then yes."""

    def __init__(self, lacks: int = 0) -> None:
        self.requests: list[Any] = []
        self._lacks = lacks

    def start(self) -> None:
        """Nobody is dialled."""

    def give_up(self, request_id: bytes) -> None:
        """What was asked is answered at once."""

    async def stop(self) -> None:
        """Nobody hangs up."""

    def ask(self, request: Any, on_answer: Callable[[Answer], None]) -> None:
        self.requests.append(request)
        if self._lacks:
            self._lacks -= 1
            on_answer(wire.Error(JOB, int(ErrorCode.BLOB_MISSING), "lacks", retryable=True))
        else:
            on_answer(wire.Accepted(JOB))


class World:
    """A supplier between the fakes."""

    def __init__(self, lacks: int = 0) -> None:
        self.blobs = FakeBlobs()
        self.session = FakeSession(lacks)
        self.roles: list[str] = []
        self.supplier = Supplier(self.session, (), self._blobs_for)  # type: ignore[arg-type]
        self.supplier.start()

    def _blobs_for(self, who: str) -> FakeBlobs:
        self.roles.append(who)
        return self.blobs

    async def submit(self, files: dict[str, Any], progress: Any = None) -> Answer:
        settled = await Inputs().settle(JobSpec("calc", files=files))
        request = wire.SubmitJob(JOB, "c", "", "calc", b"", None, getattr(settled, "blobs", ()))
        return await self.ask(request, supply_of(settled, progress))

    async def ask(self, request: wire.SubmitJob, supply: Supply) -> Answer:
        answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        self.supplier.ask(request, answered.set_result, supply)
        return await answered


class FakeFetcher:
    """A client whose group has some blobs."""

    def __init__(self, *contents: bytes) -> None:
        self.world = World()
        self.world.blobs.kept = {digest_of(one): one for one in contents}

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    async def fetch(self, ref: BlobRef, path: Path, progress: Any = None) -> None:
        await self.world.supplier.fetch(ref, path, progress)


def run(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(story)
