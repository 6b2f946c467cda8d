"""Requests for tables of the state, and for results by id."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from rollq.base.ids import JobId
from rollq.base.limits import RESULTS_ASK_MAX
from rollq.history.tables import EndedJob, ResultRow, result_row
from rollq.roles.reader.channel import Channel
from rollq.roles.reader.models import Piece
from rollq.wire.reader_messages import PartAsk, ResultsAsk, TableAsk, TableTold


class RemotePart(msgspec.Struct, frozen=True):
    """A part of a table that can be read independently."""

    number: int
    row_count: int
    size_bytes: int


class TableHandle(msgspec.Struct, frozen=True):
    """An export of a table as of one log index, kept by one member for a while. It can be pickled,
    and read by other processes."""

    table: str
    group: str
    index: int
    address: str  # of the member
    export_id: str
    parts: tuple[RemotePart, ...]


def ask_tables(
    channel: Channel, tables: Sequence[str], index_min: int, *, fresh: bool
) -> list[TableHandle]:
    """Export tables, all as of the same index; returns when the member has finished."""
    channel.send(TableAsk(channel.new_request(), tuple(tables), index_min, fresh))
    reply = channel.receive(TableTold)
    while not reply.export_id:
        reply = channel.receive(TableTold)
    parts: dict[str, list[RemotePart]] = {table: [] for table in tables}
    for number, part in enumerate(reply.parts):
        if part.table in parts:  # the export may hold other tables, requested before
            parts[part.table].append(RemotePart(number, part.row_count, part.size_bytes))
    place = channel.welcome.group, reply.index, channel.address, reply.export_id
    return [TableHandle(table, *place, tuple(parts[table])) for table in tables]


def stream_part(
    channel: Channel, handle: TableHandle, part: RemotePart, offset: int
) -> Iterator[Piece]:
    """Blocks of whole lines from an offset to the end; `last` of a piece is the next offset."""
    channel.send(PartAsk(channel.new_request(), handle.export_id, part.number, offset))
    while offset < part.size_bytes:
        piece = channel.receive_piece()
        offset = piece.last
        yield piece


def ask_results(channel: Channel, job_ids: Sequence[JobId], index_min: int) -> list[ResultRow]:
    """The results of jobs that have ended and are not forgotten."""
    rows: list[ResultRow] = []
    for first in range(0, len(job_ids), RESULTS_ASK_MAX):
        some = tuple(job_ids[first : first + RESULTS_ASK_MAX])
        channel.send(ResultsAsk(channel.new_request(), some, index_min))
        last = -1
        while last < len(some) - 1:
            piece = channel.receive_piece()
            last = piece.last
            rows += map(result_row, _decode_ended(piece.data))
    return rows


_decode_ended = msgspec.msgpack.Decoder(list[EndedJob]).decode
