"""Tells how far the history goes, and how it is cut."""

from __future__ import annotations

from itertools import islice

from rollq.base.limits import READER_CUTS_MAX
from rollq.history.twins import twins_there
from rollq.roles.member.readers.desk import Desk
from rollq.roles.member.readers.session import ReaderSession
from rollq.wire.reader_messages import Cut, SpanAsk, SpanTold


def tell_span(session: ReaderSession, ask: SpanAsk) -> None:
    """Answer `SpanAsk`."""
    desk = session.desk
    if ask.fresh:
        desk.fresh_index()
    applied = desk.applied_index
    cuts = _cuts(desk, ask.first, ask.last) if ask.last else ()
    session.say(SpanTold(ask.request_id, desk.segments.floor(), applied, desk.leads, cuts))


def _cuts(desk: Desk, first: int, last: int) -> tuple[Cut, ...]:
    sizes = desk.segments.sizes()
    there = twins_there(desk.disk)
    found = (
        Cut(*each, has_columns=(each[0], each[1]) in there)
        for each in sizes
        if each[1] >= first and each[0] <= last
    )
    return tuple(islice(found, READER_CUTS_MAX))
