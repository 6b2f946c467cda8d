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


class JobSecret(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A secret that a job is given, by reference: its worker finds the value in its vault."""

    variable: str  # of the environment
    name: str  # in the vault
    as_file: bool = False  # the variable has the path of a file with the value


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
