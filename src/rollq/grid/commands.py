"""The commands of the log.

A command is what the leader proposes to the group. Time, randomness and the leader's decisions are
already in its fields: `apply` reads no clock and draws nothing. One raft entry holds a batch of
commands with the leader's stamp.

Commands are stored for ever (golden logs in tests/replay): a field may be appended with a default
that keeps the old meaning; nothing is removed, reordered or retyped, and a tag is never reused.
"""

from __future__ import annotations

from typing import TypeAlias

from rollq.base.hints import ExecHint
from rollq.base.ids import NIL_ID, ClientId, JobId, WorkerId
from rollq.base.jobs import AttemptRef, BlobRef, BulkItem, CacheEntry, JobOptions
from rollq.base.jobs import Cause as Cause  # noqa: PLC0414 (re-exported: it is stored in commands)
from rollq.base.staged import StagedGroup, StagedPart
from rollq.grid.access_commands import (
    NoteAct,
    NoteRefusals,
    PutAccount,
    PutRole,
    RemoveAccount,
    RemoveRole,
)
from rollq.grid.flow_commands import FlowCommand
from rollq.grid.rule_commands import RuleCommand
from rollq.grid.schedule_commands import ScheduleCommand
from rollq.grid.stored import Stored
from rollq.grid.topic_commands import TopicCommand


class Settings(Stored, frozen=True, gc=False):
    """Cluster-wide settings, replicated."""

    max_attempts: int = 5
    lease_ms: int = 30_000
    worker_grace_ms: int = 10_000  # how long a disconnected worker may take to come back
    retry_base_ms: int = 500
    retry_max_ms: int = 60_000
    result_ttl_ms: int = 24 * 3_600_000
    dead_ttl_ms: int = 7 * 24 * 3_600_000
    results_kept_max: int = 100_000  # confirmed results; unconfirmed ones live until their TTL
    client_cap: int = 0  # for clients that declare no cap; 0: no cap
    use_hints: bool = True


class LostAttempt(Stored, frozen=True, gc=False):
    """A lost attempt, and the delay of its job before the next."""

    job_id: JobId
    attempt: int
    delay_ms: int = 0
    not_started: bool = False  # it was never sent to its worker: does not count for max_attempts


class SubmitJob(Stored, frozen=True, gc=False, tag=1):
    """Accept one job. Idempotent by job_id. `blobs` and `caches` are needed to run it, `key` is its
    owner's name for it."""

    job_id: JobId
    client_id: ClientId
    queue: str
    exec_name: str
    body: bytes
    options: JobOptions | None = None
    blobs: tuple[BlobRef, ...] = ()
    caches: tuple[str, ...] = ()
    key: str = ""


class SubmitBulk(Stored, frozen=True, tag=2):
    """Accept many jobs, all or none. `batch_key` (if any) makes the whole call idempotent; without
    it each item is idempotent by its job_id. Every item needs `caches`."""

    client_id: ClientId
    queue: str
    exec_name: str
    items: tuple[BulkItem, ...]
    options: JobOptions | None = None
    batch_key: str = ""
    caches: tuple[str, ...] = ()


class SubmitArray(Stored, frozen=True, gc=False, tag=3):
    """Accept `task_count` tasks that share one body; a task becomes a record when assigned.
    Task n has the id `task_id(array_id, first_task + n)`. At most `running_max` run at once (0: no
    limit)."""

    array_id: JobId
    client_id: ClientId
    queue: str
    exec_name: str
    body: bytes
    task_count: int
    options: JobOptions | None = None
    running_max: int = 0
    blobs: tuple[BlobRef, ...] = ()
    caches: tuple[str, ...] = ()
    # version 5; 1: no task has the id of its array; 0: task 0 has it, as the client expects
    first_task: int = 0


class AssignJob(Stored, frozen=True, gc=False, tag=4):
    """Assign a queued job to a worker session. `attempt` is the number of the new attempt."""

    job_id: JobId
    worker_id: WorkerId
    incarnation: int
    attempt: int
    lease_ms: int


class AssignTask(Stored, frozen=True, gc=False, tag=5):
    """Assign the next task of an array to a worker session."""

    array_id: JobId
    worker_id: WorkerId
    incarnation: int
    lease_ms: int


class AckJob(Stored, frozen=True, gc=False, tag=6):
    """An attempt ended with this result. `retry_delay_ms` is used if the job's retry rule names the
    exit code and attempts are left."""

    job_id: JobId
    attempt: int
    fence: int
    status: int  # base.jobs.Status
    result: bytes = b""
    exit_code: int = 0
    signal: int = 0
    run_ms: int = 0
    peak_bytes: int = 0
    retry_delay_ms: int = 0
    detail: str = ""  # for people: the tail of its output; kept with a lost attempt
    blobs: tuple[BlobRef, ...] = ()  # outputs, and all of stdout and stderr
    fetched_bytes: int = 0  # bytes of inputs fetched for this attempt
    held_bytes: int = 0  # bytes of inputs that the worker already had


class NackJob(Stored, frozen=True, gc=False, tag=7):
    """The worker could not run it (no such executable, no room, draining). With `not_started` the
    program did not start, and the attempt does not count for max_attempts."""

    job_id: JobId
    attempt: int
    fence: int
    detail: str = ""
    delay_ms: int = 0
    not_started: bool = False


class ExpireLeases(Stored, frozen=True, tag=8):
    """The leases of these attempts ran out."""

    lost: tuple[LostAttempt, ...]


class ReleaseJobs(Stored, frozen=True, tag=9):
    """The delay of these jobs is over; `attempt` identifies the delay."""

    jobs: tuple[LostAttempt, ...]


class ExpireJobs(Stored, frozen=True, tag=10):
    """These jobs waited longer than their `expire_ms`."""

    job_ids: tuple[JobId, ...]


class CancelJobs(Stored, frozen=True, tag=11):
    """Cancel jobs, tasks or whole arrays. A running one is cancelled when its worker confirms it or
    is lost."""

    job_ids: tuple[JobId, ...]
    by: str = ""


class RedriveItem(Stored, frozen=True, gc=False):
    """A dead job to run again, with another body if `body` is not None, in another queue if
    `queue` is not empty."""

    job_id: JobId
    body: bytes | None = None
    queue: str = ""  # version 9


class RedriveJobs(Stored, frozen=True, tag=12):
    """Requeue dead jobs with attempts counted anew, all or none."""

    items: tuple[RedriveItem, ...]
    by: str = ""


class PurgeJobs(Stored, frozen=True, tag=13):
    """Delete dead jobs."""

    job_ids: tuple[JobId, ...]
    by: str = ""


class ConfirmResults(Stored, frozen=True, tag=14):
    """The client has these results: they are no longer owed (but kept for their TTL)."""

    client_id: ClientId
    job_ids: tuple[JobId, ...]


class ForgetJobs(Stored, frozen=True, tag=15):
    """The TTL of these ended jobs is over: record, result and dedup go together."""

    job_ids: tuple[JobId, ...]


class OpenClient(Stored, frozen=True, gc=False, tag=16):
    """A client declared its cap on jobs in flight (0: the cluster's setting)."""

    client_id: ClientId
    cap: int = 0


class OpenWorker(Stored, frozen=True, tag=17):
    """A worker session was opened.

    Announced attempts that are still valid are adopted, invalid ones are cancelled. Attempts of the
    same incarnation that it did not announce are sent again; those of an earlier incarnation are
    lost and their jobs wait `lost_delay_ms`.
    """

    worker_id: WorkerId
    incarnation: int
    name: str
    patterns: tuple[str, ...]
    slots: int
    running: tuple[AttemptRef, ...] = ()
    lost_delay_ms: int = 0
    labels: tuple[str, ...] = ()  # version 10
    resources: tuple[tuple[str, int], ...] = ()  # version 10; its capacity, as `JobOptions` has it


class CloseWorker(Stored, frozen=True, tag=18):
    """A worker left, or did not come back within its grace: its attempts are lost."""

    worker_id: WorkerId
    incarnation: int
    lost: tuple[LostAttempt, ...] = ()


class PauseQueue(Stored, frozen=True, gc=False, tag=19):
    """Stop assignments from this queue."""

    queue: str
    by: str = ""


class ResumeQueue(Stored, frozen=True, gc=False, tag=20):
    """Resume assignments from this queue."""

    queue: str
    by: str = ""


class SetSettings(Stored, frozen=True, tag=21):
    """Replace the cluster settings."""

    settings: Settings
    by: str = ""


class PutCache(Stored, frozen=True, tag=22):
    """Store these files under a name that jobs may refer to. Idempotent by content: the same files
    may add another target, other files under the same name are refused."""

    cache_id: str
    entries: tuple[CacheEntry, ...]
    target_pattern: str
    by: str = ""


class RemoveCache(Stored, frozen=True, gc=False, tag=23):
    """No new job may refer to this cache; it is deleted when the last job that needs it has
    ended."""

    cache_id: str
    by: str = ""


class StageJobs(Stored, frozen=True, tag=24):
    """Store jobs of a part of a batch, invisible until the batch is committed or dropped.
    Idempotent: message `number` of a part is accepted once; messages for a committed batch are
    duplicates. A part that is staged anew needs a new name."""

    client_id: ClientId
    batch_key: str
    part: str
    number: int  # 0, 1, 2, … within the part
    groups: tuple[StagedGroup, ...]
    jobs_max: int = 0  # bound for all parts of the batch; 0: from an older leader, no bound


class CommitBatch(Stored, frozen=True, tag=25):
    """Accept every job of these parts, all or none, and drop the other parts of the batch.
    Idempotent by client and key, whatever parts a repetition names."""

    client_id: ClientId
    batch_key: str
    parts: tuple[StagedPart, ...]


class BatchName(Stored, frozen=True, gc=False):
    """The name of a batch."""

    client_id: ClientId
    batch_key: str


class DropBatches(Stored, frozen=True, tag=26):
    """Delete the staged jobs of batches that are not committed."""

    batches: tuple[BatchName, ...]
    by: str = ""


class UnpackBatch(Stored, frozen=True, gc=False, tag=27):
    """Put the jobs of the next message of a committed batch into their queues; `position` is how
    many messages have been unpacked before."""

    client_id: ClientId
    batch_key: str
    position: int


class HoldHistory(Stored, frozen=True, gc=False, tag=28):
    """A named reader has read the history before this index: history from there on is retained
    until the reader advances, is freed, or is silent for too long."""

    name: str
    index: int
    by: str = ""


class FreeHistory(Stored, frozen=True, gc=False, tag=29):
    """Stop retaining history for this reader; with `stamp_ms`, only if it was silent since."""

    name: str
    stamp_ms: int = 0
    by: str = ""


class SetHints(Stored, frozen=True, tag=30):
    """Replace the run time hints of programs."""

    hints: tuple[ExecHint, ...]
    by: str = ""


class AdvanceTime(Stored, frozen=True, gc=False, tag=31):
    """Move the group's time forward to the clocks of its members. The leap does not count for any
    duration."""

    to_ms: int


# --- runs (version 6): jobs that share what is not in a column. A lone job is a run of one; leaders
# write these in place of SubmitJob, AssignJob, AssignTask, AckJob and ConfirmResults.


class SubmitRun(Stored, frozen=True, gc=False, tag=32):
    """Accept these jobs, each on its own and idempotent by its id."""

    client_id: ClientId
    queue: str
    exec_name: str
    job_ids: bytes  # one behind another
    bodies: tuple[bytes, ...]
    options: JobOptions | None = None
    caches: tuple[str, ...] = ()
    keys: str = ""  # with KEY_END between two of them; empty: no job has one
    blobs: tuple[tuple[BlobRef, ...], ...] = ()  # of each job; empty: no job needs any


class AssignRun(Stored, frozen=True, gc=False, tag=33):
    """Assign queued jobs, of any clients, to a worker session, each as attempt `attempt`."""

    worker_id: WorkerId
    incarnation: int
    attempt: int
    lease_ms: int
    job_ids: bytes


class AssignTasks(Stored, frozen=True, gc=False, tag=34):
    """Assign the next `count` tasks of an array to a worker session."""

    array_id: JobId
    worker_id: WorkerId
    incarnation: int
    lease_ms: int
    count: int


class AckRun(Stored, frozen=True, gc=False, tag=35):
    """Attempts, of any workers, ended in the same way with these results."""

    attempt: int
    status: int  # base.jobs.Status
    job_ids: bytes
    fences: tuple[int, ...]
    results: tuple[bytes, ...]
    exit_code: int = 0
    signal: int = 0
    retry_delay_ms: int = 0
    detail: str = ""
    # Columns, one value per job; empty: the default for every job.
    run_ms: tuple[int, ...] = ()
    peak_bytes: tuple[int, ...] = ()
    fetched_bytes: tuple[int, ...] = ()
    held_bytes: tuple[int, ...] = ()
    blobs: tuple[tuple[BlobRef, ...], ...] = ()


class ConfirmRun(Stored, frozen=True, gc=False, tag=36):
    """The client has these results: they are no longer owed (but kept for their TTL)."""

    client_id: ClientId
    job_ids: bytes


class DrainWorkers(Stored, frozen=True, gc=False, tag=43):
    """Stop assigning jobs to these workers (version 9); with `undo`, resume. All or none."""

    worker_ids: tuple[WorkerId, ...]
    undo: bool = False
    by: str = ""


Command: TypeAlias = (
    SubmitJob
    | SubmitBulk
    | SubmitArray
    | AssignJob
    | AssignTask
    | AckJob
    | NackJob
    | ExpireLeases
    | ReleaseJobs
    | ExpireJobs
    | CancelJobs
    | RedriveJobs
    | PurgeJobs
    | ConfirmResults
    | ForgetJobs
    | OpenClient
    | OpenWorker
    | CloseWorker
    | PauseQueue
    | ResumeQueue
    | SetSettings
    | PutCache
    | RemoveCache
    | StageJobs
    | CommitBatch
    | DropBatches
    | UnpackBatch
    | HoldHistory
    | FreeHistory
    | SetHints
    | AdvanceTime
    | SubmitRun
    | AssignRun
    | AssignTasks
    | AckRun
    | ConfirmRun
    | PutAccount
    | RemoveAccount
    | PutRole
    | RemoveRole
    | NoteRefusals
    | NoteAct
    | DrainWorkers
    | RuleCommand
    | TopicCommand
    | FlowCommand
    | ScheduleCommand
)


class CommandBatch(Stored, frozen=True):
    """The content of one raft entry: the group's time and the commands of one turn. Before version
    5 it was the leader's wall clock, which could go back."""

    stamp_ms: int
    commands: tuple[Command, ...]


NOBODY: WorkerId = NIL_ID
