"""What a program wrote: its end in bounded memory, and if it is long all of it on disk."""

from __future__ import annotations

import re
import tempfile
from collections import deque
from typing import IO, Final

from rollq.base.limits import STREAM_BYTES_MAX, STREAM_WHOLE_BYTES_MAX


class Tail:
    """Keeps the last `bytes_max` bytes of a stream and counts the rest."""

    __slots__ = ("_bytes_max", "_chunks", "_kept", "_kept_max", "total")

    def __init__(self, bytes_max: int = STREAM_BYTES_MAX) -> None:
        self._bytes_max = bytes_max
        self._kept_max = bytes_max
        self._chunks: deque[bytes] = deque()
        self._kept = 0
        self.total = 0

    def feed(self, data: bytes) -> None:
        """More of the stream."""
        self.total += len(data)
        chunk = data[-self._kept_max :]
        self._chunks.append(chunk)
        self._kept += len(chunk)
        while self._kept - len(self._chunks[0]) >= self._kept_max:
            self._kept -= len(self._chunks.popleft())

    def text(self) -> str:
        """The end as text; a first line tells how much came before it."""
        if not self.total:
            return ""
        kept = b"".join(self._chunks)[-self._bytes_max :]
        return with_remark(kept.decode(errors="replace"), self.total - len(kept))

    @property
    def is_spooled(self) -> bool:
        """Whether there is more to tell than `text`."""
        return False

    # --- for those who watch

    def keep(self, bytes_max: int) -> None:
        """Keep at least so much from now on; `text` stays as long as it was."""
        self._kept_max = max(self._kept_max, bytes_max)

    def read(self, offset: int, bytes_max: int) -> tuple[int, bytes]:
        """Bytes from an offset on, and where they begin: later, if those there are not kept."""
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
    """A tail that also keeps all of the stream on disk, once it is longer than the tail.

    Args:
        folder: Where the file is made; it has no name there.
    """

    __slots__ = ("_folder", "problem", "whole")

    def __init__(self, folder: str) -> None:
        super().__init__()
        self._folder = folder
        self.whole: IO[bytes] | None = None
        self.problem = ""  # why not all of it is there

    @property
    def is_spooled(self) -> bool:
        """Whether all of it is, or should be, on disk."""
        return self.whole is not None or self.problem != ""

    def feed(self, data: bytes) -> None:
        """More of the stream."""
        if self.total + len(data) > self._bytes_max and not self.problem:
            self._spool(data)
        super().feed(data)

    def close(self) -> None:
        """The file is not needed any more. Twice is no error."""
        whole, self.whole = self.whole, None
        if whole is not None:
            whole.close()

    def _spool(self, data: bytes) -> None:
        try:
            if self.whole is None:
                self.whole = tempfile.TemporaryFile(buffering=0, dir=self._folder)  # noqa: SIM115
                data = b"".join(self._chunks) + data  # so far, all of it was kept
            view = memoryview(data)[: STREAM_WHOLE_BYTES_MAX - self.whole.tell()]
            if len(view) < len(data):
                self.problem = f"only the first {STREAM_WHOLE_BYTES_MAX} bytes are kept"
            while view:
                view = view[self.whole.write(view) :]
        except OSError as error:
            self.problem = f"it is not kept as a whole: {error.strerror}"
            self.close()


def with_remark(text: str, dropped_bytes: int) -> str:
    """Say in front of a text how much of it is missing."""
    return f"[{dropped_bytes} bytes left out]\n{text}" if dropped_bytes else text


def second_half(text: str) -> str:
    """The rest of a text after half of it; a remark in front of it tells of more then."""
    remark = REMARK.match(text)
    dropped_bytes = int(remark[1]) if remark else 0
    body = text[remark.end() :] if remark else text
    if not body:
        return ""
    half = len(body) // 2 + 1
    return with_remark(body[half:], dropped_bytes + len(body[:half].encode(errors="replace")))


REMARK: Final = re.compile(r"\[(\d+) bytes left out\]\n")
