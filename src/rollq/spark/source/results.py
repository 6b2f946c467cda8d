"""The stream of results: one row for each end of a job, in the order of the log.

The history says which jobs ended; what they said is asked of the state of a member. Of a job that
was forgotten meanwhile, or runs again, only what its event says is there: no output.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from rollq.base.ids import guid_from_text
from rollq.base.outcomes import exit_code_of, state_word
from rollq.history.columns import Column
from rollq.history.schema import HistoryRow
from rollq.history.tables import ResultRow, int32, int64
from rollq.roles.reader.models import EVENTS, LINES
from rollq.roles.reader.reader import Reader
from rollq.spark.source.members import Group
from rollq.spark.source.options import SourceOrigin
from rollq.spark.source.places import Slice
from rollq.spark.state_rows import from_state_rows

STATES: Final = {"ack": "done", "dlq": "dead", "expire": "dead", "cancel": "cancelled"}


class GroupResults(Group):
    """The members of one group, read for results."""

    def __init__(self, origin: SourceOrigin, timeout_s: float) -> None:
        super().__init__(origin, timeout_s)
        self._asking = Reader(
            origin.servers,
            group=origin.group,
            timeout_s=timeout_s,
            credentials=origin.credentials,
        )

    def tables(self, wanted: Slice, columns: Sequence[Column]) -> Iterator[Any]:
        """Piece after piece, as they come."""
        with self._reader as reader, self._asking as asking:
            for piece in reader.pieces(wanted.first, wanted.last, forms=(LINES, EVENTS)):
                ends = [
                    event
                    for event in _decode_lines(piece.lines())
                    if event.type in STATES and event.jobId
                ]
                ids = list(dict.fromkeys(guid_from_text(event.jobId) for event in ends))
                known = {row.job_id: row for row in asking.results(ids, index_min=wanted.last)}
                rows = [result_of(event, known.get(event.jobId)) for event in ends]
                places = [event.index for event in ends]
                yield from_state_rows(rows, columns, wanted.group, places)


def result_of(event: HistoryRow, known: ResultRow | None) -> ResultRow:
    """The row of an end: what the state knows of it, if it is of this very end."""
    inner = STATES[event.type]
    state = state_word(inner, event.status)
    if known is not None and (known.state, known.attempt) == (state, event.attempt):
        return known
    code = exit_code_of(inner, event.exitCode, event.signal, event.runMs)
    return ResultRow(
        event.jobId,
        event.jobKey or None,
        event.clientId,
        event.queue,
        event.execName,
        event.arrayId or None,
        state,
        event.ts,
        event.attempt,
        event.workerId or None,
        event.status if event.type == "ack" else 2 if state == "cancelled" else 1,
        None if code is None else int32(code),
        int32(event.signal),
        int64(event.runMs),
        int64(event.peakBytes),
        event.cause,
        event.detail or None,
    )


_decode_lines = msgspec.json.Decoder(HistoryRow).decode_lines
