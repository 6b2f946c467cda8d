"""Files that the arguments of a call refer to: files of its job, inline or in the blob store.

A warm process may not access the store, and gets the blobs as open files. Packed values are mapped,
so that a large array is not copied; a file that the function needs as a path is written to a
temporary directory, which is removed after the call.
"""

from __future__ import annotations

import mmap
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from rollq.roles.worker.inputs import check_named, checked_inputs
from rollq.values.codec import Buffer
from rollq.wire.messages import AssignJob
from rollq.wire.models import JobRequest

Listed: TypeAlias = tuple[tuple[str, bytes | int], ...]  # name: content, or index of a blob


def list_files(job: AssignJob, request: JobRequest) -> Listed:
    """List the files of a call.

    Raises:
        RemoteError: BAD_PAYLOAD or BAD_ID if a name or digest is invalid, or a blob is not among
            those of the job.
    """
    if not request.files:
        return ()
    inputs = checked_inputs(request.files)
    check_named(inputs, job.blobs)
    places = {blob.digest: place for place, blob in enumerate(job.blobs)}
    return tuple(
        ("/".join(one.parts), places[one.digest] if one.content is None else one.content)
        for one in inputs
    )


class CallFiles:
    """The files of one call, in the process that runs it. `close` it after the call; mapped memory
    lives on while a value uses it.

    Args:
        listed: The files.
        blobs: Opens all blobs at once: descriptors by index, owned by this object.
    """

    def __init__(self, listed: Listed, blobs: Callable[[], list[int]]) -> None:
        self._listed = dict(listed)
        self._blobs = blobs
        self._fds: list[int] = []
        self._folder = ""

    def buffer(self, name: str) -> Buffer:
        """The content of a file; a blob is mapped copy-on-write."""
        found = self._find(name)
        if isinstance(found, bytes):
            return found
        if not os.fstat(found).st_size:
            return b""
        return memoryview(mmap.mmap(found, 0, access=mmap.ACCESS_COPY))

    def path(self, name: str) -> Path:
        """The path of a file, or of a folder of files, after writing it."""
        if not self._folder:
            self._folder = tempfile.mkdtemp(prefix="rollq-call-")
        below = [one for one in self._listed if one == name or one.startswith(f"{name}/")]
        if not below:
            raise ValueError(f"the call has no file {name[:64]!r}")
        for one in below:
            place = Path(self._folder) / one
            if not place.exists():
                place.parent.mkdir(parents=True, exist_ok=True)
                self._write(place, self._find(one))
        return Path(self._folder) / name

    def close(self) -> None:
        """Release files and folder after the call."""
        for fd in self._fds:
            os.close(fd)
        self._fds = []
        if self._folder:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _find(self, name: str) -> bytes | int:
        found = self._listed.get(name)
        if found is None:
            raise ValueError(f"the call has no file {name[:64]!r}")
        if isinstance(found, bytes):
            return found
        if not self._fds:
            self._fds = self._blobs()
        return self._fds[found]

    @staticmethod
    def _write(place: Path, found: bytes | int) -> None:
        with place.open("xb") as file:
            if isinstance(found, bytes):
                file.write(found)
                return
            offset, size = 0, os.fstat(found).st_size
            while offset < size:
                offset += os.sendfile(file.fileno(), found, offset, size - offset)
