"""Complete reads and writes on a descriptor, despite partial results of the system. Raise
OSError."""

from __future__ import annotations

import os


def read_all(fd: int, offset: int, length: int) -> bytes:
    """Up to `length` bytes from `offset` on; fewer only at the end of the file."""
    piece = os.pread(fd, length, offset)
    if len(piece) == length or not piece:
        return piece
    pieces = [piece]
    while piece and (length := length - len(piece)):
        offset += len(piece)
        piece = os.pread(fd, length, offset)
        pieces.append(piece)
    return b"".join(pieces)


def write_all(fd: int, content: bytes) -> None:
    """Write all of it at the descriptor's offset."""
    view = memoryview(content)
    while view:
        view = view[os.write(fd, view) :]
