"""Live history rows: filters them, and reads them from any member, each once, also while members
stop and start."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from rollq.base.errors import ErrorCode, LocalError, RollqError
from rollq.base.outcomes import (
    BLOCKED,
    CANCELLED,
    DEAD,
    DELAYED,
    FAILED,
    OK,
    RUNNING,
    STATES,
    WAITING,
)
from rollq.cli.ids import digits_of
from rollq.cli.output import remark
from rollq.grid import events
from rollq.grid.events import EVENT_TYPES
from rollq.history.schema import HistoryRow
from rollq.roles.reader.models import EVENTS, LINES, RUNS, Span
from rollq.roles.reader.reader import Reader

POLL_S: Final = 0.25
BACK_FACTOR: Final = 8

# The state of a job after an event; other events do not change it.
STATE_AFTER: Final = {
    events.JOB_ENQUEUED: WAITING,
    events.JOB_DELAYED: DELAYED,
    events.JOB_RELEASED: WAITING,
    events.JOB_BLOCKED: BLOCKED,
    events.JOB_UNBLOCKED: WAITING,
    events.JOB_ASSIGNED: RUNNING,
    events.ATTEMPT_ADOPTED: RUNNING,
    events.JOB_TIMED_OUT: WAITING,
    events.JOB_WORKER_LOST: WAITING,
    events.JOB_NACKED: WAITING,
    events.JOB_RETRIED: WAITING,
    events.JOB_DEAD: DEAD,
    events.JOB_EXPIRED: DEAD,
    events.JOB_CANCELLED: CANCELLED,
    events.JOB_REDRIVEN: WAITING,
    events.ARRAY_ENQUEUED: WAITING,
}


def state_after(row: HistoryRow) -> str:
    """The state of a job after a row, as a word; empty if the row does not change it."""
    if row.type == events.JOB_ACKED:
        return FAILED if row.status else OK
    word = STATE_AFTER.get(row.type, "")
    return DELAYED if word == WAITING and row.delayMs else word


class Wanted(msgspec.Struct, frozen=True, kw_only=True):
    """A filter of rows; empty fields match all."""

    kind: str = ""
    job: str = ""
    queue: str = ""
    exec_name: str = ""
    client: str = ""
    key: str = ""
    state: str = ""
    worker: str = ""  # name, or first digits of the id
    since_ms: int = 0

    def __post_init__(self) -> None:
        if self.kind and self.kind not in EVENT_TYPES:
            raise LocalError(
                ErrorCode.BAD_OPTIONS,
                f"unknown row type {self.kind!r}",
                f"use one of: {' '.join(EVENT_TYPES)}",
            )
        if self.state and self.state not in STATES:
            raise LocalError(
                ErrorCode.BAD_OPTIONS,
                f"unknown state {self.state!r}",
                f"use one of: {' '.join(STATES)}",
            )
        if self.job:
            digits_of(self.job)  # raises if it is not an id

    def fits(self, row: HistoryRow, worker_name: str = "") -> bool:
        """Whether a row matches; `worker_name` is the name of its worker."""
        return (
            self.kind in ("", row.type)
            and self.queue in ("", row.queue)
            and self.exec_name in ("", row.execName)
            and self.client in ("", row.clientId)
            and self.key in ("", row.jobKey)
            and self.state in ("", state_after(row))
            and row.ts >= self.since_ms
            and (not self.worker or self._is_worker(row.workerId, worker_name))
            and (not self.job or self._is_job(row.jobId) or self._is_job(row.arrayId))
        )

    def _is_worker(self, text: str, name: str) -> bool:
        return bool(text) and (self.worker == name or text.startswith(self.worker.lower()))

    def _is_job(self, text: str) -> bool:
        first, last = digits_of(self.job)
        digits = text.replace("-", "")
        return digits.startswith(first) and digits.endswith(last) and bool(digits)


class HistoryFollower:
    """Reads the rows of a group in order; `wants` filters lines."""

    def __init__(self, reader: Reader, wants: Callable[[bytes], bool]) -> None:
        self._reader = reader
        self._wants = wants
        self._is_away = False

    def last(self, first: int, count: int) -> tuple[int, list[bytes]]:
        """The last matching lines (or all from `first` on, if it is given), and the index after
        them. The range is extended backwards until there are enough."""
        span = self._reader.span()
        back = max(count, 1)
        while True:
            start = max(span.floor + 1, first or span.applied - back + 1)
            found: deque[bytes] = deque(maxlen=None if first else count)
            for lines in self._pieces(start, span.applied):
                found.extend(filter(self._wants, lines))
            if first or start == span.floor + 1 or len(found) >= count:
                _tell_removed(span, first)
                return span.applied + 1, list(found)
            back *= BACK_FACTOR

    def start_of(self, since_ms: int) -> int:
        """A log index before the first row of this time."""
        span = self._reader.span()
        back = 1
        while True:
            start = max(span.floor + 1, span.applied - back + 1)
            stamps = (row_of(line).ts for lines in self._pieces(start, start) for line in lines)
            oldest = next(stamps, None)
            if start == span.floor + 1:
                if oldest is not None and oldest >= since_ms:
                    _tell_removed(span, 1)
                return start
            if oldest is not None and oldest < since_ms:
                return start
            back *= BACK_FACTOR

    def follow(self, place: int) -> Iterator[list[bytes]]:
        """Iterate over matching lines from an index as they are committed; an empty list if there
        is nothing new. If the member stops, another one is read."""
        while True:
            fresh = False
            span: Span | None = None
            try:
                span = self._reader.span(fresh=False)
                for piece in self._reader.pieces(place, span.applied, forms=(LINES, EVENTS, RUNS)):
                    place, fresh = piece.last + 1, True
                    yield list(filter(self._wants, piece.lines().splitlines()))
                self._back()
            except RollqError as error:
                if error.code is ErrorCode.HISTORY_GONE and span and place <= span.floor:
                    _tell_removed(span, place)
                    place = span.floor + 1
                    continue
                self._away(error)
            if not fresh:
                yield []
                time.sleep(POLL_S)

    def _pieces(self, first: int, last: int) -> Iterator[list[bytes]]:
        for piece in self._reader.pieces(first, last, forms=(LINES, EVENTS, RUNS)):
            yield piece.lines().splitlines()

    def _away(self, error: RollqError) -> None:
        if not error.retryable:
            raise error
        if not self._is_away:
            remark(f"waiting: {error.message}")
        self._is_away = True

    def _back(self) -> None:
        if self._is_away:
            remark("a member answers again; nothing was left out")
        self._is_away = False


def row_of(line: bytes) -> HistoryRow:
    """Decode a line."""
    return _decode(line)


def _tell_removed(span: Span, first: int) -> None:
    if 0 < first <= span.floor:
        remark(f"history up to log index {span.floor} was removed by retention")


_decode = msgspec.json.Decoder(HistoryRow).decode
