"""Answers to requests for tables of the state, and for results by id."""

from __future__ import annotations

import os
from concurrent.futures import Future
from functools import partial

import msgspec

from rollq.base.errors import ErrorCode, RemoteError
from rollq.base.ids import JobId
from rollq.base.limits import (
    EXPORT_ALIVE_MS,
    READER_PIECE_BYTES,
    RESULTS_ASK_MAX,
    RESULTS_SLICE,
)
from rollq.history.tables import EndedJob
from rollq.roles.member.driver import Driver
from rollq.roles.member.readers.pieces import send_packed
from rollq.roles.member.readers.session import ReaderSession
from rollq.roles.member.tables.exports import Export
from rollq.roles.member.tables.rows import ended_job
from rollq.store.descriptors import read_all
from rollq.wire.reader_messages import (
    ENDED,
    ROWS,
    PartAsk,
    ResultsAsk,
    TableAsk,
    TableTold,
)


def send_tables(session: ReaderSession, ask: TableAsk) -> None:
    """Answer `TableAsk`: keep-alives while it is under way, then the export.

    Raises:
        RollqError: the export is refused or fails.
    """
    member = session.member
    if ask.fresh:
        member.fresh_index()
    member.wait_applied(ask.index_min)
    asked: Future[Export] = member.on_loop(lambda _: member.exports.ask(ask.tables))
    while True:
        try:
            export = asked.result(EXPORT_ALIVE_MS / 1000)
        except TimeoutError:
            session.send(TableTold(ask.request_id))
        else:
            break
    session.send(TableTold(ask.request_id, export.export_id, export.index, export.parts))


def send_part(session: ReaderSession, ask: PartAsk) -> None:
    """Answer `PartAsk` with whole lines, from the offset to the end of the part.

    Raises:
        StateError: EXPORT_GONE.
    """
    exports = session.member.exports
    export = exports.find(ask.export_id)
    is_there = 0 <= ask.number < len(export.parts)
    size_bytes = export.parts[ask.number].size_bytes if is_there else 0
    if not 0 <= ask.offset < size_bytes:
        raise RemoteError(ErrorCode.BAD_PAYLOAD, f"no part {ask.number} from {ask.offset} on")
    fd = exports.open_part(export, ask.number)
    try:
        at = ask.offset
        while at < size_bytes:
            lines = _whole_lines(fd, at, size_bytes)
            send_packed(session, ask.request_id, (at, at + len(lines)), ROWS, lines)
            at += len(lines)
            exports.find(ask.export_id)
    finally:
        os.close(fd)


def _whole_lines(fd: int, at: int, end: int) -> bytes:
    """As many whole lines as fit a piece; one at least."""
    length = READER_PIECE_BYTES
    while True:
        data = read_all(fd, at, min(length, end - at))
        cut = data.rfind(b"\n") + 1
        if cut or at + len(data) >= end:
            return data[:cut] if cut else data
        length *= 2


def send_results(session: ReaderSession, ask: ResultsAsk) -> None:
    """Answer `ResultsAsk` in slices, so that the loop never stops for long."""
    if not 0 < len(ask.job_ids) <= RESULTS_ASK_MAX:
        raise RemoteError(ErrorCode.BAD_PAYLOAD, f"name 1 to {RESULTS_ASK_MAX} jobs")
    session.member.wait_applied(ask.index_min)
    for first in range(0, len(ask.job_ids), RESULTS_SLICE):
        some = ask.job_ids[first : first + RESULTS_SLICE]
        ended = session.member.on_loop(partial(_ended_jobs, some))
        last = first + len(some) - 1
        send_packed(session, ask.request_id, (first, last), ENDED, _encode(ended))


def _ended_jobs(job_ids: tuple[JobId, ...], driver: Driver) -> list[EndedJob]:
    jobs = driver.state.jobs
    found = [jobs[job_id] for job_id in job_ids if job_id in jobs]
    return [ended for record in found if (ended := ended_job(record)) is not None]


_encode = msgspec.msgpack.Encoder().encode
