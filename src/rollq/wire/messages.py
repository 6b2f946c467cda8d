"""The messages between clients, workers and members.

A message is one struct in either dialect: the legacy JSON, or the compact msgpack form between
peers that both offered it (`message_codec`). The gateway decides which command a message becomes.

The base of a struct is its sender; its fields are of the bounded types of `fields`; everything else
is in its row in `registry`. The compact form is the struct as a msgpack array, so fields may be
appended with a default and nothing else may change.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import msgspec

from rollq.base import limits as most
from rollq.base.disk_use import DiskUse
from rollq.base.ids import NIL_ID
from rollq.base.jobs import BulkItem, JobOptions
from rollq.base.needs import WorkerLoad
from rollq.raft.types import Config, Member
from rollq.wire.fields import (
    AccountName,
    Address,
    BatchKey,
    Blobs,
    CacheIds,
    ClientId,
    Count,
    Duration,
    ErrorNumber,
    ExecName,
    ExitCode,
    Features,
    GroupName,
    HeldAttempts,
    HeldCount,
    HeldPart,
    Id,
    Int32,
    JobId,
    JobIds,
    JobKey,
    JobStatus,
    Keyword,
    Labels,
    Line,
    MemberId,
    MessageId,
    Number,
    ParentEnds,
    ParentResults,
    Payload,
    Resources,
    RunMs,
    SignalNumber,
    Subject,
    UsedBytes,
    WorkerId,
    WorkerName,
)
from rollq.wire.rules import INT64_MAX, Bytes, Free, Int, Many, Struct, Text

ExecNames: TypeAlias = Annotated[
    tuple[str, ...], Many(most.PROGRAMS_MAX, Text(most.EXEC_NAME_BYTES_MAX))
]
Patterns: TypeAlias = Annotated[
    tuple[str, ...], Many(most.PATTERNS_PER_WORKER_MAX, Text(most.PATTERN_BYTES_MAX))
]
Addresses: TypeAlias = Annotated[
    tuple[str, ...], Many(most.MEMBERS_TOLD_MAX, Text(most.ADDRESS_BYTES_MAX))
]
BulkItems: TypeAlias = Annotated[
    tuple[BulkItem, ...], Many(most.IDS_PER_MESSAGE_MAX, Struct(BulkItem))
]
ClusterId: TypeAlias = Annotated[bytes, Bytes(most.CLUSTER_ID_BYTES_MAX)]
Lives: TypeAlias = Annotated[tuple[int, ...], Many(most.LIVES_MAX, Int(0, INT64_MAX))]
Roster: TypeAlias = Annotated[tuple[Member, ...], Many(most.MEMBERS_TOLD_MAX, Struct(Member))]
CallNonce: TypeAlias = Annotated[bytes, Bytes(most.CALL_NONCE_BYTES_MAX)]
KeyId: TypeAlias = Annotated[bytes, Bytes(most.KEY_ID_BYTES_MAX)]
KeyBytes: TypeAlias = Annotated[bytes, Bytes(most.KEY_BYTES_MAX)]
Boots: TypeAlias = Annotated[  # of a member: the number of starts of its disk
    tuple[tuple[int, int], ...], Many(most.MEMBERS_TOLD_MAX, Many(2, Int(0, INT64_MAX), 2))
]

NOT_ASKED: Final = NIL_ID  # in place of a request id: no answer is expected


class ClientMessage(msgspec.Struct, array_like=True, frozen=True):
    """Sent by a client to a member."""


class WorkerMessage(msgspec.Struct, array_like=True, frozen=True):
    """Sent by a worker to a member."""


class MemberMessage(msgspec.Struct, array_like=True, frozen=True):
    """Sent by a member to a client or a worker."""


class PeerMessage(msgspec.Struct, array_like=True, frozen=True):
    """Sent by a member to another member, as messages of raft are."""


ToMemberMessage: TypeAlias = ClientMessage | WorkerMessage
SessionMessage: TypeAlias = ClientMessage | WorkerMessage | MemberMessage


# --- from clients


class HelloClient(ClientMessage, frozen=True, tag=9):
    """Opens a client session; its cap on jobs in flight is `desired_parallelism` (0: default)."""

    client_id: ClientId
    desired_parallelism: Int32 = 0
    features: Features = ()
    plain: bool = False  # offered features without an answer; a member that has some refuses


class SubmitJob(ClientMessage, frozen=True, gc=False, tag=1):
    """Submit a job. `body` reaches the worker unchanged; the job needs `blobs` and `caches`."""

    job_id: JobId
    client_id: ClientId
    subject: Subject
    exec_name: ExecName
    body: Payload
    options: JobOptions | None = None
    blobs: Blobs = ()
    caches: CacheIds = ()
    job_key: JobKey = ""  # its owner's name for it


class SubmitBulk(ClientMessage, frozen=True, tag=33):
    """Submit jobs, all or none."""

    request_id: MessageId
    client_id: ClientId
    subject: Subject
    exec_name: ExecName
    items: BulkItems
    options: JobOptions | None = None
    batch_key: BatchKey = ""
    caches: CacheIds = ()


class SubmitArray(ClientMessage, frozen=True, gc=False, tag=34):
    """Submit `task_count` tasks that share one body."""

    array_id: JobId
    client_id: ClientId
    subject: Subject
    exec_name: ExecName
    body: Payload
    task_count: Annotated[int, Int(1, most.ARRAY_TASKS_MAX)]
    options: JobOptions | None = None
    running_max: Count = 0
    blobs: Blobs = ()
    caches: CacheIds = ()
    # Offset of the id of task 0 from `array_id`; 1 needs the feature `tasks`.
    first_task: Annotated[int, Int(0, 1)] = 0


class Cancel(ClientMessage, frozen=True, tag=35):
    """Cancel these jobs or arrays."""

    request_id: MessageId
    job_ids: JobIds


class Confirm(ClientMessage, frozen=True, tag=36):
    """Confirm that these results were received: they are no longer owed."""

    job_ids: JobIds


class Query(ClientMessage, frozen=True, tag=37):
    """Request a view: `what` names it, `key` its subject; the leader has a table of views."""

    request_id: MessageId
    what: Keyword
    key: Annotated[bytes, Bytes(most.QUERY_KEY_BYTES_MAX)] = b""
    limit: Annotated[int, Int(1, most.QUERY_ROWS_MAX)] = 100
    account: AccountName = ""  # of lists of jobs: only those of its clients; empty: of all


class Admin(ClientMessage, frozen=True, tag=39):
    """Execute an operator's action, with its arguments as a msgpack map."""

    request_id: MessageId
    action: Keyword  # a verb; the leader has a table of them
    arguments: Payload = b""


# --- from workers


class HelloWorker(WorkerMessage, frozen=True, tag=10):
    """Opens a worker session: its patterns, and the attempts that it still holds. With the feature
    `holdings` these follow in Holdings, and `holding_count` is their number."""

    worker_id: WorkerId
    patterns: Patterns
    name: WorkerName = ""
    incarnation: Number = 0
    slots: Count = 0
    holding: HeldAttempts = ()
    features: Features = ()
    blob_address: Address = ""  # where other workers may fetch blobs from it, host:port
    # As in HelloClient; or with a `holding_count`, so that members that do not know that field
    # refuse the worker instead of assuming that it holds nothing.
    plain: bool = False
    holding_count: HeldCount = 0
    labels: Labels = ()
    resources: Resources = ()  # its capacity, as `JobOptions` has it


class Holdings(WorkerMessage, frozen=True, tag=49):
    """Some of the attempts that the hello counted. The last one opens the session."""

    holding: HeldPart


class Credit(WorkerMessage, frozen=True, gc=False, tag=4):
    """Grant credit: the worker can take that many more jobs."""

    count: Count


class AckJob(WorkerMessage, frozen=True, gc=False, tag=3):
    """An attempt ended. A legacy worker names only the job (attempt and fence 0)."""

    job_id: JobId
    attempt: Count = 0
    fence: Number = 0
    status: JobStatus = 0
    result: Payload = b""
    exit_code: ExitCode = 0
    signal: SignalNumber = 0
    run_ms: RunMs = 0
    peak_bytes: UsedBytes = 0
    blobs: Blobs = ()
    fetched_bytes: UsedBytes = 0  # bytes of inputs fetched for this attempt
    held_bytes: UsedBytes = 0  # bytes of inputs present or already being fetched


class Nack(WorkerMessage, frozen=True, gc=False, tag=40):
    """The worker could not run it. With `not_started` it counts as no attempt of the job."""

    job_id: JobId
    attempt: Count
    fence: Number
    detail: Annotated[str, Text(most.INLINE_BYTES_MAX)] = ""
    not_started: bool = False


class Heartbeat(WorkerMessage, frozen=True, tag=42):
    """The worker is alive and holds these attempts: their leases are renewed."""

    holding: HeldAttempts = ()
    is_capped: bool = False  # its host is above its CPU cap: it takes one job at a time
    load: WorkerLoad | None = None


class Announce(WorkerMessage, frozen=True, tag=48):
    """The programs of the worker: the first message of a session has all, later ones the changes.
    With `is_any` it may be assigned any program: it has more than it lists."""

    added: ExecNames = ()
    removed: ExecNames = ()
    is_any: bool = False
    ships: bool = False  # it also runs shipped programs
    layers: Features = ()  # layers of the sandbox of its jobs


class Goodbye(WorkerMessage, frozen=True, tag=44):
    """The worker leaves for good; attempts that it holds are lost. With `returns` it only leaves
    this silent connection, keeps its attempts and looks for a member that answers."""

    reason: Line = ""
    returns: bool = False  # needs the feature of this name


class Ping(ClientMessage, WorkerMessage, frozen=True, tag=46):
    """Answered with Pong by a member that makes progress."""


# --- from members


class Welcome(MemberMessage, frozen=True, tag=30):
    """The hello was accepted, with these features."""

    group: GroupName
    member_id: MemberId
    features: Features = ()
    owed: Count = 0  # to a worker: number of assignments that follow at once and cost no credit
    # Ping a member that is silent for so long; without an answer it is gone. 0: it does not answer.
    ping_ms: Duration = 0
    # The voters of the group, so that a peer that knew only this member finds the others.
    members: Addresses = ()


class Pong(MemberMessage, frozen=True, tag=47):
    """The answer to Ping."""


class NotLeader(MemberMessage, frozen=True, tag=20):
    """The address of the leader; empty: unknown, try again or another member."""

    leader: Address = ""
    members: Addresses = ()


class Accepted(MemberMessage, frozen=True, gc=False, tag=31):
    """The command of `request_id` (a job id for a single submit) is committed."""

    request_id: MessageId
    count: Number = 1
    known: bool = False  # it was accepted before
    ended: bool = False  # and has ended: its result follows if it is still kept


class Error(MemberMessage, frozen=True, gc=False, tag=32):
    """The request `request_id` was refused, or (nil id) the peer violated the protocol."""

    request_id: MessageId
    code: ErrorNumber
    message: Line
    hint: Line = ""
    retryable: bool = False


class Result(MemberMessage, frozen=True, gc=False, tag=5):
    """A job has ended; or `count` tasks of an array, from this one on, that never started."""

    job_id: JobId
    outcome: Keyword  # done | dead | cancelled
    status: Count = 0
    result: Payload = b""
    exec_name: ExecName = ""
    exit_code: ExitCode = 0
    signal: SignalNumber = 0
    run_ms: RunMs = 0
    attempt: Count = 0
    cause: Count = 0
    detail: Line = ""
    client_id: ClientId = ""
    count: Count = 1
    blobs: Blobs = ()
    job_key: JobKey = ""
    worker: WorkerName = ""  # the worker that gave the result: its name, else its id


class Answer(MemberMessage, frozen=True, tag=38):
    """A view, read at `index`, as a msgpack value."""

    request_id: MessageId
    index: Number
    value: Payload = b""


class AssignJob(MemberMessage, frozen=True, gc=False, tag=2):
    """Run this attempt, and hold its lease by heartbeats."""

    job_id: JobId
    attempt: Count
    fence: Number
    lease_ms: Duration
    subject: Subject
    exec_name: ExecName
    body: Payload
    options: JobOptions | None = None
    client_id: ClientId = ""
    task_number: Annotated[int, Int(-1, most.ARRAY_TASKS_MAX)] = -1
    blobs: Blobs = ()
    expect_ms: Duration = 0  # expected run time; 0: unknown
    parents: ParentResults = ()  # results of parents that it uses
    ends: ParentEnds = ()  # ends of all parents, if a condition allows several


class StopJob(MemberMessage, frozen=True, gc=False, tag=43):
    """Stop this attempt: cancelled, or not the worker's any more."""

    job_id: JobId
    attempt: Count
    fence: Number


class Drain(MemberMessage, frozen=True, gc=False, tag=56):
    """The worker is drained: it gives back what it has not begun; or no longer drained. Sessions
    start undrained."""

    is_drained: bool


class AckTaken(MemberMessage, frozen=True, gc=False, tag=41):
    """The ack or nack is committed (or was stale): forget the attempt."""

    job_id: Id
    attempt: Count
    stale: bool = False


# --- between members (raft messages are rollq.raft.types)


class LeaderHello(PeerMessage, frozen=True, tag=21):
    """Roll call: the sender's identity and number of starts. Repeated until answered."""

    member_id: MemberId
    address: Address
    cluster_id: ClusterId
    boot: Number
    last_index: Number
    newcomer: bool = False  # its disk is empty: it asks to join
    lives: Lives = ()  # the starts recorded on its disk, the present one last
    features: Features = ()  # its features beyond the first version
    call: CallNonce = b""  # nonce of this call, repeated in the answer
    key_id: KeyId = b""  # id of its cluster key; empty: none
    key_term: Number = 0  # term of the leader that made it
    key_sure: bool = False  # all members hold it, so it does not change any more


class RollAnswer(PeerMessage, frozen=True, tag=65):
    """Answers a roll call: the highest recorded boot of the caller, and the group's members."""

    member_id: MemberId
    address: Address
    cluster_id: ClusterId
    boot_known: Number
    to_boot: Number
    newcomer: bool = False
    roster: Roster = ()  # the configuration at the cluster's birth
    config: Config = Config()  # the configuration at `config_index` of the sender's log
    config_index: Number = 0
    boots: Boots = ()  # the recorded starts of all members
    features: Features = ()  # as in LeaderHello
    noted: bool = True  # the start is recorded; False: the call arrived, answer the sender's
    to_call: CallNonce = b""  # `call` of the hello that this answers
    key_id: KeyId = b""  # as in LeaderHello
    key_term: Number = 0
    key_sure: bool = False
    key: KeyBytes = b""  # the key itself, for a member without it
    share: KeyBytes = b""  # the sender's share of the key of a new cluster

    def __repr__(self) -> str:  # neither a key nor a share is shown in any log
        told = [name for name in ("key", "share") if getattr(self, name)]
        return (
            f"RollAnswer({self.member_id}, {self.address!r}, to_boot={self.to_boot}, "
            f"newcomer={self.newcomer}, noted={self.noted}, key_id={self.key_id.hex()!r}, "
            f"tells={told})"
        )


class HistoryFetch(PeerMessage, frozen=True, tag=66):
    """Request the history rows of these log indexes."""

    first: Number
    last: Number


class HistoryRows(PeerMessage, frozen=True, tag=67):
    """The rows of log indexes first to last (a prefix of the request), as JSON lines."""

    first: Number
    last: Number
    lines: Annotated[tuple[bytes, ...], Many(most.FRAME_BYTES_MAX // 2, Free())] = ()


class MemberReport(PeerMessage, frozen=True, gc=False, tag=68):
    """Sent to the leader periodically: clock, state hash, protection of the port, disk, history."""

    member_id: MemberId
    wall_ms: Number
    index: Number = 0  # an applied log index, and the state hash there (empty: unknown)
    state_hash: Annotated[bytes, Bytes(most.STATE_HASH_BYTES_MAX)] = b""
    certificate_ends_ms: Number = 0  # by the wall clock; 0: no certificate
    is_unprotected: bool = False  # its port is reachable without TLS, or without a login
    disk: DiskUse | None = None
    lacks_history: bool = False  # rows that other members may have


# --- the legacy cache messages (relayed; the file plane gives them meaning)


class CachePut(ClientMessage, MemberMessage, frozen=True, tag=6):
    """Put files on the workers whose patterns overlap the target. `payload` is CachePutRequest."""

    request_id: MessageId
    payload: Payload


class CacheAck(WorkerMessage, MemberMessage, frozen=True, tag=7):
    """One worker's answer to CachePut. `payload` is CachePutResult."""

    request_id: MessageId
    payload: Payload
