"""The stream of results: one row for each end of a job, in log order.

The events say which jobs ended; their results are read from the state of a member. If a job was
forgotten meanwhile, or runs again, the row has only the fields of the event, and no output.
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
from rollq.spark.source.members import GroupMembers
from rollq.spark.source.options import SourceOrigin
from rollq.spark.source.places import Slice
from rollq.spark.state_rows import from_state_rows

STATES: Final = {"ack": "done", "dlq": "dead", "expire": "dead", "cancel": "cancelled"}


class GroupResults(GroupMembers):
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
        """Read piece by piece."""
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
    """The row of an end: from the state if it still has this very attempt, else from the event."""
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
