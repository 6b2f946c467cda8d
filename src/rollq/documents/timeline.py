"""The events of one job, in order."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

from rollq.base.amounts import counted
from rollq.base.outcomes import signal_text
from rollq.documents.times import when
from rollq.grid import events as kinds
from rollq.history.job_rows import JobTimeline
from rollq.history.schema import HistoryRow
from rollq.roles.client.results.views import cause_text, cause_word

PARENTS_SHOWN: Final = 3  # in a line
# Words for display; rows of the history keep the legacy names.
WORDS: Final = {
    kinds.JOB_ENQUEUED: "accepted",
    kinds.ARRAY_ENQUEUED: "accepted",
    kinds.JOB_DELAYED: "delayed",
    kinds.JOB_RELEASED: "released",
    kinds.JOB_BLOCKED: "blocked",
    kinds.JOB_UNBLOCKED: "unblocked",
    kinds.JOB_ASSIGNED: "assigned",
    kinds.ATTEMPT_ADOPTED: "adopted",
    kinds.JOB_TIMED_OUT: "lost",
    kinds.JOB_WORKER_LOST: "lost",
    kinds.JOB_NACKED: "requeued",
    kinds.JOB_RETRIED: "retried",
    kinds.JOB_DEAD: "dead",
    kinds.JOB_EXPIRED: "expired",
    kinds.JOB_CANCEL_REQUESTED: "cancel_requested",
    kinds.JOB_CANCELLED: "cancelled",
    kinds.JOB_REDRIVEN: "redriven",
    kinds.RESULT_CONFIRMED: "confirmed",
    kinds.JOB_PURGED: "purged",
    kinds.JOB_FORGOTTEN: "forgotten",
    kinds.ARRAY_ENDED: "ended",
}


def timeline_document(value: bytes) -> dict[str, Any]:
    """An answer to `timeline`. `before` is the key of the page before; null if there is none.
    `whole` is true if the events begin with the acceptance of the job."""
    view = decode_timeline(value)
    return {
        "events": [event_document(row, view.workers.get) for row in view.rows],
        "before": view.before or None,
        "whole": view.is_whole,
        "floor": view.floor,
    }


def event_document(row: HistoryRow, name_of: Callable[[str], str | None]) -> dict[str, Any]:
    """One event. Fields that do not apply are left out."""
    if row.type == kinds.JOB_ACKED:
        word = "failed" if row.status else "ok"
    else:
        word = WORDS.get(row.type, row.type)
    fields = {
        "attempt": row.attempt,
        "worker": name_of(row.workerId) or row.workerId,
        "worker_id": row.workerId,
        "cause": cause_word(row.cause),
        "exit_code": row.exitCode,
        "signal": signal_text(row.signal) if row.signal else "",
        "run_ms": row.runMs,
        "delay_ms": row.delayMs,
        "by": row.by,
        "detail": row.detail if row.detail != row.by else "",
        "tasks": row.count,
        "parents": msgspec.json.decode(row.parents) if row.parents else None,
    }
    at = {"index": row.index, "ts_ms": row.ts, "at": when(row.ts), "event": word}
    return at | {name: value for name, value in fields.items() if value}


def about(event: dict[str, Any]) -> str:
    """The details of an event, on one line."""
    parts = (
        f"by {event['by']}" if event.get("by") else "",
        cause_text(event.get("cause", "")),
        f"exit code {event['exit_code']}" if "exit_code" in event else "",
        event.get("signal", ""),
        f"{event['run_ms']} ms" if "run_ms" in event else "",
        _delay(event),
        counted(event["tasks"], "task") if "tasks" in event else "",
        _parents(event),
        event.get("detail", ""),
    )
    return ", ".join(part for part in parts if part)


def _delay(event: dict[str, Any]) -> str:
    """The delay of a job, or until the next attempt."""
    if "delay_ms" not in event:
        return ""
    wait = f"{event['delay_ms']} ms"
    begins = WORDS[kinds.JOB_DELAYED], WORDS[kinds.JOB_UNBLOCKED]
    return f"for {wait}" if event["event"] in begins else f"again in {wait}"


def _parents(event: dict[str, Any]) -> str:
    """The parents that a new job waits for."""
    named = list(event.get("parents", {}).items())
    more = f" and {len(named) - PARENTS_SHOWN} more" if len(named) > PARENTS_SHOWN else ""
    listed = ", ".join(f"{one} ({word})" for one, word in named[:PARENTS_SHOWN])
    return f"after {listed}{more}" if named else ""


decode_timeline = msgspec.msgpack.Decoder(JobTimeline).decode
