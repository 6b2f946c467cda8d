"""Secrets taken out of a stream of bytes, however it is cut into pieces. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

MASK: Final = b"***"
MASKED_BYTES_MIN: Final = 4  # a shorter value is everywhere, and to mask it would tell what it is
KEY_BYTES: Final = 16


class Masker:
    """Replaces values by MASK. One for each stream.

    Args:
        values: What is not to be seen; those that are too short are left alone.
    """

    __slots__ = ("_find", "_held", "_values")

    def __init__(self, values: Iterable[bytes]) -> None:
        wanted = {value for value in values if len(value) >= MASKED_BYTES_MIN}
        # The longest first: one may begin with another.
        self._values = sorted(wanted, key=lambda value: (-len(value), value))
        self._find = re.compile(b"|".join(map(re.escape, self._values)) or b"(?!)").search
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """What may be shown by now: the rest may be the beginning of a value."""
        data = self._held + data
        shown: list[bytes] = []
        at = 0
        while True:
            hold = self._hold_from(data, at)
            match = self._find(data, at)
            if match is None or match.start() >= hold:
                break
            shown += data[at : match.start()], MASK
            at = match.end()
        shown.append(data[at:hold])
        self._held = data[hold:]
        return b"".join(shown)

    def finish(self) -> bytes:
        """The stream is over: what was held back."""
        data, self._held = self._held, b""
        return self.mask(data)

    def mask(self, data: bytes) -> bytes:
        """Of data that is complete in itself."""
        shown: list[bytes] = []
        at = 0
        while match := self._find(data, at):
            shown += data[at : match.start()], MASK
            at = match.end()
        return b"".join((*shown, data[at:]))

    def mask_text(self, text: str) -> str:
        """As `mask`, of text."""
        data = text.encode(errors="surrogatepass")
        return self.mask(data).decode(errors="surrogatepass")

    def _hold_from(self, data: bytes, start: int) -> int:
        """Where the longest end of the data begins that a value may begin with and go on from."""
        first = len(data)
        for value in self._values:
            at = max(start, len(data) - len(value) + 1)
            while (at := data.find(value[:1], at, first)) >= 0:
                # The first comparison saves a copy of what may be long.
                if value.startswith(data[at : at + KEY_BYTES]) and value.startswith(data[at:]):
                    first = at
                    break
                at += 1
        return first
