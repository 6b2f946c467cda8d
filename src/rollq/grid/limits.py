"""Limits: tokens held by attempts, the rate clock, and the handlers.

A limit bounds the tokens of running attempts, and the rate of starts. No start is refused here: the
leader decides within the limits, reserving what it has decided, and these functions count applied
starts. `running` follows from the jobs in ASSIGNED. `due_us` is a virtual clock: a start of n
tokens advances it by n intervals, from now if it was behind; it may be ahead by a burst.
"""

from __future__ import annotations

from typing import Final

from rollq.base.errors import ErrorCode
from rollq.base.ids import ClientId
from rollq.base.jobs import JobOptions
from rollq.base.need_limits import LIMIT_NAME_BYTES_MAX, RATE_MAX, TOKENS_MAX
from rollq.base.needs import SCOPES, is_name
from rollq.grid.effects import Applied, Outcome, Refused
from rollq.grid.events import LIMIT_PUT, LIMIT_REMOVED, Event, asked_by
from rollq.grid.outcomes import DONE_NONE, DONE_ONE, DUPLICATE_OPEN, LIMITS_FULL
from rollq.grid.rule_commands import PutLimit, RemoveLimit
from rollq.grid.state import GridState, JobRecord, LimitRecord

RATE_US: Final = 86_400_000_000  # the time in which `rate` starts may be: a day


def limits_of(
    state: GridState, queue: str, client_id: ClientId, exec_name: str, options: JobOptions
) -> tuple[tuple[LimitRecord, int], ...]:
    """The limits that apply to a job, with the tokens that an attempt takes of each."""
    limits = state.limits
    if not limits:
        return ()
    find = limits.get
    always = find(("exec", exec_name)), find(("queue", queue)), find(("client", client_id))
    found = [(limit, 1) for limit in always if limit is not None]
    for name, tokens in options.limits:
        limit = find(("key", name))
        if limit is not None:
            found.append((limit, tokens))
    return tuple(found)


def take_tokens(state: GridState, record: JobRecord, count: int, stamp_ms: int) -> None:
    """`count` attempts of jobs like this one start."""
    now_us = stamp_ms * 1_000
    for limit, tokens in _limits_of(state, record):
        limit.running += tokens * count
        if limit.rate:
            limit.due_us = max(limit.due_us, now_us) + count * interval_of(limit, tokens)


def give_tokens(state: GridState, record: JobRecord, count: int = 1) -> None:
    """`count` attempts of jobs like this one have ended."""
    for limit, tokens in _limits_of(state, record):
        limit.running -= tokens * count


def count_tokens(state: GridState, record: JobRecord) -> None:
    """Count a running attempt in a state that is read from a snapshot."""
    for limit, tokens in _limits_of(state, record):
        limit.running += tokens


def interval_of(limit: LimitRecord, tokens: int = 1) -> int:
    """How long a start of so many tokens blocks further ones, in µs; rounded up."""
    return -(-tokens * RATE_US // limit.rate)


def due_of(limit: LimitRecord, tokens: int = 1) -> int:
    """When a start of so many tokens is within the rate, in µs; 0: always. One that takes more than
    the burst may start when the whole burst is available."""
    if not limit.rate:
        return 0
    return (
        limit.due_us
        - interval_of(limit, limit.burst)
        + interval_of(limit, min(tokens, limit.burst))
    )


def put_limit(state: GridState, command: PutLimit, out: Applied) -> Outcome:
    """Set or change a limit. Running attempts count at once."""
    key = command.scope, command.name
    limit = state.limits.get(key)
    refusal = refuse_limit(command)
    if refusal is None and limit is None and len(state.limits) >= state.bounds.limits:
        refusal = LIMITS_FULL
    if refusal is not None:
        return refusal
    values = command.running_max, command.rate, command.burst
    if limit is None:
        limit = state.limits[key] = LimitRecord(*key, *values)
        for worker in state.workers.values():
            for job_id in worker.held:
                limit.running += tokens_in(limit, state.jobs[job_id])
    elif (limit.running_max, limit.rate, limit.burst) == values:
        return DUPLICATE_OPEN
    else:
        limit.running_max, limit.rate, limit.burst = values
        # What an older, slower rate had its clock ahead counts as a burst that was used up.
        ahead_us = interval_of(limit, limit.burst) if limit.rate else 0
        limit.due_us = min(limit.due_us, out.stamp_ms * 1_000 + ahead_us) if limit.rate else 0
    out.events.append(_fact(LIMIT_PUT, command.by, limit))
    return DONE_ONE


def remove_limit(state: GridState, command: RemoveLimit, out: Applied) -> Outcome:
    """Delete a limit."""
    limit = state.limits.pop((command.scope, command.name), None)
    if limit is None:
        return DONE_NONE
    out.events.append(_fact(LIMIT_REMOVED, command.by, limit))
    return DONE_ONE


def refuse_limit(command: PutLimit) -> Refused | None:
    """Why this limit is not valid."""
    if command.scope not in SCOPES:
        return _refused(f"scope is not one of {', '.join(SCOPES)}")
    if not command.name or len(command.name.encode()) > LIMIT_NAME_BYTES_MAX:
        return _refused(f"name is empty or has more than {LIMIT_NAME_BYTES_MAX} bytes")
    if command.scope == "key" and not is_name(command.name):
        return _refused("no job can name this key")
    if not 0 <= command.running_max <= TOKENS_MAX:
        return _refused(f"running_max is not 0 to {TOKENS_MAX}")
    if not 0 <= command.rate <= RATE_MAX:
        return _refused(f"rate is not 0 to {RATE_MAX} a day")
    if not (1 if command.rate else 0) <= command.burst <= (TOKENS_MAX if command.rate else 0):
        return _refused(f"burst is not 1 to {TOKENS_MAX} with a rate, 0 without")
    if not command.running_max and not command.rate:
        return _refused("a limit has a running_max, a rate or both")
    return None


def tokens_in(limit: LimitRecord, record: JobRecord) -> int:
    """The tokens of this limit that an attempt of this job takes."""
    if limit.scope == "key":
        return sum([tokens for name, tokens in record.options.limits if name == limit.name])
    named = {"exec": record.exec_name, "queue": record.queue, "client": record.client.client_id}
    return int(named[limit.scope] == limit.name)


def limit_text(limit: LimitRecord) -> str:
    """A limit as displayed: exec:render."""
    return f"{limit.scope}:{limit.name}"


def _limits_of(state: GridState, record: JobRecord) -> tuple[tuple[LimitRecord, int], ...]:
    client_id = record.client.client_id
    return limits_of(state, record.queue, client_id, record.exec_name, record.options)


def _fact(kind: str, by: str, limit: LimitRecord) -> Event:
    detail = limit_text(limit)
    if kind == LIMIT_PUT:
        detail += f" running_max={limit.running_max} rate={limit.rate} burst={limit.burst}"
    return Event(
        kind,
        client_id=limit.name if limit.scope == "client" else "",
        queue=limit.name if limit.scope == "queue" else "",
        exec_name=limit.name if limit.scope == "exec" else "",
        count=limit.running_max,
        detail=detail,
        access=asked_by(by),
    )


def _refused(message: str) -> Refused:
    return Refused(ErrorCode.BAD_OPTIONS, message)
