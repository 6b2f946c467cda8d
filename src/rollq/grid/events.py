"""Events: what changed by applying a command.

One flat row per fact, because the same rows feed the dashboard, the metrics, `watch`, the audit and
Spark. The position of a row is (group, log index, ordinal), added by its writer. Names are past
tense in code (`JOB_ENQUEUED`) and legacy words in the history (`enqueue`). An `Event` with a `run`
stands for one fact a job of that run, in order, and takes as many ordinals; `each_of` splits them.
No reader may distinguish a run from the same single facts. A fact about an array as a whole, or
about tasks of it that were never assigned, has no `job_id` (of older arrays it is that of task 0),
only `array_id` and the `count` of tasks; one about a task has both. Fields may be appended with a
default; none is removed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import repeat
from typing import Final

import msgspec

from rollq.base.ids import GUID_BYTES, ClientId, JobId, WorkerId
from rollq.base.staged import KEY_END, ids_of

JOB_ENQUEUED: Final = "enqueue"  # accepted, and ready to be assigned
JOB_DELAYED: Final = "delay"  # accepted, but not before `delay_ms`
JOB_RELEASED: Final = "release"  # its delay has ended
JOB_BLOCKED: Final = "block"  # accepted, but not before other jobs have ended
JOB_UNBLOCKED: Final = "unblock"  # its parents have ended; ready to be assigned after `delay_ms`
JOB_ASSIGNED: Final = "assign"
JOB_ACKED: Final = "ack"  # ended with a result (status, exit_code)
JOB_TIMED_OUT: Final = "timeout_requeue"  # lease lost; requeued after `delay_ms`
JOB_WORKER_LOST: Final = "worker_down_requeue"
JOB_NACKED: Final = "nack_requeue"
JOB_RETRIED: Final = "retry_requeue"  # by the job's own retry rule
JOB_DEAD: Final = "dlq"
JOB_EXPIRED: Final = "expire"  # waited too long; now dead
JOB_CANCEL_REQUESTED: Final = "cancel_request"
JOB_CANCELLED: Final = "cancel"
JOB_REDRIVEN: Final = "redrive"
JOB_PURGED: Final = "purge"
JOB_FORGOTTEN: Final = "forget"
RESULT_CONFIRMED: Final = "confirm"
ARRAY_ENQUEUED: Final = "array_enqueue"
ARRAY_ENDED: Final = "array_end"
CLIENT_OPENED: Final = "client_open"
WORKER_OPENED: Final = "worker_up"
WORKER_CLOSED: Final = "worker_down"
WORKER_DRAINED: Final = "worker_drain"  # it gets no new jobs; `count` is what it still holds
WORKER_UNDRAINED: Final = "worker_undrain"  # it gets jobs again
ATTEMPT_ADOPTED: Final = "adopt"  # a running attempt was re-announced to a new leader
QUEUE_PAUSED: Final = "queue_pause"
QUEUE_RESUMED: Final = "queue_resume"
SETTINGS_CHANGED: Final = "settings"
CACHE_PUT: Final = "cache_put"
CACHE_REMOVED: Final = "cache_remove"
BATCH_COMMITTED: Final = "batch_commit"  # `count` staged jobs were accepted; they follow
BATCH_DROPPED: Final = "batch_drop"
HINTS_CHANGED: Final = "hints"
ACCOUNT_PUT: Final = "account_put"
ACCOUNT_REMOVED: Final = "account_remove"
ROLE_PUT: Final = "role_put"
ROLE_REMOVED: Final = "role_remove"
REFUSED: Final = "refused"  # `count` requests of an account were not permitted
ACTED: Final = "act"  # an operator's act that changes no record: `detail` is its verb
POLICY_PUT: Final = "policy_put"  # `queue` is the pattern
POLICY_REMOVED: Final = "policy_remove"
LIMIT_PUT: Final = "limit_put"  # `count` is its running_max
LIMIT_REMOVED: Final = "limit_remove"
WEIGHT_PUT: Final = "weight_put"  # `count` is the weight
TOPIC_PUT: Final = "topic_put"
TOPIC_REMOVED: Final = "topic_remove"
CURSOR_FORGOTTEN: Final = "cursor_forget"  # a durable subscription of a topic
SCHEDULE_PUT: Final = "schedule_put"
SCHEDULE_REMOVED: Final = "schedule_remove"
SCHEDULE_PAUSED: Final = "schedule_pause"
SCHEDULE_RESUMED: Final = "schedule_resume"
SCHEDULE_FIRED: Final = "schedule_fire"  # `job_id` was created; `detail` is its key
SCHEDULE_SKIPPED: Final = "schedule_skip"  # because `job_id` has not ended
SCHEDULE_MISSED: Final = "schedule_miss"  # `count` instants, from the one in `detail` on
SCHEDULE_REFUSED: Final = "schedule_refuse"  # the grid refused the job

EVENT_TYPES: Final = (
    JOB_ENQUEUED,
    JOB_DELAYED,
    JOB_RELEASED,
    JOB_ASSIGNED,
    JOB_ACKED,
    JOB_TIMED_OUT,
    JOB_WORKER_LOST,
    JOB_NACKED,
    JOB_RETRIED,
    JOB_DEAD,
    JOB_EXPIRED,
    JOB_CANCEL_REQUESTED,
    JOB_CANCELLED,
    JOB_REDRIVEN,
    JOB_PURGED,
    JOB_FORGOTTEN,
    RESULT_CONFIRMED,
    ARRAY_ENQUEUED,
    ARRAY_ENDED,
    CLIENT_OPENED,
    WORKER_OPENED,
    WORKER_CLOSED,
    ATTEMPT_ADOPTED,
    QUEUE_PAUSED,
    QUEUE_RESUMED,
    SETTINGS_CHANGED,
    CACHE_PUT,
    CACHE_REMOVED,
    BATCH_COMMITTED,
    BATCH_DROPPED,
    HINTS_CHANGED,
    ACCOUNT_PUT,
    ACCOUNT_REMOVED,
    ROLE_PUT,
    ROLE_REMOVED,
    REFUSED,
    ACTED,
    WORKER_DRAINED,
    WORKER_UNDRAINED,
    POLICY_PUT,
    POLICY_REMOVED,
    LIMIT_PUT,
    LIMIT_REMOVED,
    WEIGHT_PUT,
    TOPIC_PUT,
    TOPIC_REMOVED,
    CURSOR_FORGOTTEN,
    JOB_BLOCKED,
    JOB_UNBLOCKED,
    SCHEDULE_PUT,
    SCHEDULE_REMOVED,
    SCHEDULE_PAUSED,
    SCHEDULE_RESUMED,
    SCHEDULE_FIRED,
    SCHEDULE_SKIPPED,
    SCHEDULE_MISSED,
    SCHEDULE_REFUSED,
)
# Events that change the access table.
ACCESS_KINDS: Final = frozenset((ACCOUNT_PUT, ACCOUNT_REMOVED, ROLE_PUT, ROLE_REMOVED))
# Events that change policies, limits or weights.
RULE_KINDS: Final = frozenset((POLICY_PUT, POLICY_REMOVED, LIMIT_PUT, LIMIT_REMOVED, WEIGHT_PUT))

# Events that change the next instant of a schedule.
SCHEDULE_KINDS: Final = frozenset(
    (
        *(SCHEDULE_PUT, SCHEDULE_REMOVED, SCHEDULE_PAUSED, SCHEDULE_RESUMED),
        *(SCHEDULE_FIRED, SCHEDULE_SKIPPED, SCHEDULE_MISSED, SCHEDULE_REFUSED),
    )
)


class Run(msgspec.Struct, frozen=True, gc=False, array_like=True, omit_defaults=True):
    """The jobs that an event is about, and their columns. A column has one value per job; empty:
    each has the value of the event."""

    job_ids: bytes  # one behind another
    fences: tuple[int, ...] = ()  # empty: consecutive from the event's, or none at all
    run_ms: tuple[int, ...] = ()
    peak_bytes: tuple[int, ...] = ()
    fetched_bytes: tuple[int, ...] = ()
    held_bytes: tuple[int, ...] = ()
    body_bytes: tuple[int, ...] = ()
    blob_bytes: tuple[int, ...] = ()
    keys: str = ""  # with KEY_END between two of them
    requests: tuple[bytes, ...] = ()

    @property
    def count(self) -> int:
        """The number of jobs: at least one."""
        return len(self.job_ids) // GUID_BYTES


class AccessFact(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Who requested what, for an event about access or an operator's act. Separate, because events
    of jobs have none of it."""

    by: str = ""  # the requesting account, or the client id without authentication
    account: str = ""  # the account or role that was changed
    action: str = ""  # the refused or executed action
    resource: str = ""  # the resource of that action
    address: str = ""  # the address of the requester


def asked_by(by: str) -> AccessFact | None:
    """The AccessFact of an act with only its requester; None without one."""
    return AccessFact(by) if by else None


class Event(msgspec.Struct, frozen=True, gc=False, array_like=True, omit_defaults=True):
    """One fact, or one per job of a run. Only the fields of its kind are set."""

    kind: str
    job_id: JobId = b""
    client_id: ClientId = ""
    queue: str = ""
    exec_name: str = ""
    worker_id: WorkerId = b""
    attempt: int = 0
    fence: int = 0
    priority: int = 0
    delay_ms: int = 0
    lease_ms: int = 0
    status: int = 0
    cause: int = 0
    exit_code: int = 0
    signal: int = 0
    run_ms: int = 0
    peak_bytes: int = 0
    body_bytes: int = 0
    # tasks of an array, slots of a worker, cap of a client, files of a cache, refusals
    count: int = 0
    array_id: JobId = b""
    detail: str = ""  # name, pattern list, error text, who asked
    cache_id: str = ""
    # size of the files of a cache; of the blobs that a new job needs (of an array: each task
    # needs); of the output blobs of a job
    blob_bytes: int = 0
    fetched_bytes: int = 0  # bytes of inputs fetched for the attempt
    held_bytes: int = 0  # bytes of inputs that its worker already had
    job_key: str = ""  # its owner's name for the job
    # of a new job or array: what `kept_of` keeps of its body, without values of variables
    request: bytes = b""
    run: Run | None = None  # if set, `job_id` is empty, and `fence` is that of its first job
    access: AccessFact | None = None  # of requests
    parents: bytes = b""  # of a new job: its parents, as in `base.edges`


def fact_count(events: Iterable[Event]) -> int:
    """The number of facts in these events."""
    return sum([1 if event.run is None else event.run.count for event in events])


def each_of(events: Iterable[Event]) -> Iterator[Event]:
    """The facts of these events; the position of each is its ordinal."""
    for event in events:
        if event.run is None:
            yield event
        else:
            yield from each(event)


def each(event: Event) -> Sequence[Event]:
    """The facts of one event."""
    run = event.run
    if run is None:
        return (event,)
    count = run.count
    if run.fences or not event.fence:
        fences: Iterable[int] = run.fences or repeat(0)
    else:
        fences = range(event.fence, event.fence + count)
    columns = zip(
        ids_of(run.job_ids),
        fences,
        run.run_ms or repeat(event.run_ms, count),
        run.peak_bytes or repeat(event.peak_bytes, count),
        run.fetched_bytes or repeat(event.fetched_bytes, count),
        run.held_bytes or repeat(event.held_bytes, count),
        run.body_bytes or repeat(event.body_bytes, count),
        run.blob_bytes or repeat(event.blob_bytes, count),
        run.keys.split(KEY_END) if run.keys else repeat(event.job_key, count),
        run.requests or repeat(event.request, count),
        strict=False,
    )
    return [
        Event(
            event.kind,
            job_id,
            event.client_id,
            event.queue,
            event.exec_name,
            event.worker_id,
            event.attempt,
            fence,
            event.priority,
            event.delay_ms,
            event.lease_ms,
            event.status,
            event.cause,
            event.exit_code,
            event.signal,
            run_ms,
            peak_bytes,
            body_bytes,
            event.count,
            event.array_id,
            event.detail,
            event.cache_id,
            blob_bytes,
            fetched_bytes,
            held_bytes,
            job_key,
            request,
            None,
            event.access,
            event.parents,
        )
        for (
            job_id,
            fence,
            run_ms,
            peak_bytes,
            fetched_bytes,
            held_bytes,
            body_bytes,
            blob_bytes,
            job_key,
            request,
        ) in columns
    ]
