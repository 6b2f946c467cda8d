"""Output files of a job. Small ones are part of the result, large ones are fetched from the group
on demand, behind the same interface."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import shutil
import tempfile
from collections.abc import Coroutine, Iterator, Sequence
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypeVar

from rollq.base.digests import Digest, digest_to_text
from rollq.base.errors import DiskError, ErrorCode, LocalError, RollqError
from rollq.base.jobs import BlobRef
from rollq.base.names import Parts, checked_tree
from rollq.roles.blobs.carrier import FULL
from rollq.roles.blobs.files import part_of
from rollq.roles.client.jobs.supply import BytesMoved
from rollq.store.safe_dir import SafeDir

T = TypeVar("T")

EXECUTABLE = 0o111
PROGRAM, PLAIN = 0o755, 0o644


class Fetcher(Protocol):
    """Downloads blobs; implemented by the engine of a client."""

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        """Its event loop. Raises LocalError BAD_SETUP if it is not running."""

    async def fetch(self, ref: BlobRef, path: Path, progress: BytesMoved | None = None) -> None:
        """Download a blob to a file and verify it."""


class Output:
    """An output file. Methods that begin with `a` are for the client's event loop. The others
    block, and may be called from any other thread, as with a blocking client.

    Attributes:
        name: Its path in the job's directory.
        size: In bytes.
        mode: Its permission bits, if known.
    """

    def __init__(
        self,
        name: str,
        content: bytes | BlobRef,
        *,
        mode: int = 0o644,
        fetcher: Fetcher | None = None,
        loads: str = "await the method of the same name with an `a` before it",
    ) -> None:
        self.name = name
        self.size = content.size if isinstance(content, BlobRef) else len(content)
        self.mode = mode
        self._content = content
        self._fetcher = fetcher
        self._loads = loads  # hint for callers in the client's event loop

    @property
    def digest(self) -> str:
        """The SHA-256 digest of the content, in hex."""
        content = self._content
        if isinstance(content, BlobRef):
            return digest_to_text(content.digest)
        return digest_to_text(hashlib.sha256(content).digest())

    @property
    def is_here(self) -> bool:
        """Whether the content came with the result."""
        return isinstance(self._content, bytes)

    def as_input(self) -> bytes | BlobRef:
        """A reference for the `files` of another job, if the grid has the content; else the
        bytes."""
        return self._content

    def save(self, path: str | PathLike[str], progress: BytesMoved | None = None) -> Path:
        """Save it to a file, or under its own name in an existing folder; returns the path. An
        existing file is replaced atomically. An interrupted download is resumed.

        Raises:
            RollqError: BLOB_MISSING, BLOB_CORRUPT, DISK_FULL (with the size that is needed), ...
            OSError: an error of the file system.
        """
        if self.is_here:
            place = self._place(path)
            self._write(place)
            return place
        return self._wait(self.asave(path, progress))

    async def asave(self, path: str | PathLike[str], progress: BytesMoved | None = None) -> Path:
        """The same as `save`, without blocking the loop."""
        place = await asyncio.to_thread(self._place, path)
        if self.is_here:
            await asyncio.to_thread(self._write, place)
        else:
            await self._fetch(place, progress)
        return place

    def read(self) -> bytes:
        """Return the whole content."""
        content = self._content
        return content if isinstance(content, bytes) else self._wait(self.aread())

    async def aread(self) -> bytes:
        """The same as `read`, without blocking the loop."""
        if isinstance(self._content, bytes):
            return self._content
        with await self.aopen() as file:
            return await asyncio.to_thread(file.read)

    def open(self) -> BinaryIO:
        """Open it for reading; a large file is downloaded to a temporary file first."""
        content = self._content
        return BytesIO(content) if isinstance(content, bytes) else self._wait(self.aopen())

    async def aopen(self) -> BinaryIO:
        """The same as `open`, without blocking the loop."""
        if isinstance(self._content, bytes):
            return BytesIO(self._content)
        folder = await asyncio.to_thread(tempfile.mkdtemp, prefix="rollq-")
        try:
            place = Path(folder) / "output"
            await self._fetch(place, None)
            return place.open("rb")  # the open file outlives its name
        finally:
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)

    def save_below(self, folder: SafeDir, path: Path, parts: Parts) -> None:
        """Save it below a folder, whose path is `path`, without following symbolic links in it."""
        content = self._content
        if not isinstance(content, bytes):
            self._wait(self.asave_below(folder, path, parts))
            return
        with self._told_if_full(path):
            folder.replace(parts, content, PROGRAM if self.mode & EXECUTABLE else PLAIN)

    async def asave_below(
        self, folder: SafeDir, path: Path, parts: Parts, progress: BytesMoved | None = None
    ) -> None:
        """The same as `save_below`, without blocking the loop."""
        if self.is_here:
            await asyncio.to_thread(self.save_below, folder, path, parts)
            return
        beside = f".rollq-{self.digest[:32]}"
        await self._fetch(path / beside, progress)
        try:
            await asyncio.to_thread(folder.move_in, parts, beside)
        except OSError:
            await asyncio.to_thread(folder.unlink, beside)
            raise

    # --- helpers

    def _place(self, path: str | PathLike[str]) -> Path:
        place = Path(path)
        return place / self.name.rpartition("/")[2] if place.is_dir() else place

    def _write(self, place: Path) -> None:
        """Write the content that came with the result, atomically."""
        beside = place.with_name(f".rollq-{os.urandom(8).hex()}")
        content = self._content
        assert isinstance(content, bytes)
        try:
            with self._told_if_full(place.parent):
                beside.write_bytes(content)
                self._let_run(beside)
                beside.replace(place)
        except BaseException:
            beside.unlink(missing_ok=True)
            raise

    async def _fetch(self, place: Path, progress: BytesMoved | None) -> None:
        ref = self._content
        assert isinstance(ref, BlobRef)
        await asyncio.to_thread(self._check_room, place, ref.digest)
        try:
            await self._from().fetch(ref, place, progress)
        except RollqError as error:
            if error.code is not ErrorCode.DISK_FULL:
                raise
            await asyncio.to_thread(part_of(place, ref.digest).unlink, missing_ok=True)
            raise self._full(place.parent) from None
        await asyncio.to_thread(self._let_run, place)

    def _let_run(self, place: Path) -> None:
        if self.mode & EXECUTABLE:
            place.chmod(PROGRAM)

    def _check_room(self, place: Path, digest: Digest) -> None:
        """Fail before the download, not during it, if the disk has too little room."""
        try:
            free = shutil.disk_usage(place.parent).free
        except OSError as error:
            raise DiskError(
                ErrorCode.DISK_FAILED, f"{place.parent}: {error.strerror}", "check the path"
            ) from None
        part = part_of(place, digest)
        with contextlib.suppress(OSError):
            free += part.stat().st_size
        if free < self.size:
            part.unlink(missing_ok=True)
            raise self._full(place.parent)

    @contextlib.contextmanager
    def _told_if_full(self, folder: Path) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            if error.errno not in FULL:
                raise
            raise self._full(folder) from None

    def _full(self, folder: Path) -> DiskError:
        try:
            free = f", {shutil.disk_usage(folder).free} are free"
        except OSError:
            free = ""
        return DiskError(
            ErrorCode.DISK_FULL,
            f"{self.name} needs {self.size} bytes in {folder}{free}",
            "make room or choose another folder, then fetch it again",
        )

    def _from(self) -> Fetcher:
        if self._fetcher is None:
            raise LocalError(
                ErrorCode.BAD_SETUP,
                f"{self.name}: this result has no client to fetch it",
                "attach to the job with a client, and take it from there",
            )
        return self._fetcher

    def _wait(self, call: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the client's loop and block until it ends."""
        try:
            loop = self._from().loop
            if loop is _running_loop():
                raise LocalError(
                    ErrorCode.BAD_SETUP,
                    f"{self.name}: to fetch it here would block the event loop",
                    self._loads,
                )
        except BaseException:
            call.close()
            raise
        return asyncio.run_coroutine_threadsafe(call, loop).result()

    def __repr__(self) -> str:
        return f"<Output {self.name} {self.size} bytes>"


def _running_loop() -> asyncio.AbstractEventLoop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None


def save_outputs(outputs: Sequence[Output], folder: Path) -> list[str]:
    """Save files below a folder, without following symbolic links in it; returns their names."""
    places = checked_tree(output.name for output in outputs)
    if places:
        os.makedirs(folder, exist_ok=True)
        with SafeDir(os.fspath(folder)) as directory:
            for parts, output in zip(places, outputs, strict=True):
                output.save_below(directory, folder, parts)
    return [output.name for output in outputs]


async def asave_outputs(
    outputs: Sequence[Output], folder: Path, progress: BytesMoved | None = None
) -> list[str]:
    """The same without blocking the loop. `progress` is called with the sums for all files, if any
    has to be downloaded."""
    places = checked_tree(output.name for output in outputs)
    total = sum(output.size for output in outputs)
    is_long = not all(output.is_here for output in outputs)
    done = 0

    def moved(count: int, _: int) -> None:
        if progress is not None and is_long:
            progress(done + count, total)

    if places:
        await asyncio.to_thread(os.makedirs, folder, exist_ok=True)
        with SafeDir(os.fspath(folder)) as directory:
            for parts, output in zip(places, outputs, strict=True):
                await output.asave_below(directory, folder, parts, moved)
                moved(output.size, output.size)
                done += output.size
    return [output.name for output in outputs]
