"""rollq's own command with a count of the blobs' bytes: `python -m bench.files.counted leader …`.

How much a process read from its store to send it, and how much came to be written into it, is
written to the file that the environment names, when the process ends.
"""

from __future__ import annotations

import atexit
import os
import threading
from pathlib import Path
from typing import Final

import msgspec

from rollq.cli.main import main
from rollq.roles.blobs import carrier
from rollq.roles.blobs.carrier import ChunkCompressor, Sink, Source
from rollq.roles.blobs.orders import Read
from rollq.wire.blob_messages import BlobChunk

COUNTS_FILE: Final = "ROLLQ_BENCH_COUNTS"

read_chunks = carrier.read_chunks
write_chunks = carrier.write_chunks


class Counts(msgspec.Struct):
    """Bytes of one process."""

    read: int = 0  # from the store or a file, to be sent
    written: int = 0  # that came, into the store or a file


counts = Counts()
lock = threading.Lock()


def counted_read(source: Source, order: Read, packer: ChunkCompressor | None) -> list[BlobChunk]:
    """Read as rollq does."""
    with lock:
        counts.read += order.length
    return read_chunks(source, order, packer)


def counted_write(sink: Sink, chunks: tuple[BlobChunk, ...]) -> None:
    """Write as rollq does."""
    with lock:
        counts.written += sum(chunk.packed or len(chunk.data) for chunk in chunks)
    write_chunks(sink, chunks)


def save_counts() -> None:
    """Leave them where they are looked for."""
    Path(os.environ[COUNTS_FILE]).write_bytes(msgspec.json.encode(counts))


if __name__ == "__main__":
    carrier.read_chunks = counted_read
    carrier.write_chunks = counted_write
    atexit.register(save_counts)
    main()
