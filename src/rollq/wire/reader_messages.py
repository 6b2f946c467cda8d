"""Messages on the link of a reader: history, tables of the state, and results by id.

Such a link carries nothing else, so that no job waits behind bulk reads. Any member serves it. The
dialer has one request at a time; a response may be many messages. A request that a member cannot
serve is answered by Error, and the link stays open.

Compact dialect only; the rules for appended fields of `messages` apply.
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
RUNS: Final = "runs"  # as `events`, but an event may be a run of jobs
ARROW: Final = "arrow"  # an Arrow IPC stream with the columns of `history.columns`
FORMS: Final = (LINES, EVENTS, RUNS, ARROW)

Forms: TypeAlias = Annotated[tuple[str, ...], Many(16, Text(most.ACTION_BYTES_MAX))]


class Cut(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A sealed range: reads within it are served at once."""

    first: Number
    last: Number
    size_bytes: Number  # on disk
    has_columns: bool = False  # it is available as Arrow


Cuts: TypeAlias = Annotated[tuple[Cut, ...], Many(most.READER_CUTS_MAX, Struct(Cut))]


class ReaderMessage(msgspec.Struct, array_like=True, frozen=True):
    """Sent on the link of a reader, by either end."""


class HelloReader(ReaderMessage, frozen=True, tag=84):
    """Opens the link of a reader of a group (empty: whichever the member is in)."""

    group: GroupName = ""
    features: Features = ()


class SpanAsk(ReaderMessage, frozen=True, tag=85):
    """Request the available range of the history. `fresh`: answer after applying everything
    committed at the time of the request. With `last`, also return the cuts from `first` to
    `last`."""

    request_id: MessageId
    fresh: bool = False
    first: Number = 0
    last: Number = 0


class SpanTold(ReaderMessage, frozen=True, tag=86):
    """History up to `floor` is deleted; everything up to `applied` can be read."""

    request_id: MessageId
    floor: Number
    applied: Number
    leads: bool = False  # this member is the leader
    cuts: Cuts = ()


class PiecesAsk(ReaderMessage, frozen=True, tag=87):
    """Request the history of these log indexes, in these forms. `lines` and `events` are always
    accepted; `runs` and `arrow` are sent only if they are listed."""

    request_id: MessageId
    first: Number
    last: Number
    forms: Forms = ()


class PieceChunk(ReaderMessage, frozen=True, gc=False, tag=88):
    """Bytes of a piece, in order. Pieces are contiguous; the response ends with the last byte of
    the piece that ends at the last requested index."""

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
    """Some rows of a table. The number of a part is its position in `TableTold.parts`."""

    table: TableName
    row_count: Number
    size_bytes: Number


TableParts: TypeAlias = Annotated[
    tuple[TablePart, ...], Many(most.FRAME_BYTES_MAX // 8, Struct(TablePart))
]


class TableAsk(ReaderMessage, frozen=True, tag=92):
    """Export these tables at one log index, which is at least `index_min`, and (`fresh`) includes
    everything committed at the time of the request."""

    request_id: MessageId
    tables: TableNames
    index_min: Number = 0
    fresh: bool = False


class TableTold(ReaderMessage, frozen=True, tag=93):
    """The tables can be read under this name, at this member, until they are unused for a while.
    Without a name: not ready yet, and another of these follows."""

    request_id: MessageId
    export_id: Keyword = ""
    index: Number = 0
    parts: TableParts = ()


class PartAsk(ReaderMessage, frozen=True, tag=94):
    """Request a part from an offset on."""

    request_id: MessageId
    export_id: Keyword
    number: Count
    offset: Number = 0


# The form of the pieces that follow `BackupTold`; first and last: where they begin and end.
SNAPSHOT: Final = "snapshot"


class BackupAsk(ReaderMessage, frozen=True, tag=99):
    """Request the complete state, at an index that includes everything committed at the time of the
    request."""

    request_id: MessageId


class BackupTold(ReaderMessage, frozen=True, tag=100):
    """The state follows in pieces, in the form of a peer's snapshot. Index 0: it is not written
    yet, and another of these follows."""

    request_id: MessageId
    index: Number = 0
    term: Number = 0
    size_bytes: Number = 0
    sha256: Digest = bytes(DIGEST_BYTES)  # it does not cover large bodies
    large_count: Count = 0
    cluster_id: Id = NIL_ID


class ResultsAsk(ReaderMessage, frozen=True, tag=95):
    """Request the ends of these jobs, as of `index_min` or later. Jobs that have not ended, or are
    forgotten, are omitted."""

    request_id: MessageId
    job_ids: AskedIds
    index_min: Number = 0
