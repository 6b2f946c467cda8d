"""Log lines of the leader about what was applied: jobs that run again or are dead, what operators
changed, and at the level debug every assignment and end.

One line a job up to LINES_MAX of a cause; from then on they are counted. Pure: it only looks.
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

LINES_MAX: Final = 20  # of one cause
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
TOLD: Final = RETRIED | DEAD | ACTS
PER_JOB: Final = frozenset((events.JOB_ASSIGNED, events.JOB_ACKED))


class JobLog:
    """Lines for the log of the process, among the outputs of a turn."""

    __slots__ = ("_clock", "_outputs", "_repeats", "_shell")

    def __init__(self, shell: Shell, clock: Clock, outputs: Outputs) -> None:
        self._shell = shell
        self._clock = clock
        self._outputs = outputs
        self._repeats = Repeats(LINES_MAX)

    def observe(self, applied: Sequence[Event]) -> None:
        """Facts of an entry; most are about jobs that went well, and are passed over."""
        for event in applied:
            if event.kind in TOLD:
                if event.kind in ACTS:
                    self._outputs.tell(ADMINISTERED, **_act(event))
                else:
                    told = JOB_DEAD if event.kind in DEAD else JOB_RETRIED
                    for one in each(event):
                        self._job(told, one)
            elif self._shell.logs_jobs and event.kind in PER_JOB:
                told = JOB_ASSIGNED if event.kind == events.JOB_ASSIGNED else JOB_ENDED
                for one in each(event):
                    self._outputs.tell(told, **_fields(one))

    def _job(self, told: LogEvent, event: Event) -> None:
        fields = _fields(event)
        kind = f"{told.word} {fields['cause']}"
        shown = seldom(self._repeats, kind, self._clock.now_ms(), fields)
        if shown is not None:
            self._outputs.tell(told, **shown)


def _fields(event: Event) -> dict[str, Any]:
    """What is told of an attempt. Never what the job was given or has written."""
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
    """What an operator did, on what, and who it was."""
    access = event.access
    what = event.queue or event.cache_id
    if access is not None:
        what = what or access.account or access.resource
    return {
        "act": event.detail if event.kind == events.ACTED else event.kind,
        "what": what,
        "by": "" if access is None else access.by,
    }
