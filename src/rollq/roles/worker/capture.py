"""The end of what a program wrote, in bounded memory."""

from __future__ import annotations

from collections import deque

from rollq.base.limits import STREAM_BYTES_MAX


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


def with_remark(text: str, dropped_bytes: int) -> str:
    """Say in front of a text how much of it is missing."""
    return f"[{dropped_bytes} bytes left out]\n{text}" if dropped_bytes else text
