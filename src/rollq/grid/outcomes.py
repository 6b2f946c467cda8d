"""Outcomes that several commands share."""

from __future__ import annotations

from typing import Final

from rollq.base.errors import ErrorCode
from rollq.base.limits import STAGED_BATCHES_MAX, STAGED_BYTES_MAX, STAGED_JOBS_MAX
from rollq.grid.effects import Done, Duplicate, Refused

DONE_ONE: Final = Done()
DONE_NONE: Final = Done(0)
DUPLICATE_OPEN: Final = Duplicate()
DUPLICATE_ENDED: Final = Duplicate(ended=True)

UNKNOWN_JOB: Final = Refused(ErrorCode.UNKNOWN_JOB, "no such job")
UNKNOWN_ARRAY: Final = Refused(ErrorCode.UNKNOWN_JOB, "no such array")
STALE_ATTEMPT: Final = Refused(ErrorCode.STALE_ATTEMPT, "not the running attempt")
NOT_QUEUED: Final = Refused(ErrorCode.WRONG_STATE, "the job is not waiting in its queue")
NO_TASK_LEFT: Final = Refused(ErrorCode.WRONG_STATE, "the array has no task to assign")
ARRAY_DELAYED: Final = Refused(ErrorCode.WRONG_STATE, "the array's delay is not over")
OTHER_WORKER: Final = Refused(ErrorCode.WRONG_STATE, "the job names another worker")
UNKNOWN_WORKER: Final = Refused(ErrorCode.UNKNOWN_WORKER, "no such worker session")
WORKER_IS_DRAINED: Final = Refused(ErrorCode.WRONG_STATE, "the worker gets no new jobs")
QUEUE_IS_PAUSED: Final = Refused(ErrorCode.QUEUE_PAUSED, "the queue is paused")
CLIENT_AT_CAP: Final = Refused(ErrorCode.CAP_REACHED, "the client is at its cap")
ARRAY_AT_CAP: Final = Refused(ErrorCode.CAP_REACHED, "the array is at its running_max")
JOBS_FULL: Final = Refused(ErrorCode.GRID_FULL, "too many jobs")
ARRAYS_FULL: Final = Refused(ErrorCode.GRID_FULL, "too many arrays")
QUEUES_FULL: Final = Refused(ErrorCode.GRID_FULL, "too many queues")
CLIENTS_FULL: Final = Refused(ErrorCode.GRID_FULL, "too many clients with jobs")
CACHES_FULL: Final = Refused(ErrorCode.GRID_FULL, "too many caches")
WORKERS_FULL: Final = Refused(ErrorCode.GRID_FULL, "too many workers")
READERS_FULL: Final = Refused(ErrorCode.GRID_FULL, "too many named readers")
ACCOUNTS_FULL: Final = Refused(ErrorCode.GRID_FULL, "too many accounts")
ROLES_FULL: Final = Refused(ErrorCode.GRID_FULL, "too many roles")
POLICIES_FULL: Final = Refused(ErrorCode.GRID_FULL, "too many policies of queues")
LIMITS_FULL: Final = Refused(ErrorCode.GRID_FULL, "too many limits")
WEIGHTS_FULL: Final = Refused(ErrorCode.GRID_FULL, "too many weights of clients")
TOPICS_FULL: Final = Refused(ErrorCode.GRID_FULL, "too many topics")
SCHEDULES_FULL: Final = Refused(ErrorCode.GRID_FULL, "too many schedules")
CURSORS_FULL: Final = Refused(ErrorCode.GRID_FULL, "too many durable subscriptions of the topic")
BATCHES_FULL: Final = Refused(
    ErrorCode.GRID_FULL,
    f"{STAGED_BYTES_MAX >> 20} MiB, {STAGED_JOBS_MAX} jobs or {STAGED_BATCHES_MAX} batches are "
    "staged and not committed (STAGED_BYTES_MAX)",
)
BEING_UNPACKED: Final = Refused(
    ErrorCode.OVERLOADED, "the job was accepted with a batch, and is on its way into its queue"
)
