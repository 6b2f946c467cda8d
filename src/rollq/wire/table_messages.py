"""What is said on the link of a reader about tables of the state, and about results by id.

Written as the messages of `reader_messages`; what is sent in bulk comes as its `PieceChunk`.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import msgspec

from rollq.base import limits as most
from rollq.wire.fields import Count, Id, Keyword, MessageId, Number, TableName
from rollq.wire.reader_messages import ReaderMessage
from rollq.wire.rules import Free, Many, Struct, Text

# The forms of pieces that answer `PartAsk` and `ResultsAsk`.
ROWS: Final = "rows"  # whole JSON lines of a part; first and last: where they begin and end
ENDED: Final = "ended"  # a msgpack array of `history.tables.EndedJob`; first and last: which ids

TableNames: TypeAlias = Annotated[tuple[str, ...], Many(64, Text(most.TABLE_NAME_BYTES_MAX))]
AskedIds: TypeAlias = Annotated[tuple[Id, ...], Many(most.RESULTS_ASK_MAX, Free())]


class TablePart(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Some rows of a table. The number of a part is its place in `TableTold.parts`."""

    table: TableName
    row_count: Number
    size_bytes: Number


TableParts: TypeAlias = Annotated[
    tuple[TablePart, ...], Many(most.FRAME_BYTES_MAX // 8, Struct(TablePart))
]


class TableAsk(ReaderMessage, frozen=True, tag=92):
    """Write these tables down as they are at one log index, which is not before `index_min`, and
    (`fresh`) not before anything that was committed when this was asked."""

    request_id: MessageId
    tables: TableNames
    index_min: Number = 0
    fresh: bool = False


class TableTold(ReaderMessage, frozen=True, tag=93):
    """The tables can be read under this name, at this member, until nobody has for a while. Without
    a name: it is not ready yet, and another of these follows."""

    request_id: MessageId
    export_id: Keyword = ""
    index: Number = 0
    parts: TableParts = ()


class PartAsk(ReaderMessage, frozen=True, tag=94):
    """Send me a part from an offset on."""

    request_id: MessageId
    export_id: Keyword
    number: Count
    offset: Number = 0


class ResultsAsk(ReaderMessage, frozen=True, tag=95):
    """How did these jobs end, as you know it at `index_min` or later? Nothing is said of those that
    have not ended, or are forgotten."""

    request_id: MessageId
    job_ids: AskedIds
    index_min: Number = 0
