"""Tables of the state, and results by id: what is asked and heard on a channel."""

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
    """Some rows of a table, which can be read apart from the others."""

    number: int
    row_count: int
    size_bytes: int


class TableHandle(msgspec.Struct, frozen=True):
    """A table as of one log index, written down by one member for those who read it soon. It can be
    pickled, and read by other processes."""

    table: str
    group: str
    index: int
    address: str  # of the member
    export_id: str
    parts: tuple[RemotePart, ...]


def ask_tables(
    channel: Channel, tables: Sequence[str], index_min: int, *, fresh: bool
) -> list[TableHandle]:
    """Have tables written down, all as of the same index; returns when that is done."""
    channel.say(TableAsk(channel.new_request(), tuple(tables), index_min, fresh))
    told = channel.hear(TableTold)
    while not told.export_id:
        told = channel.hear(TableTold)
    parts: dict[str, list[RemotePart]] = {table: [] for table in tables}
    for number, part in enumerate(told.parts):
        if part.table in parts:  # others were asked for by somebody else
            parts[part.table].append(RemotePart(number, part.row_count, part.size_bytes))
    place = channel.welcome.group, told.index, channel.address, told.export_id
    return [TableHandle(table, *place, tuple(parts[table])) for table in tables]


def stream_part(
    channel: Channel, handle: TableHandle, part: RemotePart, offset: int
) -> Iterator[Piece]:
    """Whole lines from an offset to the end of a part; `last` of a piece is where it ends."""
    channel.say(PartAsk(channel.new_request(), handle.export_id, part.number, offset))
    while offset < part.size_bytes:
        piece = channel.hear_piece()
        offset = piece.last
        yield piece


def ask_results(channel: Channel, job_ids: Sequence[JobId], index_min: int) -> list[ResultRow]:
    """How jobs ended; nothing of those that have not, or are forgotten."""
    rows: list[ResultRow] = []
    for first in range(0, len(job_ids), RESULTS_ASK_MAX):
        some = tuple(job_ids[first : first + RESULTS_ASK_MAX])
        channel.say(ResultsAsk(channel.new_request(), some, index_min))
        last = -1
        while last < len(some) - 1:
            piece = channel.hear_piece()
            last = piece.last
            rows += map(result_row, _decode_ended(piece.data))
    return rows


_decode_ended = msgspec.msgpack.Decoder(list[EndedJob]).decode
