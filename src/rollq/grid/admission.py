"""Admission: bounds of what is submitted, and room for it. Only `admit_*` change the state.

The gateway checks the same earlier, with better messages: these checks keep the state within its
limits whatever a leader of another version accepts.
"""

from __future__ import annotations

from sys import intern

from msgspec.structs import replace

from rollq.base.errors import ErrorCode
from rollq.base.flow_limits import PARENTS_PER_JOB_MAX
from rollq.base.ids import GUID_BYTES, JobId
from rollq.base.jobs import DEFAULT_OPTIONS, Condition, JobOptions, ParentRef
from rollq.base.limits import (
    ATTEMPTS_MAX,
    CLIENT_ID_BYTES_MAX,
    DURATION_MS_MAX,
    EXEC_NAME_BYTES_MAX,
    INLINE_BYTES_MAX,
    JOB_KEY_BYTES_MAX,
    LEASE_MS_MIN,
    PRIORITY_MAX,
    QUEUE_NAME_BYTES_MAX,
    RETRY_EXIT_CODES_MAX,
    WORKER_NAME_BYTES_MAX,
)
from rollq.base.need_limits import STICKY_KEY_BYTES_MAX
from rollq.base.needs import why_bad_requirements, why_bad_resources, why_bad_tokens
from rollq.base.staged import KEY_END
from rollq.grid.effects import Refused
from rollq.grid.moves import rest_client
from rollq.grid.outcomes import BEING_UNPACKED, CLIENTS_FULL, QUEUES_FULL
from rollq.grid.state import PREFIX_BYTES, ClientRecord, GridState, QueueRecord

CONDITIONS = tuple(map(int, Condition))
_OPTIONS_SEEN_MAX = 1_024  # distinct options that are shared; the table is cleared beyond


def refuse_submit(
    state: GridState, client_id: str, queue: str, exec_name: str, options: JobOptions | None
) -> Refused | None:
    """Why nothing may be submitted with these names and options; None if it may."""
    if client_id not in state.clients:
        refusal = refuse_client(state, client_id)
        if refusal is not None:
            return refusal
    if queue not in state.queues:
        refusal = refuse_queue(state, queue)
        if refusal is not None:
            return refusal
    if is_long(exec_name, EXEC_NAME_BYTES_MAX):
        return refused_bounds("exec_name is too long")
    if options is not None and options not in state.options_seen:
        return refuse_options(options)
    return None


def refuse_client(state: GridState, client_id: str) -> Refused | None:
    """Why no client may be created with this id."""
    if not client_id or is_long(client_id, CLIENT_ID_BYTES_MAX):
        return refused_bounds("client_id is empty or too long")
    if len(state.clients) >= state.bounds.clients and not len(state.idle_clients):
        return CLIENTS_FULL
    return None


def refuse_queue(state: GridState, name: str) -> Refused | None:
    """Why no queue may be created with this name."""
    if not name or is_long(name, QUEUE_NAME_BYTES_MAX):
        return refused_bounds("queue is empty or too long")
    return QUEUES_FULL if len(state.queues) >= state.bounds.queues else None


def refuse_options(options: JobOptions) -> Refused | None:
    """Why these options are out of bounds."""
    if not 0 <= options.priority <= PRIORITY_MAX:
        return refused_bounds(f"priority is not 0 to {PRIORITY_MAX}")
    if not 0 <= options.max_attempts <= ATTEMPTS_MAX:
        return refused_bounds(f"max_attempts is not 0 to {ATTEMPTS_MAX}")
    durations = (
        options.delay_ms,
        options.lease_ms,
        options.run_ms_soft,
        options.run_ms_max,
        options.expire_ms,
        options.result_ttl_ms,
        options.retry_base_ms,
    )
    if min(durations) < 0 or max(durations) > DURATION_MS_MAX:
        return refused_bounds(f"a duration is not 0 to {DURATION_MS_MAX} ms")
    if 0 < options.lease_ms < LEASE_MS_MIN:
        return refused_bounds(f"lease_ms is less than {LEASE_MS_MIN}")
    if len(options.retry_exit_codes) > RETRY_EXIT_CODES_MAX:
        return refused_bounds("too many retry_exit_codes")
    if is_long(options.worker_name, WORKER_NAME_BYTES_MAX):
        return refused_bounds("worker_name is too long")
    if is_long(options.sticky_key, STICKY_KEY_BYTES_MAX):
        return refused_bounds(f"sticky_key has more than {STICKY_KEY_BYTES_MAX} bytes")
    if options.after and (why := _why_bad_parents(options.after)):
        return refused_bounds(why)
    why = (
        why_bad_resources(options.resources)
        or why_bad_requirements(options.labels)
        or why_bad_tokens(options.limits)
    )
    if why:
        return refused_bounds(why)
    return None


def _why_bad_parents(after: tuple[ParentRef, ...]) -> str:
    """Why these cannot be parents of a job, whether they exist or not."""
    if len(after) > PARENTS_PER_JOB_MAX:
        return f"it waits for more than {PARENTS_PER_JOB_MAX} jobs"
    if len({one.job_id for one in after}) != len(after):
        return "it waits for the same job twice"
    if any(len(one.job_id) != GUID_BYTES or one.condition not in CONDITIONS for one in after):
        return "what it waits for is no id of 16 bytes with a condition"
    return ""


def refuse_job(state: GridState, job_id: JobId, body: bytes) -> Refused | None:
    """Why no job may be created with this id and body; the id is known to be free in `jobs`."""
    if len(job_id) != GUID_BYTES:
        return refused_bounds("job_id does not have 16 bytes")
    if len(body) > INLINE_BYTES_MAX:
        return refused_bounds(f"body is larger than {INLINE_BYTES_MAX} bytes")
    if job_id in state.reserved:
        return BEING_UNPACKED
    return refuse_task_id(state, job_id) if state.arrays else None


def refuse_task_id(state: GridState, job_id: JobId) -> Refused | None:
    """Why no job may have this id: it is the id of an array, or of a task now or later."""
    array = state.arrays.get(job_id[:PREFIX_BYTES])
    if array is None:
        return None
    if array.number_of(job_id) < array.task_count:
        return Refused(ErrorCode.ID_CONFLICT, "the id belongs to a task of an array", job_id)
    if array.array_id == job_id:
        return Refused(ErrorCode.ID_CONFLICT, "the id names an array", job_id)
    return None


def refuse_key(key: str) -> Refused | None:
    """Why no job may have this key."""
    if is_long(key, JOB_KEY_BYTES_MAX):
        return refused_bounds(f"key has more than {JOB_KEY_BYTES_MAX} bytes")
    return refused_bounds("key has a character of number 0") if KEY_END in key else None


def refused_bounds(message: str) -> Refused:
    """The refusal of a value that is out of bounds."""
    return Refused(ErrorCode.BAD_OPTIONS, message)


def is_long(text: str, bytes_max: int) -> bool:
    """Whether a text has more than `bytes_max` bytes; encodes it only if it could."""
    return len(text) * 4 > bytes_max and len(text.encode()) > bytes_max


def admit_client(state: GridState, client_id: str) -> ClientRecord:
    """The record of a client, created if it is new; the caller has checked for room."""
    client = state.clients.get(client_id)
    if client is None:
        if len(state.clients) >= state.bounds.clients:
            oldest = state.idle_clients.oldest()
            if oldest is not None:
                state.idle_clients.remove(state.clients.pop(oldest).idle_seq)
                state.client_ids.remove(oldest)
        client = state.clients[client_id] = ClientRecord(client_id)
        state.client_ids.add(client_id)
        rest_client(state, client)
    return client


def admit_queue(state: GridState, name: str) -> QueueRecord:
    """The record of a queue, created if it is new."""
    queue = state.queues.get(name)
    if queue is None:
        name = intern(name)
        queue = state.queues[name] = QueueRecord(name)
    return queue


def share_options(state: GridState, options: JobOptions | None) -> JobOptions:
    """One shared object for equal options, so that a million jobs do not hold a million copies."""
    if options is None or options == DEFAULT_OPTIONS:
        return DEFAULT_OPTIONS
    if options.after:  # stored separately, so that jobs that only differ in parents are alike
        return share_options(state, replace(options, after=()))
    seen = state.options_seen
    if len(seen) >= _OPTIONS_SEEN_MAX:
        seen.clear()
    return seen.setdefault(options, options)
