"""A scripted member that has blobs, too, and counts what moves."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

from rollq.base.access import LinkRole
from rollq.base.jobs import BlobRef
from rollq.net.link import Link
from rollq.roles.blobs.server import BlobServer, Greeting
from rollq.roles.door import Door
from rollq.store.blobs.local import LocalBlobs
from rollq.wire import messages as wire
from rollq.wire.blob_messages import BlobGet, BlobPut, HelloBlobs
from rollq.wire.compact import Message
from rollq.wire.models import InputFile, encode_model, job_request
from tests.integration.fake_member import LEASE_MS, FakeMember, job_id


def ref_of(data: bytes) -> BlobRef:
    """How a blob with this content is referred to."""
    return BlobRef(hashlib.sha256(data).digest(), len(data))


class BlobMember(FakeMember):
    """One member with a store of its own; a link for blobs is like any other to a test."""

    def __init__(self, folder: Path) -> None:
        super().__init__()
        self.store = LocalBlobs(folder)
        self.server = BlobServer(self.store, self._greet)
        self._door = Door({LinkRole.BLOBS: self.server})
        self.server.start()
        self.gets: list[bytes] = []
        self.puts: list[bytes] = []
        self.deaf = False  # asked for a blob, it says nothing
        self._blob_links: dict[Link, None] = {}

    async def stop(self) -> None:
        """Hang up."""
        await self.server.stop()
        await super().stop()
        self.store.close()

    def put(self, data: bytes) -> BlobRef:
        """Have a blob."""
        ref = ref_of(data)
        with self.store.begin(ref.digest, ref.size) as incoming:
            incoming.write(data)
            incoming.commit()
        return ref

    def read(self, digest: bytes) -> bytes:
        """The content of a blob."""
        reader = self.store.open(digest)
        try:
            return reader.read(0, reader.size)
        finally:
            reader.close()

    def assign_files(
        self,
        number: int,
        exec_name: str,
        *args: str,
        files: tuple[InputFile, ...] = (),
        blobs: tuple[BlobRef, ...] = (),
        **more: Any,
    ) -> bytes:
        """Assign a job that refers to blobs."""
        one = job_id(number)
        request = job_request(one, "tester", exec_name, args=args, files=files, **more)
        self.send(
            wire.AssignJob(
                *(one, 1, number, LEASE_MS, exec_name, exec_name, encode_model(request)),
                client_id="tester",
                blobs=blobs,
            )
        )
        return one

    def _greet(self, hello: HelloBlobs) -> Greeting:
        return wire.Welcome("g", 1, hello.features)

    def _messages(self, link: Link, messages: list[Message]) -> None:
        if link not in self._blob_links and not isinstance(messages[0], HelloBlobs):
            super()._messages(link, messages)
            return
        self._blob_links[link] = None
        self.gets += [one.digest for one in messages if isinstance(one, BlobGet)]
        self.puts += [one.digest for one in messages if isinstance(one, BlobPut)]
        if not (self.deaf and isinstance(messages[-1], BlobGet | BlobPut)):
            self._door.messages(link, messages)
        self._news.set()

    def _closed(self, link: Link, reason: str) -> None:
        self._door.closed(link, reason)
        super()._closed(link, reason)


def input_of(name: str, ref: BlobRef, mode: int = 0o644) -> InputFile:
    """An input by digest."""
    return InputFile(name, None, None, ref.digest.hex(), ref.size, mode)
