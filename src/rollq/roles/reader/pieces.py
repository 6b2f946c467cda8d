"""Pieces as they come on a channel: in chunks, some of them compressed."""

from __future__ import annotations

from rollq.roles.reader.channel import Channel
from rollq.roles.reader.models import Piece
from rollq.wire.compression import ZSTD, inflate
from rollq.wire.reader_messages import PieceChunk


def hear_piece(channel: Channel) -> Piece:
    """The next piece, whole. Raises as `Channel.hear`."""
    chunk = channel.hear(PieceChunk)
    chunks = [chunk.data]
    size = len(chunk.data)
    while size < chunk.size_bytes:
        chunks.append(channel.hear(PieceChunk).data)
        size += len(chunks[-1])
    data = chunks[0] if len(chunks) == 1 else b"".join(chunks)
    if chunk.packed:
        data = inflate(data, ZSTD)
    return Piece(chunk.first, chunk.last, chunk.form, data)
