"""What the arguments of a call refer to: files of its job, inline or blobs of the worker's store.

A warm process may not see the store, and gets the blobs as open files. What is packed in one is
mapped, so that a large array is not copied; a file that the function is to have as a path is
written to a directory for temporary files, which goes with the call.
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

Listed: TypeAlias = tuple[tuple[str, bytes | int], ...]  # by name: content, or the place of a blob


def list_files(job: AssignJob, request: JobRequest) -> Listed:
    """The files of a call.

    Raises:
        RemoteError: BAD_PAYLOAD or BAD_ID, if a name or digest is refused, or it is a blob that the
            job does not refer to.
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
    """The files of one call, where it runs. `close` it when the call has ended: what is mapped
    stays as long as a value uses it.

    Args:
        listed: What there is.
        blobs: Opens the blobs, all at once: descriptors by their places. They are ours then.
    """

    def __init__(self, listed: Listed, blobs: Callable[[], list[int]]) -> None:
        self._listed = dict(listed)
        self._blobs = blobs
        self._fds: list[int] = []
        self._folder = ""

    def buffer(self, name: str) -> Buffer:
        """The content of a file; that of a blob is mapped, and private if it is written to."""
        found = self._find(name)
        if isinstance(found, bytes):
            return found
        if not os.fstat(found).st_size:
            return b""
        return memoryview(mmap.mmap(found, 0, access=mmap.ACCESS_COPY))

    def path(self, name: str) -> Path:
        """A file, or a folder of files, under a path of its own."""
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
        """The call has ended."""
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
