"""Log lines of the worker process: its start, programs, and ends of jobs. Frequent lines are
counted, not repeated."""

from __future__ import annotations

import logging
import time
from typing import Any, Final

from rollq.base.ids import guid_to_text
from rollq.base.jobs import AttemptRef, Status
from rollq.base.log_events import (
    CONNECTED,
    DISCONNECTED,
    JOB_FAILED,
    JOB_STARTED,
    JOB_SUCCEEDED,
    NOT_EXECUTABLE,
    NOT_LET_IN,
    PROGRAMS,
    WORKER_STARTED,
    LogEvent,
    seldom,
    tell,
)
from rollq.base.repeats import Repeats
from rollq.roles.worker.counted import WorkerCounters
from rollq.roles.worker.execs import ExecDir
from rollq.roles.worker.setup import NodeSetup
from rollq.roles.worker.signals import StoredResult
from rollq.wire.messages import AssignJob, Error

log = logging.getLogger("rollq.worker")

NAMES_MAX: Final = 20  # of programs in one line
LINES_MAX: Final = 3  # of one kind before they are counted
FAILED: Final = int(Status.FAILED)


class WorkerLog:
    """Writes the lines of one process."""

    def __init__(self, counted: WorkerCounters) -> None:
        self._counted = counted
        self._repeats = Repeats(LINES_MAX)
        self._logs_jobs = log.isEnabledFor(logging.DEBUG)

    def started(self, setup: NodeSetup, worker: str, undelivered: int) -> None:
        """The worker serves: log its programs, and files that lack the permission to execute."""
        tell(
            log,
            WORKER_STARTED,
            name=setup.name or worker,
            slots=setup.slots,
            undelivered=undelivered,
            worker=worker,
            servers=setup.addresses,
            exec_dir=str(setup.exec_dir or ""),
        )
        programs, others = ExecDir(setup.exec_dir).listing()
        tell(log, PROGRAMS, programs=_shown(programs), modules=", ".join(setup.apps) or "none")
        if others:
            tell(log, NOT_EXECUTABLE, exec_dir=str(setup.exec_dir), files=_shown(others))

    def connected(self, address: str) -> None:
        """A leader accepted the session: later errors are logged again."""
        tell(log, CONNECTED, address=address)
        self._repeats = Repeats(LINES_MAX)

    def disconnected(self, address: str, cause: str) -> None:
        """The connection to a leader is lost; counted, too."""
        self._counted.disconnected += 1
        self.seldom(DISCONNECTED, address, address=address, cause=cause)

    def not_let_in(self, address: str, error: Error) -> None:
        """A member refused the session."""
        cause, todo = error.message, error.hint
        self.seldom(NOT_LET_IN, cause, address=address, cause=cause, todo=todo)

    def jobs_start(self, jobs: list[tuple[AssignJob, AttemptRef]]) -> None:
        """Attempts start."""
        if self._logs_jobs:
            for job, ref in jobs:
                ident = guid_to_text(ref.job_id)
                tell(log, JOB_STARTED, job=ident, attempt=ref.attempt, exec=job.exec_name)

    def ended(self, results: list[StoredResult]) -> None:
        """Attempts ended."""
        for record in results:
            if record.status == FAILED:
                end = f"exit code {record.exit_code}"
                end = f"signal {record.signal}" if record.signal else end
                self.seldom(JOB_FAILED, end, **_end_fields(record), cause=end)
            elif self._logs_jobs:
                tell(log, JOB_SUCCEEDED, **_end_fields(record))

    def seldom(self, event: LogEvent, kind: str, **fields: Any) -> None:
        """Log a line, unless many of its kind were logged lately: then count it."""
        now_ms = time.monotonic_ns() // 1_000_000
        shown = seldom(self._repeats, f"{event.word} {kind}", now_ms, fields)
        if shown is not None:
            tell(log, event, **shown)


def _end_fields(record: StoredResult) -> dict[str, Any]:
    fields = {"job": guid_to_text(record.ref.job_id), "attempt": record.ref.attempt}
    if record.status == FAILED:
        fields["exit_code"] = record.exit_code
    if record.signal:
        fields["signal"] = record.signal
    return {**fields, "run_ms": record.run_ms}


def _shown(names: list[str]) -> str:
    more = f" and {len(names) - NAMES_MAX} more" if len(names) > NAMES_MAX else ""
    return (", ".join(names[:NAMES_MAX]) or "none") + more
