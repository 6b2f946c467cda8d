"""What is said on the link of a reader: about the history, tables of the state, and results by id.

Such a link carries nothing else, so that no job ever waits behind what is read in bulk. Any member
serves it. The dialer asks one thing at a time; an answer may be many messages. What a member cannot
serve is answered by Error, and the link goes on.

Written as the messages of `messages`; the same law of appended fields holds.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import msgspec

from rollq.base import limits as most
from rollq.base.digests import DIGEST_BYTES
from rollq.base.ids import NIL_ID
from rollq.wire.fields import (
    Count,
    Digest,
    Features,
    GroupName,
    Id,
    Keyword,
    MessageId,
    Number,
    Payload,
    TableName,
)
from rollq.wire.rules import Free, Many, Struct, Text

# The forms in which a piece of the history may come.
LINES: Final = "lines"  # JSON lines, each with its line end
EVENTS: Final = "events"  # a msgpack array of `history.packed.PackedIndex`, without runs
RUNS: Final = "runs"  # the same, and an event may stand for the jobs of a run
ARROW: Final = "arrow"  # an Arrow IPC stream with the columns of `history.columns`
FORMS: Final = (LINES, EVENTS, RUNS, ARROW)

Forms: TypeAlias = Annotated[tuple[str, ...], Many(16, Text(most.ACTION_BYTES_MAX))]


class Cut(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A sealed range: what is read within it comes at once."""

    first: Number
    last: Number
    size_bytes: Number  # on disk
    has_columns: bool = False  # it can come as Arrow


Cuts: TypeAlias = Annotated[tuple[Cut, ...], Many(most.READER_CUTS_MAX, Struct(Cut))]


class ReaderMessage(msgspec.Struct, array_like=True, frozen=True):
    """Said on the link of a reader, by either end."""


class HelloReader(ReaderMessage, frozen=True, tag=84):
    """I read what happened in that group (empty: whichever is yours)."""

    group: GroupName = ""
    features: Features = ()


class SpanAsk(ReaderMessage, frozen=True, tag=85):
    """How far does the history go? `fresh`: answer when you have applied all that was committed
    when this was asked. With `last`, tell also how it is cut from `first` to `last`."""

    request_id: MessageId
    fresh: bool = False
    first: Number = 0
    last: Number = 0


class SpanTold(ReaderMessage, frozen=True, tag=86):
    """History up to `floor` is gone; all up to `applied` can be read."""

    request_id: MessageId
    floor: Number
    applied: Number
    leads: bool = False  # this member is the leader
    cuts: Cuts = ()


class PiecesAsk(ReaderMessage, frozen=True, tag=87):
    """Send me the history of these log indexes, in these forms. `lines` and `events` are always
    understood; `runs` and `arrow` are sent only if they are named."""

    request_id: MessageId
    first: Number
    last: Number
    forms: Forms = ()


class PieceChunk(ReaderMessage, frozen=True, gc=False, tag=88):
    """Bytes of a piece, in order. Pieces follow each other without a gap; the answer is over with
    the last byte of the one that ends at the last index that was asked for."""

    request_id: MessageId
    first: Number
    last: Number
    form: Keyword
    size_bytes: Number  # of the whole piece, as it is sent
    offset: Number  # of this chunk
    data: Payload
    packed: bool = False  # the piece is compressed by zstd


# --- tables of the state, and results by id; what is sent in bulk comes as `PieceChunk`

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


# The form of the pieces that follow `BackupTold`; first and last: where they begin and end.
SNAPSHOT: Final = "snapshot"


class BackupAsk(ReaderMessage, frozen=True, tag=99):
    """Send me all of your state, at an index that is not before anything that was committed when
    this was asked."""

    request_id: MessageId


class BackupTold(ReaderMessage, frozen=True, tag=100):
    """The state follows in pieces, as a peer would be sent it. Index 0: it is not written down yet,
    and another of these follows."""

    request_id: MessageId
    index: Number = 0
    term: Number = 0
    size_bytes: Number = 0
    sha256: Digest = bytes(DIGEST_BYTES)  # large bodies are left out of it
    large_count: Count = 0
    cluster_id: Id = NIL_ID


class ResultsAsk(ReaderMessage, frozen=True, tag=95):
    """How did these jobs end, as you know it at `index_min` or later? Nothing is said of those that
    have not ended, or are forgotten."""

    request_id: MessageId
    job_ids: AskedIds
    index_min: Number = 0
