"""Who answers what a reader says: one row a message."""

from __future__ import annotations

from rollq.roles.member.readers.pieces import send_pieces
from rollq.roles.member.readers.session import Handler
from rollq.roles.member.readers.span import tell_span
from rollq.wire.reader_messages import PiecesAsk, SpanAsk

HANDLERS: dict[type, Handler] = {
    SpanAsk: tell_span,
    PiecesAsk: send_pieces,
}
