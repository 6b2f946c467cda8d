"""What is done on threads for blobs: reading, packing, writing."""

from __future__ import annotations

import os

import pytest

from rollq.base.digests import Digest
from rollq.base.errors import DiskError, ErrorCode, LocalError, RemoteError
from rollq.base.limits import BLOB_CHUNK_BYTES
from rollq.roles.blobs.carrier import (
    ChunkCompressor,
    as_rollq_error,
    read_chunks,
    write_chunks,
)
from rollq.roles.blobs.files import BytesSource
from rollq.roles.blobs.orders import Read
from rollq.wire.blob_messages import BlobChunk

NAME: Digest = bytes(32)


class Sink:
    """Takes everything."""

    def __init__(self) -> None:
        self.data = b""
        self.offset = 0

    def write(self, data: bytes) -> None:
        self.data += data

    def commit(self) -> None: ...

    def close(self) -> None: ...


@pytest.mark.parametrize("packer", [None, ChunkCompressor()])
def test_what_is_read_is_what_is_written(packer: ChunkCompressor | None) -> None:
    data = os.urandom(BLOB_CHUNK_BYTES) + bytes(2 * BLOB_CHUNK_BYTES) + b"the end"
    sink = Sink()
    order = Read(1, NAME, 0, len(data))
    write_chunks(sink, tuple(read_chunks(BytesSource(data), order, packer)))
    assert sink.data == data


def test_only_what_gets_smaller_is_packed_and_trying_pauses() -> None:
    packer = ChunkCompressor()
    noise, zeros = os.urandom(BLOB_CHUNK_BYTES), bytes(BLOB_CHUNK_BYTES)
    packed = packer.pack(NAME, 0, zeros)
    assert packed.packed == BLOB_CHUNK_BYTES
    assert len(packed.data) < 1_000
    assert packer.pack(NAME, 0, noise) == BlobChunk(NAME, 0, noise)
    tried = [bool(packer.pack(NAME, 0, zeros).packed) for _ in range(2)]
    assert tried == [False, True]


def test_a_file_that_became_shorter_is_found() -> None:
    with pytest.raises(RemoteError) as caught:
        read_chunks(BytesSource(b"short"), Read(1, NAME, 0, 6), None)
    assert caught.value.code is ErrorCode.BLOB_CORRUPT


@pytest.mark.parametrize("size", [7, BLOB_CHUNK_BYTES - 1])
def test_a_packed_chunk_must_be_what_it_says(size: int) -> None:
    honest = ChunkCompressor().pack(NAME, 0, bytes(BLOB_CHUNK_BYTES))
    with pytest.raises(RemoteError) as caught:
        write_chunks(Sink(), (BlobChunk(NAME, 0, honest.data, size),))
    assert caught.value.code is ErrorCode.BAD_COMPRESSION
    with pytest.raises(RemoteError):
        write_chunks(Sink(), (BlobChunk(NAME, 0, b"garbage", 100),))


def test_errors_are_those_of_the_catalogue() -> None:
    known = RemoteError(ErrorCode.BLOB_CORRUPT, "x")
    assert as_rollq_error(known, NAME) is known
    assert isinstance(as_rollq_error(OSError(5, "bad sector"), NAME), DiskError)
    bug = as_rollq_error(ZeroDivisionError(), NAME)
    assert isinstance(bug, LocalError)
    assert bug.code is ErrorCode.BUG
