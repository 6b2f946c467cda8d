"""The handler of each message of a reader, and the answers to `SpanAsk` and `Query`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import islice
from typing import Any, Final

from rollq.base.limits import READER_CUTS_MAX
from rollq.grid.pages import JobPage
from rollq.history.arrow_cache import copies_there
from rollq.roles.member.driver import Driver
from rollq.roles.member.queries import as_answer, decode_key, must_find, read, rest_of
from rollq.roles.member.readers.backups import send_backup
from rollq.roles.member.readers.pieces import send_pieces
from rollq.roles.member.readers.reader_context import ReaderContext
from rollq.roles.member.readers.session import Handler, ReaderSession
from rollq.roles.member.readers.tables import send_part, send_results, send_tables
from rollq.roles.member.readers.timeline import read_timeline
from rollq.wire.messages import Query
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

STEPS_MAX: Final = 100  # for one page; then it is sent as it is, with its position


def send_span(session: ReaderSession, ask: SpanAsk) -> None:
    """Answer `SpanAsk`."""
    member = session.member
    if ask.fresh:
        member.fresh_index()
    applied = member.applied_index
    cuts = _cuts(member, ask.first, ask.last) if ask.last else ()
    session.send(
        SpanTold(
            ask.request_id,
            floor=member.segments.floor(),
            applied=applied,
            leads=member.leads,
            cuts=cuts,
        )
    )


def send_view(session: ReaderSession, query: Query) -> None:
    """Answer `Query` from the applied state of this member, leader or not. A page of jobs is read
    in steps, so that the loop never stops for long.

    Raises:
        RollqError: the query is refused.
    """
    member = session.member
    view = must_find(query)
    if view.of_files:
        applied = member.applied_index
        answer = FROM_FILES[query.what](member, decode_key(view, query))
        session.send(as_answer(query, applied, answer))
        return
    index, found = member.on_loop(partial(_read, query))
    for _ in range(STEPS_MAX):
        rest = rest_of(query, found)
        if rest is None or not isinstance(found, JobPage):
            break
        _, page = member.on_loop(partial(_read, rest))
        assert isinstance(page, JobPage), "the same view"
        found = JobPage(found.jobs + page.jobs, page.after)
    session.send(as_answer(query, index, found))


def _read(query: Query, driver: Driver) -> tuple[int, object]:
    sources = driver.leader_state.reads.sources(query, leads=driver.leading)
    return sources.state.applied_index, read(sources, query)


def _cuts(member: ReaderContext, first: int, last: int) -> tuple[Cut, ...]:
    sizes = member.segments.sizes()
    there = copies_there(member.disk)
    found = (
        Cut(*each, has_columns=(each[0], each[1]) in there)
        for each in sizes
        if each[1] >= first and each[0] <= last
    )
    return tuple(islice(found, READER_CUTS_MAX))


# Views that are read from files on the thread, and not on the loop.
FROM_FILES: Final[dict[str, Callable[[ReaderContext, Any], object]]] = {"timeline": read_timeline}

HANDLERS: dict[type, Handler] = {
    SpanAsk: send_span,
    BackupAsk: send_backup,
    PiecesAsk: send_pieces,
    TableAsk: send_tables,
    PartAsk: send_part,
    ResultsAsk: send_results,
    Query: send_view,
}
