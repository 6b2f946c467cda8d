"""What is said on the link of a reader about tables of the state, and about results by id.

Written as the messages of `reader_messages`; what is sent in bulk comes as its `PieceChunk`.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec

from rollq.wire.messages import JobId, MessageId

# The forms of pieces that answer `PartAsk` and `ResultsAsk`.
ROWS: Final = "rows"  # whole JSON lines of a part; first and last: where they begin and end
ENDED: Final = "ended"  # a msgpack array of `history.tables.EndedJob`; first and last: which ids


class TableAsk(msgspec.Struct, array_like=True, frozen=True, tag=92):
    """Write these tables down as they are at one log index, which is not before `index_min`, and
    (`fresh`) not before anything that was committed when this was asked."""

    request_id: MessageId
    tables: tuple[str, ...]
    index_min: int = 0
    fresh: bool = False


class TablePart(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Some rows of a table. The number of a part is its place in `TableTold.parts`."""

    table: str
    row_count: int
    size_bytes: int


class TableTold(msgspec.Struct, array_like=True, frozen=True, tag=93):
    """The tables can be read under this name, at this member, until nobody has for a while. Without
    a name: it is not ready yet, and another of these follows."""

    request_id: MessageId
    export_id: str = ""
    index: int = 0
    parts: tuple[TablePart, ...] = ()


class PartAsk(msgspec.Struct, array_like=True, frozen=True, tag=94):
    """Send me a part from an offset on."""

    request_id: MessageId
    export_id: str
    number: int
    offset: int = 0


class ResultsAsk(msgspec.Struct, array_like=True, frozen=True, tag=95):
    """How did these jobs end, as you know it at `index_min` or later? Nothing is said of those that
    have not ended, or are forgotten."""

    request_id: MessageId
    job_ids: tuple[JobId, ...]
    index_min: int = 0


TableMessage: TypeAlias = TableAsk | TableTold | PartAsk | ResultsAsk
