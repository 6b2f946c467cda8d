"""Captured output of a program: its end in bounded memory, and all of a long one on disk."""

from __future__ import annotations

import os
import tempfile
from collections import deque
from typing import IO, Final

from rollq.base.limits import STREAM_BYTES_MAX, STREAM_WHOLE_BYTES_MAX
from rollq.store.blobs.failures import explained


class Tail:
    """Keeps the last `bytes_max` bytes of a stream, and counts all."""

    __slots__ = ("_bytes_max", "_chunks", "_kept", "_kept_max", "total")

    def __init__(self, bytes_max: int = STREAM_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._kept_max = bytes_max
        self._chunks: deque[bytes] = deque()
        self._kept = 0
        self.total = 0

    def feed(self, data: bytes) -> None:
        """Add data of the stream."""
        self.total += len(data)
        chunk = data[-self._kept_max :]
        self._chunks.append(chunk)
        self._kept += len(chunk)
        while self._kept - len(self._chunks[0]) >= self._kept_max:
            self._kept -= len(self._chunks.popleft())

    def end(self) -> bytes:
        """The last bytes; the whole stream if `total` is their number."""
        return b"".join(self._chunks)[-self._bytes_max :] if self.total else b""

    @property
    def is_spooled(self) -> bool:
        """Whether more than `end` is kept."""
        return False

    # --- for watchers

    def keep(self, bytes_max: int) -> None:
        """Keep at least so many bytes from now on; `end` does not grow."""
        self._kept_max = max(self._kept_max, bytes_max)

    def read(self, offset: int, bytes_max: int, *, whole: bool = False) -> tuple[int, bytes]:
        """Data from an offset on, and its offset: later, if the data there is not kept. With
        `whole`, data on disk counts as kept."""
        place = self.total - self._kept
        offset = max(offset, place)
        parts: list[bytes] = []
        for chunk in self._chunks:
            after = place + len(chunk)
            if after > offset and bytes_max > 0:
                part = chunk[max(offset - place, 0) :][:bytes_max]
                parts.append(part)
                bytes_max -= len(part)
            place = after
        return offset, b"".join(parts)


class SpooledTail(Tail):
    """A tail that also writes the whole stream to disk, once it is longer than the tail.

    Args:
        folder: For an unnamed file.
        whole_max: Bytes kept on disk at most.
    """

    __slots__ = ("_folder", "_whole_max", "failure", "is_cut", "whole")

    def __init__(self, folder: str, whole_max: int = STREAM_WHOLE_BYTES_MAX) -> None:
        super().__init__()
        self._folder = folder
        self._whole_max = whole_max
        self.whole: IO[bytes] | None = None
        self.is_cut = False  # `whole` has the first `whole_max` bytes
        self.failure: OSError | None = None  # why there is no `whole`: the disk is full, say

    @property
    def is_spooled(self) -> bool:
        """Whether the whole stream is on disk, or should be."""
        return self.whole is not None or self.failure is not None

    def feed(self, data: bytes) -> None:
        """Add data of the stream."""
        is_over = self.is_cut or self.failure is not None
        if self.total + len(data) > self._bytes_max and not is_over:
            self._spool(data)
        super().feed(data)

    def read(self, offset: int, bytes_max: int, *, whole: bool = False) -> tuple[int, bytes]:
        """As in `Tail`; with `whole`, also data that is only on disk."""
        if whole and self.whole is not None and offset < self.total - self._kept:
            data = os.pread(self.whole.fileno(), bytes_max, offset)
            if data:
                return offset, data
        return super().read(offset, bytes_max)

    @property
    def cut(self) -> str:
        """A remark on how much of the stream is on disk, if it is not all."""
        return f"only the first {self._whole_max} bytes are kept" if self.is_cut else ""

    def opened(self, name: str) -> int:
        """A new descriptor of the file, which is there.

        Raises:
            DiskError: DISK_FULL or DISK_FAILED; it could not be written.
        """
        with explained(f"keep {self.total} bytes of {name}"):
            if self.failure is not None:
                raise self.failure
            assert self.whole is not None, "longer than a tail"
            return os.dup(self.whole.fileno())

    def close(self) -> None:
        """Delete the file. Idempotent."""
        whole, self.whole = self.whole, None
        if whole is not None:
            whole.close()

    def _spool(self, data: bytes) -> None:
        try:
            if self.whole is None:
                self.whole = tempfile.TemporaryFile(buffering=0, dir=self._folder)  # noqa: SIM115
                data = b"".join(self._chunks) + data  # all so far is in memory
            view = memoryview(data)[: self._whole_max - self.whole.tell()]
            self.is_cut = len(view) < len(data)
            while view:
                view = view[self.whole.write(view) :]
        except OSError as error:
            self.failure = error
            self.close()


def end_of(data: bytes, total: int) -> tuple[str, bytes | None]:
    """The end of a stream of `total` bytes as text and, if that is not UTF-8, as bytes. If the
    stream was longer, the text begins with a whole character, and fewer bytes are given: they are
    encoded several times as long."""
    if len(data) < total:
        data = _from_a_character(data)
    try:
        return data.decode(), None
    except UnicodeDecodeError:
        if len(data) < total:
            data = data[-BINARY_END_BYTES:]
        return data.decode(errors="replace"), data


def _from_a_character(data: bytes) -> bytes:
    """The data without a partial character at its begin."""
    for place, byte in enumerate(data[:CHARACTER_BYTES_MAX]):
        if byte & 0xC0 != 0x80:
            return data[place:]
    return b"" if len(data) < CHARACTER_BYTES_MAX else data


BINARY_END_BYTES: Final = 4 * 1024
CHARACTER_BYTES_MAX: Final = 4
