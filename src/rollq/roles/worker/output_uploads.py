"""Uploads of large outputs of ended jobs.

Outputs that are too large for a result are copied to the worker's own store, where leftover
processes of the job cannot change them, then uploaded. Only after that the attempt counts as ended,
so that its result refers only to blobs that the group has. Meanwhile its slot is free, and its
lease is renewed as if it ran."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Callable
from typing import IO, Final, NamedTuple

from rollq.base.digests import digest_to_text
from rollq.base.jobs import AttemptRef, BlobRef
from rollq.roles.service import end_tasks
from rollq.roles.worker.blobs import WorkerBlobs
from rollq.roles.worker.capture import SpooledTail, Tail
from rollq.roles.worker.directories import Directories, Directory
from rollq.roles.worker.inputs import EXECUTABLE
from rollq.roles.worker.outputs import NAME_CHARS_SHOWN, ExecutionEnd, Left
from rollq.store.safe_dir import Found, SafeDir
from rollq.wire.messages import AssignJob
from rollq.wire.models import OutputFile, StreamBlob

PINNED_S: Final = 60.0  # after the upload; from then on the result pins its blobs


class LargeOutputs(NamedTuple):
    """Outputs of one job that are too large for its result."""

    directory: Directory
    left: Left | None  # in the directory; None: nothing, and the directory was returned
    tails: tuple[Tail, Tail]  # stdout and stderr


class OutputUploads:
    """Uploads of large outputs, one task for each job.

    Args:
        blobs: The worker's store.
        on_done: Called when an upload is done, with the blobs in the job's ending.
        on_failed: Called when the outputs of a job cannot be uploaded.
    """

    def __init__(
        self,
        blobs: WorkerBlobs,
        on_done: Callable[[AssignJob, AttemptRef, ExecutionEnd], None],
        on_failed: Callable[[AttemptRef, str], None],
    ) -> None:
        self._blobs = blobs
        self._on_done = on_done
        self._on_failed = on_failed
        self._under_way: dict[AttemptRef, tuple[AssignJob, asyncio.Task[None]]] = {}

    def open(self, directories: Directories) -> None:
        """Set the directories of the jobs."""
        self._directories = directories

    def begin(
        self,
        job: AssignJob,
        ref: AttemptRef,
        ending: ExecutionEnd,
        outputs: LargeOutputs | None = None,
    ) -> None:
        """Upload the outputs of a job, and the separate parts of its ending."""
        task = asyncio.get_running_loop().create_task(self._run(job, ref, ending, outputs))
        self._under_way[ref] = job, task

    def cancel(self, ref: AttemptRef) -> AssignJob | None:
        """Cancel an upload; None if it is not under way."""
        job, task = self._under_way.pop(ref, (None, None))
        if task is not None:
            task.cancel()
        return job

    async def close(self) -> None:
        """Cancel all uploads."""
        tasks = [task for _, task in self._under_way.values()]
        self._under_way.clear()
        await end_tasks(tasks)

    # --- helpers

    async def _run(
        self, job: AssignJob, ref: AttemptRef, ending: ExecutionEnd, outputs: LargeOutputs | None
    ) -> None:
        kept: list[BlobRef] = []
        try:
            try:
                if outputs is not None:
                    await self._keep_all(ending, outputs, kept)
                await self._keep_separate(ending, kept)
            finally:
                if outputs is not None:
                    self._clear(outputs)
                for part in ending.separate:
                    if not isinstance(part.content, bytes):
                        part.content.close()
                ending.separate = ()
            blobs = tuple(dict.fromkeys(kept))
            await self._blobs.give(blobs)
        except asyncio.CancelledError:
            self._blobs.unpin(kept)
            raise
        except Exception as error:  # of any kind: the job must not stay here for ever
            self._blobs.unpin(kept)
            if self._under_way.pop(ref, None) is not None:
                self._on_failed(ref, f"its outputs cannot be uploaded: {error}")
            return
        asyncio.get_running_loop().call_later(PINNED_S, self._blobs.unpin, kept)
        if self._under_way.pop(ref, None) is not None:
            ending.blobs = tuple(dict.fromkeys((*ending.blobs, *blobs)))
            self._on_done(job, ref, ending)

    async def _keep_all(
        self, ending: ExecutionEnd, outputs: LargeOutputs, kept: list[BlobRef]
    ) -> None:
        if outputs.left is not None:
            for found in outputs.left.large:
                blob = await self._keep_output(outputs.directory.files, found, ending)
                if blob is not None:
                    kept.append(blob)
        for name, tail in zip(("stdout", "stderr"), outputs.tails, strict=True):
            if isinstance(tail, SpooledTail) and tail.is_spooled:
                if tail.is_cut:
                    ending.notes.append(f"{name}: {tail.cut}")
                await self._keep_part(name, tail.opened(name), ending, kept)

    async def _keep_separate(self, ending: ExecutionEnd, kept: list[BlobRef]) -> None:
        for name, content in ending.separate:
            if isinstance(content, bytes):
                with await self._blobs.on_thread(_written, content, self._directories.path) as file:
                    await self._keep_part(name, os.dup(file.fileno()), ending, kept)
            else:
                await self._keep_part(name, content.opened("a returned value"), ending, kept)

    async def _keep_part(
        self, name: str, fd: int, ending: ExecutionEnd, kept: list[BlobRef]
    ) -> None:
        blob = await self._blobs.keep_open(fd)
        kept.append(blob)
        setattr(ending, f"{name}_blob", StreamBlob(digest_to_text(blob.digest), blob.size))

    async def _keep_output(
        self, files: SafeDir, found: Found, ending: ExecutionEnd
    ) -> BlobRef | None:
        try:
            fd = files.open_found(found)
        except OSError as error:
            ending.notes.append(f"left out: {_shown(found)} cannot be read: {error.strerror}")
            return None
        blob = await self._blobs.keep_open(fd)
        if blob.size != found.status.st_size:
            self._blobs.unpin((blob,))
            ending.notes.append(f"left out: {_shown(found)} is still being written to")
            return None
        mode = 0o755 if found.status.st_mode & EXECUTABLE else 0o644
        ending.outputs.append(OutputFile(found.name, digest_to_text(blob.digest), blob.size, mode))
        return blob

    def _clear(self, outputs: LargeOutputs) -> None:
        if outputs.left is not None:
            self._directories.settle(outputs.directory, outputs.left)
        for tail in outputs.tails:
            if isinstance(tail, SpooledTail):
                tail.close()


def _written(content: bytes, folder: str) -> IO[bytes]:
    """An unnamed file with this content."""
    file = tempfile.TemporaryFile(buffering=0, dir=folder)  # noqa: SIM115
    try:
        view = memoryview(content)
        while view:
            view = view[file.write(view) :]
    except BaseException:
        file.close()
        raise
    return file


def _shown(found: Found) -> str:
    return ascii(found.name[:NAME_CHARS_SHOWN])
