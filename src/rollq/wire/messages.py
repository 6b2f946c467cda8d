"""What peers say to each other, as values.

A message is one struct whatever dialect its bytes were in: the legacy JSON, or our compact
msgpack form used between peers that both offered it. `message_codec` maps the two. Nothing here
is a command: the gateway decides what a message asks the group to agree on.

The compact form is the struct itself as a msgpack array, so fields may be appended with a default
and nothing else may change.
"""

from __future__ import annotations

from typing import Annotated, TypeAlias

import msgspec

from rollq.base.ids import GUID_BYTES, NIL_ID, ClientId, MemberId
from rollq.base.jobs import AttemptRef, BlobRef, BulkItem, JobOptions
from rollq.raft.types import Config, Member
from rollq.wire.output_messages import OutputChunk, TellOutput, WatchOutput
from rollq.wire.staging_messages import CommitBatch, DropBatch, StageJobs

# Ids of the wrong length are refused while a message is decoded.
Id: TypeAlias = Annotated[bytes, msgspec.Meta(min_length=GUID_BYTES, max_length=GUID_BYTES)]
JobId: TypeAlias = Id
MessageId: TypeAlias = Id
WorkerId: TypeAlias = Id


# --- a client speaks


class HelloClient(msgspec.Struct, array_like=True, frozen=True, tag=9):
    """I am a client; at most `desired_parallelism` of my jobs may run at once (0: your default)."""

    client_id: ClientId
    desired_parallelism: int = 0
    features: tuple[str, ...] = ()
    plain: bool = False  # I speak more, but you did not answer my offer; one that would, hangs up


class SubmitJob(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=1):
    """Please run this. `body` reaches the worker as it is; `blobs` and `caches` are what it
    needs."""

    job_id: JobId
    client_id: ClientId
    subject: str
    exec_name: str
    body: bytes
    options: JobOptions | None = None
    blobs: tuple[BlobRef, ...] = ()
    caches: tuple[str, ...] = ()
    job_key: str = ""  # what its owner calls it


class SubmitBulk(msgspec.Struct, array_like=True, frozen=True, tag=33):
    """Please run these, all or none."""

    request_id: MessageId
    client_id: ClientId
    subject: str
    exec_name: str
    items: tuple[BulkItem, ...]
    options: JobOptions | None = None
    batch_key: str = ""
    caches: tuple[str, ...] = ()


class SubmitArray(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=34):
    """Please run `task_count` tasks that share one body."""

    array_id: JobId
    client_id: ClientId
    subject: str
    exec_name: str
    body: bytes
    task_count: int
    options: JobOptions | None = None
    running_max: int = 0
    blobs: tuple[BlobRef, ...] = ()
    caches: tuple[str, ...] = ()
    first_task: int = 0  # how far the id of task 0 is from `array_id`; 1 needs the feature `tasks`


class Cancel(msgspec.Struct, array_like=True, frozen=True, tag=35):
    """Please end these jobs or arrays."""

    request_id: MessageId
    job_ids: tuple[JobId, ...]


class Confirm(msgspec.Struct, array_like=True, frozen=True, tag=36):
    """I have these results; you owe them no longer."""

    job_ids: tuple[JobId, ...]


class Query(msgspec.Struct, array_like=True, frozen=True, tag=37):
    """How is it? `what` names a view (job, jobs, array, queue, queues, client, clients, worker,
    workers, dead, counts, caches, cache, holders, explain, readers, settings, hints, cluster,
    history), `key` whose."""

    request_id: MessageId
    what: str
    key: bytes = b""
    limit: int = 100


class Admin(msgspec.Struct, array_like=True, frozen=True, tag=39):
    """Please change the grid: `action` with its arguments as a msgpack map."""

    request_id: MessageId
    action: str  # pause resume redrive purge settings …, or membership; see `member.admin`
    arguments: bytes = b""


# --- a worker speaks


class HelloWorker(msgspec.Struct, array_like=True, frozen=True, tag=10):
    """I am a worker: what I serve, and which attempts I still hold (running or finished)."""

    worker_id: WorkerId
    patterns: tuple[str, ...]
    name: str = ""
    incarnation: int = 0
    slots: int = 0
    holding: tuple[AttemptRef, ...] = ()
    features: tuple[str, ...] = ()
    blob_address: str = ""  # where other workers may fetch blobs from it, host:port
    plain: bool = False  # as in HelloClient


class Credit(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=4):
    """I can take this many more."""

    count: int


class AckJob(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=3):
    """An attempt ended. A legacy worker names the job alone (attempt and fence 0)."""

    job_id: JobId
    attempt: int = 0
    fence: int = 0
    status: int = 0
    result: bytes = b""
    exit_code: int = 0
    signal: int = 0
    run_ms: int = 0
    peak_bytes: int = 0
    blobs: tuple[BlobRef, ...] = ()
    fetched_bytes: int = 0  # of its inputs: brought for this attempt
    held_bytes: int = 0  # of its inputs: here already, or on their way for another


class Nack(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=40):
    """I could not run it. With `not_started` I did not try: that is no attempt of the job."""

    job_id: JobId
    attempt: int
    fence: int
    detail: str = ""
    not_started: bool = False


class Heartbeat(msgspec.Struct, array_like=True, frozen=True, tag=42):
    """I am alive and hold these attempts: their leases are renewed."""

    holding: tuple[AttemptRef, ...] = ()


class Announce(msgspec.Struct, array_like=True, frozen=True, tag=48):
    """What I can run: the first one of a session says all, later ones what changed. With `is_any`
    I may be given anything: I have more programs than I list."""

    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    is_any: bool = False
    ships: bool = False  # I run programs that come with their jobs, too


class Goodbye(msgspec.Struct, array_like=True, frozen=True, tag=44):
    """I leave for good; attempts that I still hold are lost."""

    reason: str = ""


class Ping(msgspec.Struct, array_like=True, frozen=True, tag=46):
    """Are you there? Answered with Pong by a member that makes progress."""


# --- a member answers


class Welcome(msgspec.Struct, array_like=True, frozen=True, tag=30):
    """Your hello was taken; these are the features that we both speak."""

    group: str
    member_id: MemberId
    features: tuple[str, ...] = ()
    owed: int = 0  # to a worker: so many assignments follow at once and cost no credit
    # Ping a member that says nothing for so long; it answers, or is gone. 0: it does not answer.
    ping_ms: int = 0


class Pong(msgspec.Struct, array_like=True, frozen=True, tag=47):
    """I am here: the answer to Ping."""


class NotLeader(msgspec.Struct, array_like=True, frozen=True, tag=20):
    """Somebody else leads; empty: not known now, try again or another member."""

    leader: str = ""
    members: tuple[str, ...] = ()


class Accepted(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=31):
    """What `request_id` (a job id for a single submit) asked for is committed."""

    request_id: MessageId
    count: int = 1
    known: bool = False  # it was accepted before
    ended: bool = False  # and has ended: its result follows if it is still kept


class Error(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=32):
    """What `request_id` asked for was refused, or (nil id) what you sent broke the rules."""

    request_id: MessageId
    code: int
    message: str
    hint: str = ""
    retryable: bool = False


class Result(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=5):
    """How your job ended; or so many tasks of your array, from this one on, that never began."""

    job_id: JobId
    outcome: str  # done | dead | cancelled
    status: int = 0
    result: bytes = b""
    exec_name: str = ""
    exit_code: int = 0
    signal: int = 0
    run_ms: int = 0
    attempt: int = 0
    cause: int = 0
    detail: str = ""
    client_id: ClientId = ""
    count: int = 1
    blobs: tuple[BlobRef, ...] = ()
    job_key: str = ""
    worker: str = ""  # who gave the result: its name, else its id


class Answer(msgspec.Struct, array_like=True, frozen=True, tag=38):
    """A view, read at `index`, as a msgpack value."""

    request_id: MessageId
    index: int
    value: bytes = b""


class AssignJob(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=2):
    """Run this attempt, and hold its lease by heartbeats."""

    job_id: JobId
    attempt: int
    fence: int
    lease_ms: int
    subject: str
    exec_name: str
    body: bytes
    options: JobOptions | None = None
    client_id: ClientId = ""
    task_number: int = -1
    blobs: tuple[BlobRef, ...] = ()
    expect_ms: int = 0  # that it may well run for; 0: nobody knows


class StopJob(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=43):
    """End this attempt: cancelled, or not yours any more."""

    job_id: JobId
    attempt: int
    fence: int


class AckTaken(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=41):
    """Your ack or nack is committed (or was stale): forget the attempt."""

    job_id: JobId
    attempt: int
    stale: bool = False


# --- members speak to each other (raft messages are rollq.raft.types)


class LeaderHello(msgspec.Struct, array_like=True, frozen=True, tag=21):
    """Roll call: who I am and how often my disk has been started. Sent until answered."""

    member_id: MemberId
    address: str
    cluster_id: bytes
    boot: int
    last_index: int
    newcomer: bool = False  # my disk is empty: I ask to be let in
    lives: tuple[int, ...] = ()  # the starts that my disk remembers, this one last
    features: tuple[str, ...] = ()  # what I understand beyond the first version


class RollAnswer(msgspec.Struct, array_like=True, frozen=True, tag=65):
    """What I know: of you, the highest boot I ever wrote down; of the group, who belongs to it."""

    member_id: MemberId
    address: str
    cluster_id: bytes
    boot_known: int
    to_boot: int
    newcomer: bool = False
    roster: tuple[Member, ...] = ()  # the configuration at the cluster's birth
    config: Config = Config()  # as it holds at `config_index` of my log
    config_index: int = 0
    boots: tuple[tuple[MemberId, int], ...] = ()  # what I have written down of everybody's starts
    features: tuple[str, ...] = ()  # as in LeaderHello
    noted: bool = True  # your start is written down; no: your call arrived, answer mine


class HistoryFetch(msgspec.Struct, array_like=True, frozen=True, tag=66):
    """Send me the history rows of these log indexes."""

    first: int
    last: int


class HistoryRows(msgspec.Struct, array_like=True, frozen=True, tag=67):
    """The rows of log indexes first to last (a prefix of what was asked for), as JSON lines."""

    first: int
    last: int
    lines: tuple[bytes, ...] = ()


class MemberReport(msgspec.Struct, array_like=True, frozen=True, gc=False, tag=68):
    """From time to time, to the leader: what my wall clock says, and what my state is."""

    member_id: MemberId
    wall_ms: int
    index: int = 0  # a log index that I have applied
    state_hash: bytes = b""  # of my state there; empty: not known


# --- the legacy cache messages (relayed; the file plane gives them meaning)


class CachePut(msgspec.Struct, array_like=True, frozen=True, tag=6):
    """Put files on the workers whose patterns overlap the target. `payload` is CachePutRequest."""

    request_id: MessageId
    payload: bytes


class CacheAck(msgspec.Struct, array_like=True, frozen=True, tag=7):
    """One worker's answer to CachePut. `payload` is CachePutResult."""

    request_id: MessageId
    payload: bytes


ClientMessage: TypeAlias = (
    HelloClient
    | SubmitJob
    | SubmitBulk
    | SubmitArray
    | Cancel
    | Confirm
    | Query
    | Admin
    | CachePut
    | WatchOutput
    | StageJobs
    | CommitBatch
    | DropBatch
    | Ping
)
WorkerMessage: TypeAlias = (
    HelloWorker
    | Credit
    | AckJob
    | Nack
    | Heartbeat
    | Announce
    | Goodbye
    | CacheAck
    | OutputChunk
    | Ping
)
MemberMessage: TypeAlias = (
    Welcome
    | NotLeader
    | Accepted
    | Error
    | Result
    | Answer
    | AssignJob
    | StopJob
    | AckTaken
    | CachePut
    | CacheAck
    | TellOutput
    | OutputChunk
    | Pong
)
SessionMessage: TypeAlias = ClientMessage | WorkerMessage | MemberMessage
PeerMessage: TypeAlias = LeaderHello | RollAnswer | HistoryFetch | HistoryRows | MemberReport

NOT_ASKED: MessageId = NIL_ID
