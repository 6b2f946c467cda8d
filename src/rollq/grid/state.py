"""The records of the grid: what the members agreed on, as plain data.

Persisted fields stand above, derived ones below; `snapshot` writes the former and rebuilds the
latter. No rule lives here: records change only in `moves` and in the handlers of `apply`.
A waiting job must stay small (JOBS_MAX of them): what only some jobs need hangs in `end`, `past`
or `array`, and names, options and owner are shared objects.
Records never point back at a `JobRecord`, so nothing forms a cycle and the collector may skip them.
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
from rollq.grid.commands import NOBODY, Settings
from rollq.grid.edge_records import EdgeTable
from rollq.grid.job_index import JobIndex
from rollq.grid.key_index import KeyIndex
from rollq.grid.schedule_records import ScheduleTable
from rollq.grid.seq_index import SeqIndex
from rollq.grid.topic_records import TopicTable


class JobState(enum.IntEnum):
    """Where a job stands. DONE, DEAD and CANCELLED are ends; only DEAD can be left (redrive).
    BLOCKED is before QUEUED: it waits for other jobs to end."""

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
PREFIX_BYTES: Final = 12  # what all task ids of an array share
HASH_BYTES: Final = 16
TASKS_PER_CHUNK: Final = 16_384  # two bits a task: 4 KiB


class AttemptOutcome(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """What became of one attempt that gave no result."""

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
    confirmed_seq: int = 0  # order of confirmations; 0: the client is still owed this end
    body_crc: int = -1  # of the body as submitted, if `JobRecord.body` was dropped
    blobs: tuple[BlobRef, ...] = ()  # what the attempt left


class PastRecord(msgspec.Struct, array_like=True, gc=False):
    """What only some jobs bring along: lost attempts, redrives, and files that they need. Apart,
    because most jobs have none of it, and a million may wait."""

    attempts: tuple[AttemptOutcome, ...] = ()
    starts_base: int = 0  # attempts before the last redrive: not counted against max_attempts
    body_crc: int = -1  # of the body as submitted, if a redrive replaced it
    blobs: tuple[BlobRef, ...] = ()  # dropped with the body
    caches: tuple[str, ...] = ()  # dropped with the body
    # Attempts since `starts_base` that their worker never started: not counted either.
    not_started: int = 0


class ClientRecord(msgspec.Struct, eq=False):
    """Somebody who submits. Lives while it has jobs; an idle one until its room is needed."""

    client_id: ClientId
    cap: int = 0  # 0: the cluster's setting
    idle_seq: int = 0  # when it was last left without jobs; 0: it has some
    # derived
    in_flight: int = 0  # its jobs in ASSIGNED
    record_count: int = 0  # its jobs and arrays of any state
    # Ended, unconfirmed; by end seq. Of the tasks that a cut ended, the first stands for all.
    owed: SeqIndex[JobId] = msgspec.field(default_factory=SeqIndex)


class QueueRecord(msgspec.Struct, eq=False):
    """A named line of jobs. Lives while it has jobs or is paused."""

    name: str
    paused: bool = False
    # derived
    counts: list[int] = msgspec.field(default_factory=lambda: [0] * len(JobState))
    tasks_waiting: int = 0  # tasks of arrays that are not records yet
    failed: int = 0  # its jobs in DONE whose program failed

    @property
    def is_empty(self) -> bool:
        """Whether nothing is left that refers to this queue."""
        return not self.tasks_waiting and not any(self.counts)


class WorkerRecord(msgspec.Struct, eq=False):
    """A worker that is up, or gone for less than its grace. It is removed when it is closed."""

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
    """A worker that gets no new jobs. Apart from its record, which goes when the worker is away
    for too long or is started anew: it gets none then either, until somebody undoes it."""

    name: str  # of the worker, when it was drained
    stamp_ms: int
    by: str = ""


class QueuePolicy(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """How the queues of a pattern choose one of several workers."""

    pattern: str
    placement: str  # base.needs.PLACEMENTS
    weights: tuple[tuple[str, int], ...] = ()  # of a score, by name


class LimitRecord(msgspec.Struct, eq=False, gc=False):
    """How much may run at once, and how fast attempts may start (`limits`)."""

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
    next_number: int = 0  # the first task that was not assigned yet
    cut_at: int = 0  # tasks from here on ended unassigned, all as `cut_as`
    cut_as: JobState = CANCELLED
    cut_by: str = ""  # whoever cancelled them
    cut_seq: int = 0  # place of the cut in the order of ends, while its client is owed the news
    forget_asked: bool = False  # its TTL is over; goes with its last task record
    chunks: dict[int, bytearray] = msgspec.field(default_factory=dict)  # ends, two bits a task
    ended_counts: list[int] = msgspec.field(default_factory=lambda: [0] * len(JobState))
    blobs: tuple[BlobRef, ...] = ()  # what every task needs
    caches: tuple[str, ...] = ()
    first_task: int = 0  # how far the id of task 0 is from the array's: 0 or 1
    failed: int = 0  # its tasks in DONE whose program failed, also those forgotten since
    # derived
    running: int = 0  # its tasks in ASSIGNED
    record_count: int = 0  # its tasks that are records
    open_tasks: dict[JobId, None] = msgspec.field(default_factory=dict)  # those not ended; by seq

    def id_of(self, number: int) -> JobId:
        """The id of a task."""
        return task_id(self.array_id, self.first_task + number)

    def number_of(self, job_id: JobId) -> int:
        """Which task this id is, or would be: above `task_count` if none of the array's."""
        return task_number(self.array_id, job_id, self.first_task)

    @property
    def first_cut_id(self) -> JobId:
        """The first of the tasks that ended unassigned: no job ever has this id."""
        return self.id_of(self.cut_at)

    @property
    def tasks_waiting(self) -> int:
        """How many tasks can still be assigned for the first time."""
        return self.cut_at - self.next_number

    @property
    def is_ended(self) -> bool:
        """Whether every task has ended."""
        return sum(self.ended_counts) == self.task_count

    @property
    def needs_files(self) -> bool:
        """Whether a task may still run: one has not ended, or is dead and may be redriven."""
        return not self.is_ended or self.ended_counts[DEAD] > 0


class JobRecord(msgspec.Struct, gc=False, eq=False):
    """One job, or one task of an array that was assigned at least once."""

    job_id: JobId
    client: ClientRecord
    queue: str
    exec_name: str
    body: Token  # at DONE and CANCELLED what `kept_of` leaves; DEAD keeps it for a redrive
    options: JobOptions
    state: JobState
    seq: int  # order among waiting jobs; kept when a job comes back, new at a redrive
    stamp_ms: int  # of the last change of `state`
    attempt: int = 0  # starts so far, and the number of the last one
    delay_ms: int = 0  # while DELAYED
    worker_id: WorkerId = NOBODY  # while ASSIGNED; who gave the result afterwards
    fence: int = 0  # of the attempt that runs or gave the result; 0: none
    lease_ms: int = 0
    cancel_requested: bool = False
    end: EndRecord | None = None
    past: PastRecord | None = None
    array: ArrayRecord | None = None
    key: str = ""  # what its owner calls it


BatchKey: TypeAlias = tuple[ClientId, str]  # whose, and under which key


class BatchRecord(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A bulk submit that was taken under a key."""

    fingerprint: bytes
    count: int


class StagedChunk(msgspec.Struct, eq=False, frozen=True):
    """One message of a part: the ids of its jobs, and the rest packed, in pieces."""

    job_ids: bytes  # one behind another
    crc: int
    pieces: tuple[Token, ...]
    blobs: tuple[BlobRef, ...] = ()  # of all its jobs, held until they are jobs or dropped
    caches: tuple[str, ...] = ()  # the same
    redrives: bool = False  # dead jobs to run again, and not new ones
    # What its jobs wait for and is not before them in it; ids one behind another, each once.
    parents: bytes = b""

    @property
    def count(self) -> int:
        """How many jobs it holds."""
        return len(self.job_ids) // GUID_BYTES


class StagedBatch(msgspec.Struct, eq=False):
    """What was staged under a key and is neither committed nor dropped."""

    client_id: ClientId
    batch_key: str
    stamp_ms: int  # of the last message
    parts: dict[str, dict[int, StagedChunk]]  # by the numbers of their messages
    count: int  # derived: jobs of all parts


class CommittedBatch(msgspec.Struct, eq=False):
    """A batch that is accepted and whose jobs are not all in their queues yet."""

    client: ClientRecord
    batch_key: str
    chunks: deque[StagedChunk]  # still to be unpacked
    known: dict[JobId, None]  # of its jobs, those that had been accepted before
    stamp_ms: int  # of its commit
    position: int = 0  # messages unpacked so far
    left: int = 0  # derived: jobs of `chunks`


class CacheRecord(msgspec.Struct, eq=False):
    """Files under a name. Lives until it is removed and no job needs it."""

    cache_id: str
    entries: tuple[CacheEntry, ...]  # by name
    targets: tuple[str, ...]  # patterns of the workers that are to hold it, as they were asked for
    stamp_ms: int
    removed: bool = False  # for new jobs it is not there any more
    # derived
    user_count: int = 0  # jobs and arrays that need it


class CacheHolder(msgspec.Struct, frozen=True, gc=False):
    """A cache, as one that refers to blobs."""

    cache_id: str


# Who refers to a blob: a client by its jobs, results and batches, or a cache.
Holder: TypeAlias = ClientId | CacheHolder


class BlobCount(msgspec.Struct, gc=False):
    """How often a blob is referred to, and by whom; goes with the last reference."""

    size: int
    count: int = 0
    holder: Holder = ""
    # Of each, if they are several: seldom, and a million blobs may be referred to by one.
    holders: dict[Holder, int] | None = None


class ReaderRecord(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """A reader of the history that is known by name."""

    index: int  # the first that it has not read
    stamp_ms: int  # when it was heard of last


class Leap(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The group's time went from `at_ms` to `at_ms + leap_ms` at once."""

    at_ms: int
    leap_ms: int


class GridState:
    """Everything. Built empty, changed by `apply_entry` alone, restored by `decode_snapshot`."""

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
        self.applied_index: int = 0  # of the last entry applied; the next must follow it
        self.log_hash: bytes = bytes(HASH_BYTES)  # of every entry applied so far
        # Of what every entry since version 5 changed; the same on members that applied as much.
        self.state_hash: bytes = bytes(HASH_BYTES)
        self.time_ms: int = 0  # of the group, at the last entry; never goes back
        self.leaps: list[Leap] = []  # of `time_ms`, oldest first; LEAPS_KEPT_MAX of them
        # One counter for every order in the grid (jobs, ends, confirmations, idle clients): a
        # number is used once, so no two things share a place.
        self.last_seq: int = 0
        # Of attempts, grid-wide and never reused: who holds a lower one for a job is stale.
        self.last_fence: int = 0
        self.settings = Settings()
        # Every job from its submit until it is forgotten or purged, tasks from their first start;
        # JOBS_MAX of them.
        self.jobs: dict[JobId, JobRecord] = {}
        self.arrays: dict[bytes, ArrayRecord] = {}  # by the first PREFIX_BYTES of their ids
        self.clients: dict[ClientId, ClientRecord] = {}
        self.queues: dict[str, QueueRecord] = {}
        self.workers: dict[WorkerId, WorkerRecord] = {}
        # Workers that get no new jobs, in the order of their drains; WORKERS_MAX of them.
        self.drained: dict[WorkerId, DrainMark] = {}
        # What operators set: by pattern, by scope and name, by client. Shares of 1 are not kept.
        self.policies: dict[str, QueuePolicy] = {}
        self.limits: dict[tuple[str, str], LimitRecord] = {}
        self.weights: dict[ClientId, int] = {}
        # Bulks that were taken under a key, the oldest first; BATCHES_KEPT_MAX of them. Older keys
        # are forgotten: a repeat is then known by the ids of its jobs, while those are known.
        self.batches: OrderedDict[BatchKey, BatchRecord] = OrderedDict()
        self.caches: dict[str, CacheRecord] = {}
        # by client and key: the one that was added to longest ago first
        self.staged: OrderedDict[BatchKey, StagedBatch] = OrderedDict()
        self.committed: dict[BatchKey, CommittedBatch] = {}  # in the order of commits
        # by name: the one that was heard of longest ago first
        self.readers: OrderedDict[str, ReaderRecord] = OrderedDict()
        self.hints: dict[str, ExecHint] = {}  # by exec_name
        self.access = AccessTable()
        self.topics = TopicTable()
        self.edges = EdgeTable()
        self.schedules = ScheduleTable()
        # Derived: not in a snapshot, rebuilt by `derive`, recounted by `invariants`.
        self.job_index = JobIndex()  # `jobs` by seq, filed at the end of each entry
        # For lists: ids in their own order.
        self.array_ids: KeyIndex[JobId] = KeyIndex()
        self.batch_names: KeyIndex[BatchKey] = KeyIndex()
        self.client_ids: KeyIndex[ClientId] = KeyIndex()
        self.worker_ids: KeyIndex[WorkerId] = KeyIndex()
        # By queue: tasks that ended unassigned, of arrays that are still known, by their end. Apart
        # from `queues`, because they do not keep a queue alive.
        self.cut_counts: dict[str, list[int]] = {}
        self.staged_bytes: int = 0  # of `staged` and `committed`
        self.staged_count: int = 0  # jobs in them
        # Jobs that a commit accepted and `UnpackBatch` has not made records of yet. Disjoint from
        # `jobs`: an id is reserved, then a job.
        self.reserved: dict[JobId, None] = {}
        self.blobs: dict[Digest, BlobCount] = {}  # what jobs, results and caches refer to
        # Which blobs came to be referred to (True) and which are so no more, for a shell that keeps
        # the content and empties this list. None: nobody wants to know.
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
