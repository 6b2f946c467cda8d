"""Log lines about applied entries: retried and dead jobs, changes by operators, and at debug level
every assignment and end.

One line for each job, up to LINES_MAX of one cause; then they are counted. Pure: it only reads.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from rollq.base.ids import GUID_BYTES, guid_to_text
from rollq.base.jobs import Cause, Status
from rollq.base.log_events import (
    ADMINISTERED,
    JOB_ASSIGNED,
    JOB_DEAD,
    JOB_ENDED,
    JOB_RETRIED,
    LogEvent,
    seldom,
)
from rollq.base.repeats import Repeats
from rollq.base.stamp import Clock
from rollq.grid import events
from rollq.grid.events import Event, each
from rollq.roles.member.leader.shell import Shell
from rollq.roles.member.outputs import Outputs

LINES_MAX: Final = 20  # for one cause
RETRIED: Final = frozenset(
    (events.JOB_TIMED_OUT, events.JOB_WORKER_LOST, events.JOB_NACKED, events.JOB_RETRIED)
)
DEAD: Final = frozenset((events.JOB_DEAD, events.JOB_EXPIRED))
ACTS: Final = events.ACCESS_KINDS | {
    events.QUEUE_PAUSED,
    events.QUEUE_RESUMED,
    events.SETTINGS_CHANGED,
    events.HINTS_CHANGED,
    events.CACHE_PUT,
    events.CACHE_REMOVED,
    events.ACTED,
}
LOGGED: Final = RETRIED | DEAD | ACTS
PER_JOB: Final = frozenset((events.JOB_ASSIGNED, events.JOB_ACKED))


class JobLog:
    """Adds log lines to the outputs of a turn."""

    __slots__ = ("_clock", "_outputs", "_repeats", "_shell")

    def __init__(self, shell: Shell, clock: Clock, outputs: Outputs) -> None:
        self._shell = shell
        self._clock = clock
        self._outputs = outputs
        self._repeats = Repeats(LINES_MAX)

    def observe(self, applied: Sequence[Event]) -> None:
        """Log events of an entry; most are about successful jobs, and are skipped."""
        for event in applied:
            if event.kind in LOGGED:
                if event.kind in ACTS:
                    self._outputs.log(ADMINISTERED, **_act(event))
                else:
                    log_event = JOB_DEAD if event.kind in DEAD else JOB_RETRIED
                    for one in each(event):
                        self._job(log_event, one)
            elif self._shell.logs_jobs and event.kind in PER_JOB:
                log_event = JOB_ASSIGNED if event.kind == events.JOB_ASSIGNED else JOB_ENDED
                for one in each(event):
                    self._outputs.log(log_event, **_fields(one))

    def _job(self, log_event: LogEvent, event: Event) -> None:
        fields = _fields(event)
        kind = f"{log_event.word} {fields['cause']}"
        shown = seldom(self._repeats, kind, self._clock.now_ms(), fields)
        if shown is not None:
            self._outputs.log(log_event, **shown)


def _fields(event: Event) -> dict[str, Any]:
    """The logged fields of an attempt. Never its inputs or outputs."""
    fields: dict[str, Any] = {
        "job": _text(event.job_id or event.array_id),
        "attempt": event.attempt,
        "worker": _text(event.worker_id),
        "client": event.client_id,
        "queue": event.queue,
        "exec": event.exec_name,
    }
    if event.kind == events.JOB_ASSIGNED:
        return fields
    if event.kind == events.JOB_ACKED:
        fields["status"] = Status(event.status).name.lower()
    else:
        fields["cause"] = Cause(event.cause).name.lower()
    if event.count:
        fields["count"] = event.count
    if event.exit_code or event.kind in (events.JOB_ACKED, events.JOB_RETRIED):
        fields["exit_code"] = event.exit_code
    if event.signal:
        fields["signal"] = event.signal
    if event.delay_ms:
        fields["delay_ms"] = event.delay_ms
    fields["run_ms"] = event.run_ms
    return fields


def _text(ident: bytes) -> str:
    return guid_to_text(ident) if len(ident) == GUID_BYTES else ""


def _act(event: Event) -> dict[str, Any]:
    """The act of an operator, its object, and the account."""
    access = event.access
    what = event.queue or event.cache_id
    if access is not None:
        what = what or access.account or access.resource
    return {
        "act": event.detail if event.kind == events.ACTED else event.kind,
        "what": what,
        "by": "" if access is None else access.by,
    }
