"""Masks secrets in a stream of bytes, across chunk boundaries. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

MASK: Final = b"***"
MASKED_BYTES_MIN: Final = 4  # masking a shorter value would corrupt output and reveal the value
KEY_BYTES: Final = 16


class Masker:
    """Replaces values by MASK. One for each stream.

    Args:
        values: The secrets; those that are too short are not masked.
    """

    __slots__ = ("_find", "_held", "_values")

    def __init__(self, values: Iterable[bytes]) -> None:
        wanted = {value for value in values if len(value) >= MASKED_BYTES_MIN}
        # Longest first, as one value may be a prefix of another.
        self._values = sorted(wanted, key=lambda value: (-len(value), value))
        self._find = re.compile(b"|".join(map(re.escape, self._values)) or b"(?!)").search
        self._held = b""

    def feed(self, data: bytes) -> bytes:
        """Add a chunk; returns the output that is safe by now. A possible prefix is held back."""
        data = self._held + data
        output: list[bytes] = []
        at = 0
        while True:
            hold = self._hold_from(data, at)
            match = self._find(data, at)
            if match is None or match.start() >= hold:
                break
            output += data[at : match.start()], MASK
            at = match.end()
        output.append(data[at:hold])
        self._held = data[hold:]
        return b"".join(output)

    def finish(self) -> bytes:
        """End the stream; returns what was held back."""
        data, self._held = self._held, b""
        return self.mask(data)

    def mask(self, data: bytes) -> bytes:
        """Mask data that is complete."""
        output: list[bytes] = []
        at = 0
        while match := self._find(data, at):
            output += data[at : match.start()], MASK
            at = match.end()
        return b"".join((*output, data[at:]))

    def mask_text(self, text: str) -> str:
        """Mask text."""
        data = text.encode(errors="surrogatepass")
        return self.mask(data).decode(errors="surrogatepass")

    def _hold_from(self, data: bytes, start: int) -> int:
        """The start of the longest suffix of the data that is a proper prefix of a value."""
        first = len(data)
        for value in self._values:
            at = max(start, len(data) - len(value) + 1)
            while (at := data.find(value[:1], at, first)) >= 0:
                # Compare a short prefix first: it avoids copying a long value.
                if value.startswith(data[at : at + KEY_BYTES]) and value.startswith(data[at:]):
                    first = at
                    break
                at += 1
        return first
