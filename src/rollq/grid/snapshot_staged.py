"""Staged batches, and committed ones that are not unpacked, in snapshots."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterator
from itertools import chain

from rollq.base.ids import GUID_BYTES, ClientId
from rollq.base.sealed import sealed_bytes
from rollq.base.staged import ids_of
from rollq.grid.bodies import Adopt, Token
from rollq.grid.chunks import hold_chunk
from rollq.grid.key_index import KeyIndex
from rollq.grid.snapshot_rows import ChunkRow, CommittedRow, Head, StagedRow
from rollq.grid.state import CommittedBatch, GridState, StagedBatch, StagedChunk


def staged_rows(state: GridState) -> list[StagedRow]:
    """The batches that are not committed."""
    return [
        StagedRow(
            batch.client_id,
            batch.batch_key,
            batch.stamp_ms,
            [
                (part, [(number, _row(state, chunk)) for number, chunk in _in_order(chunks)])
                for part, chunks in sorted(batch.parts.items())
            ],
        )
        for batch in state.staged.values()
    ]


def committed_rows(state: GridState) -> list[CommittedRow]:
    """The batches that are committed and not unpacked."""
    return [
        CommittedRow(
            batch.client.client_id,
            batch.batch_key,
            chunks=[_row(state, chunk) for chunk in batch.chunks],
            known=b"".join(sorted(batch.known)),
            position=batch.position,
            stamp_ms=batch.stamp_ms,
        )
        for batch in state.committed.values()
    ]


def _row(state: GridState, chunk: StagedChunk) -> ChunkRow:
    sizes = list(map(state.bodies.size, chunk.pieces))
    files = (chunk.blobs, chunk.caches)
    return ChunkRow(chunk.job_ids, chunk.crc, sizes, *files, chunk.redrives, chunk.parents)


def pieces_of(state: GridState) -> list[Token]:
    """The pieces after the head, in the order of the rows."""
    return list(chain.from_iterable(chunk.pieces for chunk in staged_chunks(state)))


def staged_chunks(state: GridState) -> Iterator[StagedChunk]:
    """Every chunk, in the order of the rows."""
    return (chunk for _, chunk in chunks_by_client(state))


def chunks_by_client(state: GridState) -> Iterator[tuple[ClientId, StagedChunk]]:
    """As `staged_chunks`, each with its client."""
    for batch in state.staged.values():
        for _, chunks in sorted(batch.parts.items()):
            yield from ((batch.client_id, chunk) for _, chunk in _in_order(chunks))
    for committed in state.committed.values():
        yield from ((committed.client.client_id, chunk) for chunk in committed.chunks)


def _in_order(chunks: dict[int, StagedChunk]) -> list[tuple[int, StagedChunk]]:
    return sorted(chunks.items(), key=_number)


def _number(item: tuple[int, StagedChunk]) -> int:
    return item[0]


def put_back(state: GridState, head: Head, adopt: Adopt, offset: int) -> int:
    """Restore all of it into a state that has its tables and jobs; returns the offset after the
    last piece.

    Raises:
        KeyError: if a client is unknown.
        ValueError: if a column contradicts another.
    """
    sizes = [row.sizes for row in _chunk_rows(head)]
    tokens = iter(adopt(offset, list(chain.from_iterable(sizes))))
    state.staged = OrderedDict()
    for staged in head.staged:
        parts = {
            part: {number: _chunk(state, row, tokens, staged.client_id) for number, row in chunks}
            for part, chunks in staged.parts
        }
        name = (staged.client_id, staged.batch_key)
        count = sum(chunk.count for chunks in parts.values() for chunk in chunks.values())
        state.staged[name] = StagedBatch(*name, staged.stamp_ms, parts, count)
    for row in head.committed:
        client = state.clients[row.client_id]
        client.record_count += 1
        chunks = deque(_chunk(state, chunk, tokens, row.client_id) for chunk in row.chunks)
        known = dict.fromkeys(ids_of(row.known))
        steps = (row.stamp_ms, row.position)
        left = sum(chunk.count for chunk in chunks)
        batch = CommittedBatch(client, row.batch_key, chunks, known, *steps, left)
        state.committed[row.client_id, row.batch_key] = batch
        for chunk in chunks:
            state.reserved.update(
                dict.fromkeys(one for one in ids_of(chunk.job_ids) if one not in known)
            )
    state.batch_names = KeyIndex({**state.staged, **state.committed, **state.batches})
    return offset + sum(map(sealed_bytes, chain.from_iterable(sizes)))


def _chunk_rows(head: Head) -> Iterator[ChunkRow]:
    for staged in head.staged:
        for _, chunks in staged.parts:
            yield from (row for _, row in chunks)
    for committed in head.committed:
        yield from committed.chunks


def _chunk(
    state: GridState, row: ChunkRow, tokens: Iterator[Token], client_id: ClientId
) -> StagedChunk:
    if len(row.job_ids) % GUID_BYTES:
        raise ValueError("a column that is not one of ids")
    pieces = tuple(next(tokens) for _ in row.sizes)
    files = (row.blobs, row.caches)
    chunk = StagedChunk(row.job_ids, row.crc, pieces, *files, row.redrives, row.parents)
    hold_chunk(state, chunk, client_id)
    return chunk
