"""The records of the grid: the replicated state, as plain data.

Persisted fields come first, derived ones below; `snapshot` writes the former and rebuilds the
latter. No logic here: records change only in `moves` and in the handlers of `apply`.

A waiting job must stay small (JOBS_MAX of them): what only some jobs need is in `end`, `past` or
`array`, and names, options and owner are shared objects. Records never point back at a `JobRecord`,
so there are no cycles and the garbage collector may skip them.
"""

from __future__ import annotations

import enum
from collections import OrderedDict, deque
from typing import Final, TypeAlias

import msgspec

from rollq.base.access_table import AccessTable
from rollq.base.digests import Digest
from rollq.base.hints import ExecHint
from rollq.base.ids import GUID_BYTES, ClientId, JobId, WorkerId, task_id, task_number
from rollq.base.jobs import BlobRef, CacheEntry, JobOptions
from rollq.grid.bodies import Bodies, MemoryBodies, Token
from rollq.grid.bounds import BOUNDS
from rollq.grid.commands import NOBODY, Settings
from rollq.grid.edge_records import EdgeTable
from rollq.grid.job_index import JobIndex
from rollq.grid.key_index import KeyIndex
from rollq.grid.schedule_records import ScheduleTable
from rollq.grid.seq_index import SeqIndex
from rollq.grid.topic_records import TopicTable


class JobState(enum.IntEnum):
    """The state of a job. DONE, DEAD and CANCELLED are terminal; only DEAD can be left (redrive).
    BLOCKED comes before QUEUED: it waits for other jobs to end."""

    QUEUED = 0
    DELAYED = 1
    ASSIGNED = 2
    DONE = 3
    DEAD = 4
    CANCELLED = 5
    BLOCKED = 6


# Module constants, because an attribute of an enum class costs a slow lookup on the hot path.
QUEUED: Final = JobState.QUEUED
DELAYED: Final = JobState.DELAYED
ASSIGNED: Final = JobState.ASSIGNED
DONE: Final = JobState.DONE
DEAD: Final = JobState.DEAD
CANCELLED: Final = JobState.CANCELLED
BLOCKED: Final = JobState.BLOCKED

ENDED_STATES: Final = (DONE, DEAD, CANCELLED)
PREFIX_BYTES: Final = 12  # the common prefix of the task ids of an array
HASH_BYTES: Final = 16
TASKS_PER_CHUNK: Final = 16_384  # two bits a task: 4 KiB


class AttemptOutcome(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The outcome of an attempt that gave no result."""

    attempt: int
    worker_id: WorkerId
    cause: int  # Cause
    exit_code: int
    detail: str
    stamp_ms: int


class EndRecord(msgspec.Struct, array_like=True, gc=False):
    """How a job ended; exists exactly while the job is DONE, DEAD or CANCELLED (a redrive takes it
    away again)."""

    seq: int  # order of ends, grid-wide
    status: int  # Status
    result: bytes
    exit_code: int = 0
    signal: int = 0
    run_ms: int = 0
    peak_bytes: int = 0
    cause: int = 0  # Cause
    detail: str = ""
    confirmed_seq: int = 0  # order of confirmations; 0: still owed to the client
    body_crc: int = -1  # of the body as submitted, if `JobRecord.body` was dropped
    blobs: tuple[BlobRef, ...] = ()  # what the attempt left


class PastRecord(msgspec.Struct, array_like=True, gc=False):
    """What only some jobs have: lost attempts, redrives, and files that they need. Separate,
    because most jobs have none of it, and a million may wait."""

    attempts: tuple[AttemptOutcome, ...] = ()
    starts_base: int = 0  # attempts before the last redrive: not counted against max_attempts
    body_crc: int = -1  # of the body as submitted, if a redrive replaced it
    blobs: tuple[BlobRef, ...] = ()  # dropped with the body
    caches: tuple[str, ...] = ()  # dropped with the body
    # Attempts since `starts_base` that did not start: not counted either.
    not_started: int = 0


class ClientRecord(msgspec.Struct, eq=False):
    """A client. Exists while it has jobs; an idle one until it is evicted."""

    client_id: ClientId
    cap: int = 0  # 0: the cluster's setting
    idle_seq: int = 0  # sequence number of when it became idle; 0: it has jobs
    # derived
    in_flight: int = 0  # its jobs in ASSIGNED
    record_count: int = 0  # its jobs and arrays of any state
    # Ended, unconfirmed; by end seq. For the tasks of a cut, the first stands for all.
    owed: SeqIndex[JobId] = msgspec.field(default_factory=SeqIndex)


class QueueRecord(msgspec.Struct, eq=False):
    """A named queue of jobs. Exists while it has jobs or is paused."""

    name: str
    paused: bool = False
    # derived
    counts: list[int] = msgspec.field(default_factory=lambda: [0] * len(JobState))
    tasks_waiting: int = 0  # tasks of arrays that are not records yet
    failed: int = 0  # its jobs in DONE whose program failed

    @property
    def is_empty(self) -> bool:
        """Whether nothing refers to this queue."""
        return not self.tasks_waiting and not any(self.counts)


class WorkerRecord(msgspec.Struct, eq=False):
    """A worker that is connected, or disconnected for less than its grace. Removed when it is
    closed."""

    worker_id: WorkerId
    incarnation: int
    name: str
    patterns: tuple[str, ...]
    slots: int
    labels: tuple[str, ...] = ()
    resources: tuple[tuple[str, int], ...] = ()  # its capacity, as `JobOptions` has it
    # derived: the ids of its jobs in ASSIGNED, in the order of their fences
    held: dict[JobId, None] = msgspec.field(default_factory=dict)


class DrainMark(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A drained worker, which gets no new jobs. Separate from its record, which is removed when the
    worker is away for too long or restarts: it stays drained until an operator undoes it."""

    name: str  # name of the worker when it was drained
    stamp_ms: int
    by: str = ""


class QueuePolicy(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The placement of the queues of a pattern."""

    pattern: str
    placement: str  # base.needs.PLACEMENTS
    weights: tuple[tuple[str, int], ...] = ()  # of a score, by name


class LimitRecord(msgspec.Struct, eq=False, gc=False):
    """A bound on running attempts and on the rate of starts (`limits`)."""

    scope: str  # base.needs.SCOPES
    name: str
    running_max: int = 0  # tokens; 0: any number
    rate: int = 0  # starts a day, of a key tokens; 0: any number
    burst: int = 0
    due_us: int = 0  # the virtual clock of the rate
    # derived
    running: int = 0  # tokens of attempts that run


class ArrayRecord(msgspec.Struct, eq=False):
    """Many tasks with one body. A task becomes a `JobRecord` when it is assigned."""

    array_id: JobId
    client: ClientRecord
    queue: str
    exec_name: str
    body: bytes
    options: JobOptions
    task_count: int
    running_max: int
    seq: int
    stamp_ms: int  # of the last change: accepted, released, ended
    delayed: bool = False
    next_number: int = 0  # the first task that is not assigned yet
    cut_at: int = 0  # tasks from here on ended unassigned, all as `cut_as`
    cut_as: JobState = CANCELLED
    cut_by: str = ""  # who cancelled them
    cut_seq: int = 0  # seq of the cut in the order of ends, while it is owed to the client
    forget_asked: bool = False  # its TTL is over; removed with its last task record
    chunks: dict[int, bytearray] = msgspec.field(default_factory=dict)  # ends, two bits per task
    ended_counts: list[int] = msgspec.field(default_factory=lambda: [0] * len(JobState))
    blobs: tuple[BlobRef, ...] = ()  # what every task needs
    caches: tuple[str, ...] = ()
    first_task: int = 0  # offset of the id of task 0 from the array's: 0 or 1
    failed: int = 0  # its tasks in DONE whose program failed, also those forgotten since
    # derived
    running: int = 0  # its tasks in ASSIGNED
    record_count: int = 0  # its tasks that are records
    open_tasks: dict[JobId, None] = msgspec.field(default_factory=dict)  # those not ended; by seq

    def id_of(self, number: int) -> JobId:
        """The id of a task."""
        return task_id(self.array_id, self.first_task + number)

    def number_of(self, job_id: JobId) -> int:
        """The number of the task with this id; at least `task_count` if it is not a task of the
        array."""
        return task_number(self.array_id, job_id, self.first_task)

    @property
    def first_cut_id(self) -> JobId:
        """The id of the first task of the cut, which no job has."""
        return self.id_of(self.cut_at)

    @property
    def tasks_waiting(self) -> int:
        """The number of tasks that were never assigned."""
        return self.cut_at - self.next_number

    @property
    def is_ended(self) -> bool:
        """Whether every task has ended."""
        return sum(self.ended_counts) == self.task_count

    @property
    def needs_files(self) -> bool:
        """Whether a task may still run: it has not ended, or is dead and may be redriven."""
        return not self.is_ended or self.ended_counts[DEAD] > 0


class JobRecord(msgspec.Struct, gc=False, eq=False):
    """One job, or one task of an array that was assigned at least once."""

    job_id: JobId
    client: ClientRecord
    queue: str
    exec_name: str
    body: Token  # in DONE and CANCELLED reduced by `kept_of`; DEAD keeps it for a redrive
    options: JobOptions
    state: JobState
    seq: int  # order among waiting jobs; kept when requeued, new at a redrive
    stamp_ms: int  # of the last change of `state`
    attempt: int = 0  # starts so far, and the number of the last one
    delay_ms: int = 0  # while DELAYED
    worker_id: WorkerId = NOBODY  # while ASSIGNED, and of the result afterwards
    fence: int = 0  # of the attempt that runs or gave the result; 0: none
    lease_ms: int = 0
    cancel_requested: bool = False
    end: EndRecord | None = None
    past: PastRecord | None = None
    array: ArrayRecord | None = None
    key: str = ""  # its owner's name for it


BatchKey: TypeAlias = tuple[ClientId, str]  # owner and key


class BatchRecord(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A bulk submit that was accepted under a key."""

    fingerprint: bytes
    count: int


class StagedChunk(msgspec.Struct, eq=False, frozen=True):
    """One message of a part: the ids of its jobs, and the packed rest, in pieces."""

    job_ids: bytes  # one behind another
    crc: int
    pieces: tuple[Token, ...]
    # of all its jobs, referenced until they are unpacked or dropped
    blobs: tuple[BlobRef, ...] = ()
    caches: tuple[str, ...] = ()  # the same
    redrives: bool = False  # dead jobs to redrive, in place of new ones
    # Parents of its jobs that do not precede them in it; concatenated ids, each once.
    parents: bytes = b""

    @property
    def count(self) -> int:
        """The number of its jobs."""
        return len(self.job_ids) // GUID_BYTES


class StagedBatch(msgspec.Struct, eq=False):
    """The staged jobs of a key that is neither committed nor dropped."""

    client_id: ClientId
    batch_key: str
    stamp_ms: int  # of the last message
    parts: dict[str, dict[int, StagedChunk]]  # by the numbers of their messages
    count: int  # derived: jobs of all parts


class CommittedBatch(msgspec.Struct, eq=False):
    """An accepted batch that is not completely unpacked."""

    client: ClientRecord
    batch_key: str
    chunks: deque[StagedChunk]  # still to be unpacked
    known: dict[JobId, None]  # its jobs that existed before
    stamp_ms: int  # of its commit
    position: int = 0  # messages unpacked so far
    left: int = 0  # derived: jobs of `chunks`


class CacheRecord(msgspec.Struct, eq=False):
    """A named set of files. Exists until it is removed and no job needs it."""

    cache_id: str
    entries: tuple[CacheEntry, ...]  # by name
    targets: tuple[str, ...]  # patterns of the workers that should hold it, as requested
    stamp_ms: int
    removed: bool = False  # new jobs cannot refer to it
    # derived
    user_count: int = 0  # jobs and arrays that need it


class CacheHolder(msgspec.Struct, frozen=True, gc=False):
    """A cache, as a holder of blobs."""

    cache_id: str


# The holder of a blob: a client by its jobs, results and batches, or a cache.
Holder: TypeAlias = ClientId | CacheHolder


class BlobCount(msgspec.Struct, gc=False):
    """The references to a blob by holder; dropped with the last one."""

    size: int
    count: int = 0
    holder: Holder = ""
    # References by holder, if there are several holders: rare, and there may be a million blobs.
    holders: dict[Holder, int] | None = None


class ReaderRecord(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A named reader of the history."""

    index: int  # the first index that it has not read
    stamp_ms: int  # when it last reported


class Leap(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The group's time jumped from `at_ms` to `at_ms + leap_ms`."""

    at_ms: int
    leap_ms: int


class GridState:
    """The replicated state. Created empty, changed by `apply_entry` only, restored by
    `decode_snapshot`."""

    __slots__ = (
        "access",
        "applied_index",
        "array_ids",
        "arrays",
        "batch_names",
        "batches",
        "blob_news",
        "blobs",
        "bodies",
        "bounds",
        "caches",
        "client_ids",
        "clients",
        "committed",
        "confirmed",
        "cut_counts",
        "dead",
        "drained",
        "edges",
        "hints",
        "idle_clients",
        "job_index",
        "jobs",
        "last_fence",
        "last_seq",
        "leaps",
        "limits",
        "log_hash",
        "options_seen",
        "policies",
        "queues",
        "readers",
        "reserved",
        "schedules",
        "settings",
        "staged",
        "staged_bytes",
        "staged_count",
        "state_hash",
        "time_ms",
        "topics",
        "weights",
        "worker_ids",
        "workers",
    )

    def __init__(self, bodies: Bodies | None = None) -> None:
        self.bodies: Bodies = MemoryBodies() if bodies is None else bodies
        self.bounds = BOUNDS
        self.applied_index: int = 0  # index of the last applied entry; the next one must follow it
        self.log_hash: bytes = bytes(HASH_BYTES)  # hash of all applied entries
        # Hash of the changes of every entry since version 5; equal on members that applied the
        # same.
        self.state_hash: bytes = bytes(HASH_BYTES)
        self.time_ms: int = 0  # the group's time at the last entry; monotonic
        self.leaps: list[Leap] = []  # of `time_ms`, oldest first; LEAPS_KEPT_MAX of them
        # One counter for every order in the grid (jobs, ends, confirmations, idle clients): numbers
        # are unique across them.
        self.last_seq: int = 0
        # The last fence of attempts, grid-wide and never reused: a lower one for the same job is
        # stale.
        self.last_fence: int = 0
        self.settings = Settings()
        # Every job from its submit until it is forgotten or purged, tasks from their first start;
        # `bounds.jobs` of them.
        self.jobs: dict[JobId, JobRecord] = {}
        self.arrays: dict[bytes, ArrayRecord] = {}  # by the first PREFIX_BYTES of their ids
        self.clients: dict[ClientId, ClientRecord] = {}
        self.queues: dict[str, QueueRecord] = {}
        self.workers: dict[WorkerId, WorkerRecord] = {}
        # Drained workers, in the order of their drains; `bounds.workers` of them.
        self.drained: dict[WorkerId, DrainMark] = {}
        # Set by operators: by pattern, by scope and name, by client. Weights of 1 are not stored.
        self.policies: dict[str, QueuePolicy] = {}
        self.limits: dict[tuple[str, str], LimitRecord] = {}
        self.weights: dict[ClientId, int] = {}
        # Bulks accepted under a key, oldest first; `bounds.batches_kept` of them. After a key is
        # forgotten, a repeat is recognised by the ids of its jobs, while those exist.
        self.batches: OrderedDict[BatchKey, BatchRecord] = OrderedDict()
        self.caches: dict[str, CacheRecord] = {}
        # by client and key, least recently extended first
        self.staged: OrderedDict[BatchKey, StagedBatch] = OrderedDict()
        self.committed: dict[BatchKey, CommittedBatch] = {}  # in the order of commits
        # by name, least recently reported first
        self.readers: OrderedDict[str, ReaderRecord] = OrderedDict()
        self.hints: dict[str, ExecHint] = {}  # by exec_name
        self.access = AccessTable()
        self.topics = TopicTable()
        self.edges = EdgeTable()
        self.schedules = ScheduleTable()
        # Derived: not in a snapshot, rebuilt by `derive`, recounted by `invariants`.
        self.job_index = JobIndex()  # `jobs` by seq, filed at the end of each entry
        # For lists: sorted ids.
        self.array_ids: KeyIndex[JobId] = KeyIndex()
        self.batch_names: KeyIndex[BatchKey] = KeyIndex()
        self.client_ids: KeyIndex[ClientId] = KeyIndex()
        self.worker_ids: KeyIndex[WorkerId] = KeyIndex()
        # By queue: ends of unassigned tasks of existing arrays. Separate from `queues`, because
        # they do not keep a queue alive.
        self.cut_counts: dict[str, list[int]] = {}
        self.staged_bytes: int = 0  # of `staged` and `committed`
        self.staged_count: int = 0  # jobs in them
        # Jobs that are accepted by a commit and not unpacked yet. Disjoint from `jobs`.
        self.reserved: dict[JobId, None] = {}
        self.blobs: dict[Digest, BlobCount] = {}  # references of jobs, results and caches
        # Blobs that became referenced (True) or unreferenced, for a shell that stores the content
        # and clears this list. None: not recorded.
        self.blob_news: list[tuple[Digest, bool]] | None = None
        self.dead: SeqIndex[JobId] = SeqIndex()  # by end seq
        self.confirmed: SeqIndex[JobId] = SeqIndex()  # DONE and CANCELLED, by confirmed seq
        self.idle_clients: SeqIndex[ClientId] = SeqIndex()  # by idle seq
        # a cache, not state: equal options become one object
        self.options_seen: dict[JobOptions, JobOptions] = {}

    def array_of(self, array_id: JobId) -> ArrayRecord | None:
        """The array with exactly this id."""
        array = self.arrays.get(array_id[:PREFIX_BYTES])
        return array if array is not None and array.array_id == array_id else None

    def cap_of(self, client: ClientRecord) -> int:
        """How many jobs of this client may be in flight; 0: any number."""
        return client.cap or self.settings.client_cap
