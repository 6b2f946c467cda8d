"""What is said on the link of a reader: how far the history goes, and the history itself.

Such a link carries nothing else, so that no job ever waits behind what is read in bulk. Any member
serves it. The dialer asks one thing at a time; an answer may be many messages. What a member cannot
serve is answered by Error, and the link goes on.

Written as the messages of `messages`; the same law of appended fields holds.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import msgspec

from rollq.base.limits import ACTION_BYTES_MAX, READER_CUTS_MAX
from rollq.wire.fields import Features, GroupName, Keyword, MessageId, Number, Payload
from rollq.wire.rules import Many, Struct, Text

# The forms in which a piece of the history may come.
LINES: Final = "lines"  # JSON lines as they are sealed, each with its line end
EVENTS: Final = "events"  # a msgpack array of `PackedIndex`: not sealed yet
ARROW: Final = "arrow"  # an Arrow IPC stream with the columns of `history.columns`
FORMS: Final = (LINES, EVENTS, ARROW)

Forms: TypeAlias = Annotated[tuple[str, ...], Many(16, Text(ACTION_BYTES_MAX))]


class Cut(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A sealed range: what is read within it comes at once."""

    first: Number
    last: Number
    size_bytes: Number  # as lines
    has_columns: bool = False  # it can come as Arrow


Cuts: TypeAlias = Annotated[tuple[Cut, ...], Many(READER_CUTS_MAX, Struct(Cut))]


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
    understood; `arrow` is sent only if it is named."""

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


class PackedIndex(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The events of one log index: a msgpack array of `grid.events.Event`, or nothing."""

    index: int
    stamp_ms: int
    packed: bytes  # compressed by zstd if it has not `packed_bytes`
    packed_bytes: int
