"""A body as it lies on disk: its bytes, then their checksum.

Snapshots hold bodies like this and so does the scratch file of those that do not fit into memory:
a body is read back alone, maybe days later, and must not be handed to a worker if it has rotted.
An empty body has no bytes at all.
"""

from __future__ import annotations

from typing import Final
from zlib import crc32

SEAL_BYTES: Final = 4


def seal(body: bytes) -> bytes:
    """The body with its checksum."""
    return body + crc32(body).to_bytes(SEAL_BYTES, "little") if body else b""


def sealed_bytes(size: int) -> int:
    """How many bytes a body of this size takes."""
    return size + SEAL_BYTES if size else 0


def unseal(data: bytes) -> bytes | None:
    """The body again; None if it is damaged."""
    body = data[:-SEAL_BYTES]
    return body if crc32(body).to_bytes(SEAL_BYTES, "little") == data[-SEAL_BYTES:] else None
