"""Handler of hints: expected run times of programs, for use by `policy`."""

from __future__ import annotations

from rollq.base.hints import ExecHint
from rollq.base.limits import DURATION_MS_MAX, EXEC_NAME_BYTES_MAX, HINTS_MAX
from rollq.grid.admission import is_long, refused_bounds
from rollq.grid.commands import SetHints
from rollq.grid.effects import Applied, Done, Outcome, Refused
from rollq.grid.events import HINTS_CHANGED, Event, asked_by
from rollq.grid.state import GridState


def set_hints(state: GridState, command: SetHints, out: Applied) -> Outcome:
    """Replace all hints; an empty list removes them."""
    refusal = refuse_hints(command.hints)
    if refusal is not None:
        return refusal
    state.hints = {hint.exec_name: hint for hint in command.hints}
    by = command.by
    out.events.append(Event(HINTS_CHANGED, count=len(state.hints), detail=by, access=asked_by(by)))
    return Done(len(state.hints))


def refuse_hints(hints: tuple[ExecHint, ...]) -> Refused | None:
    """Why these hints are out of bounds."""
    if len(hints) > HINTS_MAX:
        return refused_bounds(f"more than {HINTS_MAX} hints")
    seen: dict[str, None] = {}
    for hint in hints:
        name = hint.exec_name
        if not name or is_long(name, EXEC_NAME_BYTES_MAX):
            return refused_bounds("exec_name of a hint is empty or too long")
        if name in seen:
            return refused_bounds(f"two hints for {name!r}")
        if not 0 <= hint.p50_ms <= hint.p95_ms <= hint.p99_ms <= DURATION_MS_MAX or hint.count < 0:
            return refused_bounds(f"run times of {name!r} are negative or not in order")
        seen[name] = None
    return None


def listed_hints(state: GridState) -> list[ExecHint]:
    """All hints, by program."""
    return [state.hints[name] for name in sorted(state.hints)]
