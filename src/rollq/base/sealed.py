"""A body as stored on disk: its bytes, then their checksum.

Snapshots hold bodies like this and so does the scratch file of those that do not fit into memory:
a body is read back alone, maybe days later, and must not be handed to a worker if it has rotted.
An empty body has no bytes at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final
from zlib import crc32

SEAL_BYTES: Final = 4
_CHECKSUM: Final = Struct("<I")


def seal(body: bytes) -> bytes:
    """The body with its checksum."""
    return body + crc32(body).to_bytes(SEAL_BYTES, "little") if body else b""


def seal_all(bodies: Sequence[bytes]) -> bytes:
    """Several sealed bodies, concatenated."""
    pieces: list[bytes] = [b""] * (2 * len(bodies))
    pieces[::2] = bodies
    pieces[1::2] = map(_CHECKSUM.pack, map(crc32, bodies))
    if not all(bodies):
        for place, body in enumerate(bodies):
            if not body:
                pieces[2 * place + 1] = b""
    return b"".join(pieces)


def sealed_bytes(size: int) -> int:
    """The sealed size of a body of this size."""
    return size + SEAL_BYTES if size else 0


def unseal(data: bytes) -> bytes | None:
    """The body; None if it is damaged."""
    body = data[:-SEAL_BYTES]
    return body if crc32(body).to_bytes(SEAL_BYTES, "little") == data[-SEAL_BYTES:] else None
