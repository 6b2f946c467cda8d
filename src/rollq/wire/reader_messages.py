"""What is said on the link of a reader: how far the history goes, and the history itself.

Such a link carries nothing else, so that no job ever waits behind what is read in bulk. Any member
serves it. The dialer asks one thing at a time; an answer may be many messages. What a member cannot
serve is answered by Error, and the link goes on.

Written as the messages of `messages`; the same law of appended fields holds.
"""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec

from rollq.wire.messages import MessageId

# The forms in which a piece of the history may come.
LINES: Final = "lines"  # JSON lines as they are sealed, each with its line end
EVENTS: Final = "events"  # a msgpack array of `PackedIndex`: not sealed yet
ARROW: Final = "arrow"  # an Arrow IPC stream with the columns of `history.columns`
FORMS: Final = (LINES, EVENTS, ARROW)


class HelloReader(msgspec.Struct, array_like=True, frozen=True, tag=84):
    """I read what happened in that group (empty: whichever is yours)."""

    group: str = ""
    features: tuple[str, ...] = ()


class SpanAsk(msgspec.Struct, array_like=True, frozen=True, tag=85):
    """How far does the history go? `fresh`: answer when you have applied all that was committed
    when this was asked. With `last`, tell also how it is cut from `first` to `last`."""

    request_id: MessageId
    fresh: bool = False
    first: int = 0
    last: int = 0


class Cut(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A sealed range: what is read within it comes at once."""

    first: int
    last: int
    size_bytes: int  # as lines
    has_columns: bool = False  # it can come as Arrow


class SpanTold(msgspec.Struct, array_like=True, frozen=True, tag=86):
    """History up to `floor` is gone; all up to `applied` can be read."""

    request_id: MessageId
    floor: int
    applied: int
    leads: bool = False  # this member is the leader
    cuts: tuple[Cut, ...] = ()


class PiecesAsk(msgspec.Struct, array_like=True, frozen=True, tag=87):
    """Send me the history of these log indexes, in these forms. `lines` and `events` are always
    understood; `arrow` is sent only if it is named."""

    request_id: MessageId
    first: int
    last: int
    forms: tuple[str, ...] = ()


class PieceChunk(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=88):
    """Bytes of a piece, in order. Pieces follow each other without a gap; the answer is over with
    the last byte of the one that ends at the last index that was asked for."""

    request_id: MessageId
    first: int
    last: int
    form: str
    size_bytes: int  # of the whole piece, as it is sent
    offset: int  # of this chunk
    data: bytes
    packed: bool = False  # the piece is compressed by zstd


class PackedIndex(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The events of one log index: a msgpack array of `grid.events.Event`, or nothing."""

    index: int
    stamp_ms: int
    packed: bytes  # compressed by zstd if it has not `packed_bytes`
    packed_bytes: int


ReaderMessage: TypeAlias = HelloReader | SpanAsk | SpanTold | PiecesAsk | PieceChunk
