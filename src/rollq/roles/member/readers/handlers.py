"""Who answers what a reader says: one row a message."""

from __future__ import annotations

from rollq.roles.member.readers.pieces import send_pieces
from rollq.roles.member.readers.session import Handler
from rollq.roles.member.readers.span import tell_span
from rollq.roles.member.readers.tables import send_part, send_results, tell_tables
from rollq.wire.reader_messages import PiecesAsk, SpanAsk
from rollq.wire.table_messages import PartAsk, ResultsAsk, TableAsk

HANDLERS: dict[type, Handler] = {
    SpanAsk: tell_span,
    PiecesAsk: send_pieces,
    TableAsk: tell_tables,
    PartAsk: send_part,
    ResultsAsk: send_results,
}
