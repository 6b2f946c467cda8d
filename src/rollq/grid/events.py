"""Facts: what became true by applying a command.

One flat row a fact, because the same rows feed the page, the metrics, `watch`, the audit and
Spark. A row's place is (group, log index, ordinal); those are added by whoever writes it down.
Names are past in code (`JOB_ENQUEUED`) and the legacy words in the history (`enqueue`).
A fact about an array as a whole, or about tasks of it that were never assigned, has no `job_id`
(of older arrays it is that of task 0), only `array_id` and the `count` of tasks; one about a task
has both.
Fields may be appended with a default; none is removed.
"""

from __future__ import annotations

from typing import Final

import msgspec

from rollq.base.ids import ClientId, JobId, WorkerId

JOB_ENQUEUED: Final = "enqueue"  # accepted, and ready to be assigned
JOB_DELAYED: Final = "delay"  # accepted, but not before `delay_ms`
JOB_RELEASED: Final = "release"  # its delay is over
JOB_ASSIGNED: Final = "assign"
JOB_ACKED: Final = "ack"  # ended with a result (status, exit_code)
JOB_TIMED_OUT: Final = "timeout_requeue"  # lease lost; goes back after `delay_ms`
JOB_WORKER_LOST: Final = "worker_down_requeue"
JOB_NACKED: Final = "nack_requeue"
JOB_RETRIED: Final = "retry_requeue"  # by the job's own retry rule
JOB_DEAD: Final = "dlq"
JOB_EXPIRED: Final = "expire"  # waited too long; dead
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
ATTEMPT_ADOPTED: Final = "adopt"  # a running attempt was re-announced to a new leader
QUEUE_PAUSED: Final = "queue_pause"
QUEUE_RESUMED: Final = "queue_resume"
SETTINGS_CHANGED: Final = "settings"
CACHE_PUT: Final = "cache_put"
CACHE_REMOVED: Final = "cache_remove"
BATCH_COMMITTED: Final = "batch_commit"  # `count` staged jobs were accepted; they follow
BATCH_DROPPED: Final = "batch_drop"
HINTS_CHANGED: Final = "hints"

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
)


class Event(msgspec.Struct, frozen=True, gc=False, array_like=True, omit_defaults=True):
    """One fact. Only the fields that mean something for its kind are set."""

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
    count: int = 0  # tasks of an array, slots of a worker, cap of a client, files of a cache
    array_id: JobId = b""
    detail: str = ""  # name, pattern list, error text, who asked
    cache_id: str = ""
    # of the files of a cache; of the blobs that a new job needs (of an array: each task); of the
    # blobs that a job left
    blob_bytes: int = 0
    fetched_bytes: int = 0  # of the inputs of an attempt: brought to its worker for it
    held_bytes: int = 0  # of the inputs of an attempt: its worker had them
    job_key: str = ""  # what its owner calls the job
    # of a new job or array: what `kept_of` keeps of its body, which never has values of variables
    request: bytes = b""
