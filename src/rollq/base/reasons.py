"""Reasons why a job waits, or how it ended: stable codes for programs.

Codes are never removed and never change their meaning. Of several that apply, the first that has to
change is reported.
"""

from __future__ import annotations

import enum


class Reason(enum.StrEnum):
    """The code of an explanation; docs/cli/explain.md has a row for each."""

    # It waits.
    STAGED = "staged"  # accepted with a batch, on its way into its queue
    BLOCKED = "blocked"  # it waits for other jobs to end
    DELAYED = "delayed"  # by its own delay
    RETRYING = "retrying"  # an attempt was lost, and the next one follows after a delay
    PAUSED = "paused"
    CAP = "cap"  # its client has as many jobs in flight as it may
    ARRAY_LIMIT = "array_limit"  # its array has as many tasks running as it may
    LIMIT = "limit"  # a limit of the group is in use up to its maximum
    RATE = "rate"  # a limit of the group has reached its rate
    NO_WORKER = "no_worker"  # no worker serves the queue
    DRAINING = "draining"  # the workers that serve it are drained
    PROGRAM_MISSING = "program_missing"
    # its program is shipped with it, and no worker allows that
    SHIPPING_REFUSED = "shipping_refused"
    LABELS = "labels"  # no worker with its program has the labels that it requires
    RESOURCES = "resources"  # no worker has enough capacity
    RESOURCES_BUSY = "resources_busy"  # some have, but it is in use
    NO_SLOT = "no_slot"
    CPU_CAP = "cpu_cap"
    BEHIND = "behind"  # others are before it
    ASSIGNING = "assigning"
    # It runs.
    RUNNING = "running"
    LEASE = "lease"  # its worker is not connected; its lease still runs
    CANCELLING = "cancelling"
    # It has ended, or an attempt of it has. What a worker lacks is also why a job waits.
    OK = "ok"
    EXIT_CODE = "exit_code"
    SIGNAL = "signal"
    OOM = "oom"
    TIME_LIMIT = "time_limit"
    CPU_LIMIT = "cpu_limit"
    DISK_LIMIT = "disk_limit"
    PROCESS_LIMIT = "process_limit"
    OUTPUT_LIMIT = "output_limit"
    BAD_REQUEST = "bad_request"  # no worker can run the request
    WORKER_LOST = "worker_lost"
    NACK = "nack"  # a worker could not run it, for another reason
    SANDBOX_REFUSED = "sandbox_refused"
    EXEC_DIGEST = "exec_digest"
    SECRET_MISSING = "secret_missing"
    INPUT_MISSING = "input_missing"
    TRANSFER = "transfer"
    DISK_FULL = "disk_full"
    EXPIRED = "expired"
    CANCELLED_BY = "cancelled_by"
    PARENT = "parent"  # a parent ended otherwise than required
    FORGOTTEN = "forgotten"  # its result is not kept any more
    # An array, by its tasks.
    TASKS_FAILED = "tasks_failed"
