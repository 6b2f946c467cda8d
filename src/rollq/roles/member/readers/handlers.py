"""Which handler answers which message of a reader, and the answers to `SpanAsk` and `Query`."""

from __future__ import annotations

from functools import partial
from itertools import islice

from rollq.base.limits import READER_CUTS_MAX
from rollq.history.arrow_cache import copies_there
from rollq.roles.member.driver import Driver
from rollq.roles.member.readers.backups import send_backup
from rollq.roles.member.readers.member_view import MemberView
from rollq.roles.member.readers.pieces import send_pieces
from rollq.roles.member.readers.session import Handler, ReaderSession
from rollq.roles.member.readers.tables import send_part, send_results, tell_tables
from rollq.wire.messages import Answer, Error, Query
from rollq.wire.reader_messages import (
    BackupAsk,
    Cut,
    PartAsk,
    PiecesAsk,
    ResultsAsk,
    SpanAsk,
    SpanTold,
    TableAsk,
)


def tell_span(session: ReaderSession, ask: SpanAsk) -> None:
    """Answer `SpanAsk`."""
    member = session.member
    if ask.fresh:
        member.fresh_index()
    applied = member.applied_index
    cuts = _cuts(member, ask.first, ask.last) if ask.last else ()
    session.say(SpanTold(ask.request_id, member.segments.floor(), applied, member.leads, cuts))


def tell_view(session: ReaderSession, query: Query) -> None:
    """Answer `Query` from what this member has applied, whoever leads.

    Raises:
        RollqError: why not.
    """
    session.say(session.member.on_loop(partial(_read, query)))


def _read(query: Query, driver: Driver) -> Answer | Error:
    return driver.leader_state.reads.answer_now(query, leads=driver.leading)


def _cuts(member: MemberView, first: int, last: int) -> tuple[Cut, ...]:
    sizes = member.segments.sizes()
    there = copies_there(member.disk)
    found = (
        Cut(*each, has_columns=(each[0], each[1]) in there)
        for each in sizes
        if each[1] >= first and each[0] <= last
    )
    return tuple(islice(found, READER_CUTS_MAX))


HANDLERS: dict[type, Handler] = {
    SpanAsk: tell_span,
    BackupAsk: send_backup,
    PiecesAsk: send_pieces,
    TableAsk: tell_tables,
    PartAsk: send_part,
    ResultsAsk: send_results,
    Query: tell_view,
}
