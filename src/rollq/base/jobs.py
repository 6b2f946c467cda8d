"""Values that mean the same on the wire, in the log and at the worker.

They are part of three formats at once, so the law of all three holds: a field may be appended
with a default that keeps the old meaning; nothing is removed, reordered or retyped.
"""

from __future__ import annotations

import enum

import msgspec

from rollq.base.digests import Digest
from rollq.base.ids import JobId


class Status(enum.IntEnum):
    """How an execution ended, as its worker reports it."""

    OK = 0
    FAILED = 1  # the program's own failure: a result, not retried unless the job's rule says so
    CANCELLED = 2  # the worker ended it because it was told to


class Cause(enum.IntEnum):
    """Why an attempt came to nothing, or why a job is dead."""

    NONE = 0
    LEASE_LOST = 1
    WORKER_DOWN = 2
    NACKED = 3
    EXIT_CODE = 4  # the retry rule named the exit code, and attempts ran out
    EXPIRED = 5  # waited longer than it may
    WORKER_RESTARTED = 6
    ID_TAKEN = 7  # a task of an array whose id an older job has
    PARENT = 8  # a job that it waited for ended otherwise than it had to


class JobSecret(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A secret that a job is given, by reference: its worker finds the value in its vault."""

    variable: str  # of the environment
    name: str  # in the vault
    as_file: bool = False  # the variable has the path of a file with the value


class Condition(enum.IntEnum):
    """How a job has to end for another one that waits for it."""

    OK = 0
    ENDED = 1  # in whichever way
    FAILED = 2  # its program failed, or it is dead; not: it was cancelled
    RESULT = 3  # as OK; and its result is sent to the worker that runs the other one


class ParentRef(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A job or array that another job waits for."""

    job_id: JobId
    condition: int = 0  # Condition


class JobOptions(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What a job may ask for beyond the defaults. 0 means: the cluster's setting."""

    priority: int = 0  # 0 … PRIORITY_MAX, higher first
    delay_ms: int = 0  # not before this long after acceptance
    max_attempts: int = 0
    lease_ms: int = 0
    run_ms_soft: int = 0
    run_ms_max: int = 0
    expire_ms: int = 0  # dead if still waiting after this long
    result_ttl_ms: int = 0
    retry_base_ms: int = 0
    retry_exit_codes: tuple[int, ...] = ()
    worker_name: str = ""  # only this worker may run it
    ships_exec: bool = False  # the program is one of its files; a worker must allow that
    secrets: tuple[JobSecret, ...] = ()  # references; a value is never here
    # What its worker must have (`base.needs`), by name, in thousandths; memory in those of a byte.
    resources: tuple[tuple[str, int], ...] = ()
    labels: tuple[str, ...] = ()  # zone=a, zone!=a, gpu, !spot
    limits: tuple[tuple[str, int], ...] = ()  # by key: tokens that it holds while it runs
    sticky_key: str = ""  # jobs of one key go to one worker, where a queue is sticky
    # What it waits for before it enters its queue. In the state this stands apart (`grid.edges`).
    after: tuple[ParentRef, ...] = ()


DEFAULT_OPTIONS = JobOptions()


class AttemptRef(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One attempt of one job, as a worker announces it."""

    job_id: JobId
    attempt: int
    fence: int


class BlobRef(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """Content that is kept elsewhere: its address and its length."""

    digest: Digest
    size: int


class ParentResult(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What a parent left, for the worker of a child that uses it."""

    job_id: JobId
    result: bytes  # as the parent's worker told it
    blobs: tuple[BlobRef, ...] = ()  # that the result refers to


class ParentEnd(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """How a parent stands, for the worker of a child whose condition leaves that open."""

    job_id: JobId
    state: str  # in a word for people (`base.outcomes`)
    exec_name: str = ""
    queue: str = ""
    key: str = ""
    exit_code: int = 0
    signal: int = 0
    run_ms: int = 0
    attempts: int = 0
    cause: int = 0  # Cause
    ended_ms: int = 0  # by the group's time; 0: it has not ended, or is forgotten
    tasks: tuple[int, ...] = ()  # of an array: how many are ok, failed, dead, cancelled


class CacheEntry(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One file of a cache: where it goes below the job's folder, what it holds, its mode bits."""

    name: str
    blob: BlobRef
    mode: int = 0o644


class BulkItem(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """One job of a bulk submit."""

    job_id: JobId
    body: bytes
    blobs: tuple[BlobRef, ...] = ()
    key: str = ""
