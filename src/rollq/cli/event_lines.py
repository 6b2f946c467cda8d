"""Formats history rows as text lines: time, type, job and details."""

from __future__ import annotations

import os
import shutil
import sys
from typing import Final

from rollq.base.amounts import counted, size_text, time_text
from rollq.base.outcomes import CANCELLED, DEAD, FAILED, OK, RUNNING, signal_text
from rollq.cli.ids import SHORT_DIGITS
from rollq.cli.output import cut, printable, write_line
from rollq.cli.rows import state_after
from rollq.documents.times import when
from rollq.grid import events
from rollq.history.schema import HistoryRow
from rollq.roles.client.results.views import cause_text, cause_word

KIND_WIDTH: Final = 19
COLOURS: Final = {OK: 32, FAILED: 31, DEAD: 31, CANCELLED: 33, RUNNING: 36}
LOST: Final = (
    events.JOB_TIMED_OUT,
    events.JOB_WORKER_LOST,
    events.JOB_NACKED,
    events.JOB_RETRIED,
)
YELLOW: Final = 33


class EventLines:
    """Writes rows to stdout.

    Args:
        names: Names of workers by id.
        as_json: Whether to write rows as they are stored.
    """

    def __init__(self, names: dict[str, str], *, as_json: bool) -> None:
        self._names = names
        self._as_json = as_json
        self._is_narrow = sys.stdout.isatty()  # one line per row on a terminal
        self._has_colours = self._is_narrow and not os.environ.get("NO_COLOR")

    def learn(self, row: HistoryRow) -> None:
        """Record the name of a worker from its row."""
        if row.type == events.WORKER_OPENED and row.detail:
            self._names[row.workerId] = row.detail.partition(" ")[0]

    def name_of(self, worker_id: str) -> str:
        """The name of a worker; empty if it has none."""
        return self._names.get(worker_id, "")

    def write(self, line: bytes, row: HistoryRow) -> None:
        """Write a row."""
        if self._as_json:
            write_line(line.decode())
            return
        text = self.text_of(row)
        if self._is_narrow:
            text = cut(text, shutil.get_terminal_size().columns)
        colour = YELLOW if row.type in LOST else COLOURS.get(state_after(row), 0)
        write_line(f"\x1b[{colour}m{text}\x1b[0m" if colour and self._has_colours else text)

    def text_of(self, row: HistoryRow) -> str:
        """Format a row as a line."""
        clock = when(row.ts).partition(" ")[2] if self._is_narrow else when(row.ts)
        job = row.jobId or row.arrayId
        job = job[:SHORT_DIGITS] if self._is_narrow else job
        words = [f"{clock}  {row.type:<{KIND_WIDTH}}", job, row.execName, *self._rest(row)]
        return printable(" ".join(filter(None, words)))

    def _rest(self, row: HistoryRow) -> list[str]:
        """The details of a row."""
        worker = self.name_of(row.workerId) or row.workerId[:SHORT_DIGITS]
        is_end = row.type == events.JOB_ACKED
        how = f"{state_after(row)}" if is_end else ""
        if is_end and row.status:
            how += f": {signal_text(row.signal)}" if row.signal else f": exit code {row.exitCode}"
        details = [
            how,
            f"on {worker}" if worker else "",
            f"after {time_text(row.runMs)}" if is_end else "",
            f"attempt {row.attempt}" if row.attempt > 1 else "",
            counted(row.count, "task") if row.arrayId and row.count else "",
            cause_text(cause_word(row.cause)),
            f"again after {time_text(row.delayMs)}" if row.delayMs else "",
            f"peak {size_text(row.peakBytes)}" if is_end and row.peakBytes else "",
            f"queue {row.queue}" if row.queue else "",
            f"client {row.clientId}" if row.clientId else "",
            f"key {row.jobKey}" if row.jobKey else "",
            f"cache {row.cacheId}" if row.cacheId else "",
            f"by {row.by}" if row.by else "",
            f"{row.action} on {row.resource}" if row.action else "",
            row.account,
        ]
        joined = "; ".join(filter(None, details))
        if row.detail and row.detail != row.by:
            joined += f": {' '.join(row.detail.split())}"
        return [joined]
