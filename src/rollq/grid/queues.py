"""Handlers for operators: pause and resume of queues, cluster settings."""

from __future__ import annotations

from typing import Final

from rollq.base.limits import ATTEMPTS_MAX, DURATION_MS_MAX, JOBS_MAX, LEASE_MS_MIN
from rollq.grid.admission import admit_queue, refuse_queue, refused_bounds
from rollq.grid.commands import PauseQueue, ResumeQueue, SetSettings, Settings
from rollq.grid.effects import Applied, Outcome, Refused
from rollq.grid.events import QUEUE_PAUSED, QUEUE_RESUMED, SETTINGS_CHANGED, Event, asked_by
from rollq.grid.moves import maybe_drop_queue
from rollq.grid.outcomes import DONE_ONE, DUPLICATE_OPEN
from rollq.grid.state import GridState

SETTING_BOUNDS: Final = {
    "max_attempts": (1, ATTEMPTS_MAX),
    "lease_ms": (LEASE_MS_MIN, DURATION_MS_MAX),
    "worker_grace_ms": (0, DURATION_MS_MAX),
    "retry_base_ms": (0, DURATION_MS_MAX),
    "retry_max_ms": (0, DURATION_MS_MAX),
    "result_ttl_ms": (0, DURATION_MS_MAX),
    "dead_ttl_ms": (0, DURATION_MS_MAX),
    "results_kept_max": (0, JOBS_MAX),
}


def pause_queue(state: GridState, command: PauseQueue, out: Applied) -> Outcome:
    """Stop assignments from this queue, which need not have jobs yet."""
    if command.queue not in state.queues:
        refusal = refuse_queue(state, command.queue)
        if refusal is not None:
            return refusal
    queue = admit_queue(state, command.queue)
    if queue.paused:
        return DUPLICATE_OPEN
    queue.paused = True
    out.events.append(_fact(QUEUE_PAUSED, command.by, queue.name))
    return DONE_ONE


def resume_queue(state: GridState, command: ResumeQueue, out: Applied) -> Outcome:
    """Resume assignments from this queue."""
    queue = state.queues.get(command.queue)
    if queue is None or not queue.paused:
        return DUPLICATE_OPEN
    queue.paused = False
    out.events.append(_fact(QUEUE_RESUMED, command.by, queue.name))
    maybe_drop_queue(state, queue.name)
    return DONE_ONE


def set_settings(state: GridState, command: SetSettings, out: Applied) -> Outcome:
    """Replace the settings. They apply to what happens from now on."""
    refusal = refuse_settings(command.settings)
    if refusal is not None:
        return refusal
    state.settings = command.settings
    out.events.append(_fact(SETTINGS_CHANGED, command.by))
    return DONE_ONE


def _fact(kind: str, by: str, queue: str = "") -> Event:
    return Event(kind, queue=queue, detail=by, access=asked_by(by))


def refuse_settings(settings: Settings) -> Refused | None:
    """Why these settings are out of bounds."""
    for name, (least, most) in SETTING_BOUNDS.items():
        value = getattr(settings, name)
        if not least <= value <= most:
            return refused_bounds(f"{name} is {value}, not {least} to {most}")
    if settings.client_cap < 0:
        return refused_bounds(f"client_cap is {settings.client_cap}; 0 means no cap")
    return None
