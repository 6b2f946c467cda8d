"""Handlers for what operators turn: queues paused and resumed, cluster settings."""

from __future__ import annotations

from rollq.base.limits import ATTEMPTS_MAX, DURATION_MS_MAX, JOBS_MAX, LEASE_MS_MIN
from rollq.grid.admission import admit_queue, refuse_queue, refused_bounds
from rollq.grid.commands import PauseQueue, ResumeQueue, SetSettings, Settings
from rollq.grid.effects import Applied, Outcome, Refused
from rollq.grid.events import QUEUE_PAUSED, QUEUE_RESUMED, SETTINGS_CHANGED, Event
from rollq.grid.moves import maybe_drop_queue
from rollq.grid.outcomes import DONE_ONE, KNOWN_OPEN
from rollq.grid.state import GridState


def pause_queue(state: GridState, command: PauseQueue, out: Applied) -> Outcome:
    """No new assignments from this queue, which need not have jobs yet."""
    if command.queue not in state.queues:
        refusal = refuse_queue(state, command.queue)
        if refusal is not None:
            return refusal
    queue = admit_queue(state, command.queue)
    if queue.paused:
        return KNOWN_OPEN
    queue.paused = True
    out.events.append(Event(QUEUE_PAUSED, queue=queue.name, detail=command.by))
    return DONE_ONE


def resume_queue(state: GridState, command: ResumeQueue, out: Applied) -> Outcome:
    """Assignments from this queue again."""
    queue = state.queues.get(command.queue)
    if queue is None or not queue.paused:
        return KNOWN_OPEN
    queue.paused = False
    out.events.append(Event(QUEUE_RESUMED, queue=queue.name, detail=command.by))
    maybe_drop_queue(state, queue.name)
    return DONE_ONE


def set_settings(state: GridState, command: SetSettings, out: Applied) -> Outcome:
    """Replace the settings. They count for what happens from now on."""
    refusal = refuse_settings(command.settings)
    if refusal is not None:
        return refusal
    state.settings = command.settings
    out.events.append(Event(SETTINGS_CHANGED, detail=command.by))
    return DONE_ONE


def refuse_settings(settings: Settings) -> Refused | None:
    """Why these settings are out of bounds."""
    if not 1 <= settings.max_attempts <= ATTEMPTS_MAX:
        return refused_bounds(f"max_attempts is not 1 to {ATTEMPTS_MAX}")
    durations = (
        settings.lease_ms,
        settings.worker_grace_ms,
        settings.retry_base_ms,
        settings.retry_max_ms,
        settings.result_ttl_ms,
        settings.dead_ttl_ms,
    )
    if min(durations) < 0 or max(durations) > DURATION_MS_MAX:
        return refused_bounds(f"a duration is not 0 to {DURATION_MS_MAX} ms")
    if settings.lease_ms < LEASE_MS_MIN:
        return refused_bounds(f"lease_ms is less than {LEASE_MS_MIN}")
    if not 0 <= settings.results_kept_max <= JOBS_MAX:
        return refused_bounds(f"results_kept_max is not 0 to {JOBS_MAX}")
    return refused_bounds("client_cap is negative") if settings.client_cap < 0 else None
