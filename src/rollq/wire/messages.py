"""What clients, workers and members say to each other, as values.

A message is one struct whatever dialect its bytes were in: the legacy JSON, or our compact
msgpack form used between peers that both offered it. `message_codec` maps the two. Nothing here
is a command: the gateway decides what a message asks the group to agree on.

The base of a struct says who may say it; its fields are of the bounded types of `fields`; all else
that is known of it is its row in `registry`. The compact form is the struct itself as a msgpack
array, so fields may be appended with a default and nothing else may change.
"""

from __future__ import annotations

from typing import Annotated, Final, TypeAlias

import msgspec

from rollq.base import limits as most
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
Boots: TypeAlias = Annotated[  # of a member, how often its disk has been started
    tuple[tuple[int, int], ...], Many(most.MEMBERS_TOLD_MAX, Many(2, Int(0, INT64_MAX), 2))
]

NOT_ASKED: Final = NIL_ID  # instead of a request id: nobody waits for the answer


class ClientMessage(msgspec.Struct, array_like=True, frozen=True):
    """A client says it to a member."""


class WorkerMessage(msgspec.Struct, array_like=True, frozen=True):
    """A worker says it to a member."""


class MemberMessage(msgspec.Struct, array_like=True, frozen=True):
    """A member says it to a client or a worker."""


class PeerMessage(msgspec.Struct, array_like=True, frozen=True):
    """A member says it to another member. Messages of raft are such too."""


ToMemberMessage: TypeAlias = ClientMessage | WorkerMessage
SessionMessage: TypeAlias = ClientMessage | WorkerMessage | MemberMessage


# --- a client speaks


class HelloClient(ClientMessage, frozen=True, tag=9):
    """I am a client; at most `desired_parallelism` of my jobs may run at once (0: your default)."""

    client_id: ClientId
    desired_parallelism: Int32 = 0
    features: Features = ()
    plain: bool = False  # I speak more, but you did not answer my offer; one that would, hangs up


class SubmitJob(ClientMessage, frozen=True, gc=False, tag=1):
    """Please run this. `body` reaches the worker as it is; it needs `blobs` and `caches`."""

    job_id: JobId
    client_id: ClientId
    subject: Subject
    exec_name: ExecName
    body: Payload
    options: JobOptions | None = None
    blobs: Blobs = ()
    caches: CacheIds = ()
    job_key: JobKey = ""  # what its owner calls it


class SubmitBulk(ClientMessage, frozen=True, tag=33):
    """Please run these, all or none."""

    request_id: MessageId
    client_id: ClientId
    subject: Subject
    exec_name: ExecName
    items: BulkItems
    options: JobOptions | None = None
    batch_key: BatchKey = ""
    caches: CacheIds = ()


class SubmitArray(ClientMessage, frozen=True, gc=False, tag=34):
    """Please run `task_count` tasks that share one body."""

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
    # How far the id of task 0 is from `array_id`; 1 needs the feature `tasks`.
    first_task: Annotated[int, Int(0, 1)] = 0


class Cancel(ClientMessage, frozen=True, tag=35):
    """Please end these jobs or arrays."""

    request_id: MessageId
    job_ids: JobIds


class Confirm(ClientMessage, frozen=True, tag=36):
    """I have these results; you owe them no longer."""

    job_ids: JobIds


class Query(ClientMessage, frozen=True, tag=37):
    """How is it? `what` names a view, `key` whose; the leader has a table of them."""

    request_id: MessageId
    what: Keyword
    key: Annotated[bytes, Bytes(most.QUERY_KEY_BYTES_MAX)] = b""
    limit: Annotated[int, Int(1, most.QUERY_ROWS_MAX)] = 100
    account: AccountName = ""  # of lists of jobs: only those of its clients; empty: of all


class Admin(ClientMessage, frozen=True, tag=39):
    """Please change the grid: `action` with its arguments as a msgpack map."""

    request_id: MessageId
    action: Keyword  # a verb; the leader has a table of them
    arguments: Payload = b""


# --- a worker speaks


class HelloWorker(WorkerMessage, frozen=True, tag=10):
    """I am a worker: what I serve, and which attempts I still hold (running or finished). With the
    feature `holdings` these follow in Holdings, and `holding_count` says how many they are."""

    worker_id: WorkerId
    patterns: Patterns
    name: WorkerName = ""
    incarnation: Number = 0
    slots: Count = 0
    holding: HeldAttempts = ()
    features: Features = ()
    blob_address: Address = ""  # where other workers may fetch blobs from it, host:port
    # As in HelloClient; or with a `holding_count`, which members that do not know it must refuse:
    # they would take the worker for one that holds nothing.
    plain: bool = False
    holding_count: HeldCount = 0
    labels: Labels = ()
    resources: Resources = ()  # its capacity, as `JobOptions` has it


class Holdings(WorkerMessage, frozen=True, tag=49):
    """Some of the attempts that my hello counted. The last of them opens the session."""

    holding: HeldPart


class Credit(WorkerMessage, frozen=True, gc=False, tag=4):
    """I can take this many more."""

    count: Count


class AckJob(WorkerMessage, frozen=True, gc=False, tag=3):
    """An attempt ended. A legacy worker names the job alone (attempt and fence 0)."""

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
    fetched_bytes: UsedBytes = 0  # of its inputs: brought for this attempt
    held_bytes: UsedBytes = 0  # of its inputs: here already, or on their way for another


class Nack(WorkerMessage, frozen=True, gc=False, tag=40):
    """I could not run it. With `not_started` I did not try: that is no attempt of the job."""

    job_id: JobId
    attempt: Count
    fence: Number
    detail: Annotated[str, Text(most.INLINE_BYTES_MAX)] = ""
    not_started: bool = False


class Heartbeat(WorkerMessage, frozen=True, tag=42):
    """I am alive and hold these attempts: their leases are renewed."""

    holding: HeldAttempts = ()
    is_capped: bool = False  # my computer is above its CPU cap: I take one job at a time
    load: WorkerLoad | None = None


class Announce(WorkerMessage, frozen=True, tag=48):
    """What I can run: the first one of a session says all, later ones what changed. With `is_any`
    I may be given anything: I have more programs than I list."""

    added: ExecNames = ()
    removed: ExecNames = ()
    is_any: bool = False
    ships: bool = False  # I run programs that come with their jobs, too
    layers: Features = ()  # of the sandbox that jobs run in


class Goodbye(WorkerMessage, frozen=True, tag=44):
    """I leave for good; attempts that I still hold are lost. With `returns` I leave this connection
    alone, on which I hear nothing: I keep my attempts and look for a member that answers."""

    reason: Line = ""
    returns: bool = False  # needs the feature of this name


class Ping(ClientMessage, WorkerMessage, frozen=True, tag=46):
    """Are you there? Answered with Pong by a member that makes progress."""


# --- a member answers


class Welcome(MemberMessage, frozen=True, tag=30):
    """Your hello was taken; these are the features that we both speak."""

    group: GroupName
    member_id: MemberId
    features: Features = ()
    owed: Count = 0  # to a worker: so many assignments follow at once and cost no credit
    # Ping a member that says nothing for so long; it answers, or is gone. 0: it does not answer.
    ping_ms: Duration = 0
    # The voters of the group: a peer that knew this member alone finds the others without it.
    members: Addresses = ()


class Pong(MemberMessage, frozen=True, tag=47):
    """I am here: the answer to Ping."""


class NotLeader(MemberMessage, frozen=True, tag=20):
    """Somebody else leads; empty: not known now, try again or another member."""

    leader: Address = ""
    members: Addresses = ()


class Accepted(MemberMessage, frozen=True, gc=False, tag=31):
    """What `request_id` (a job id for a single submit) asked for is committed."""

    request_id: MessageId
    count: Number = 1
    known: bool = False  # it was accepted before
    ended: bool = False  # and has ended: its result follows if it is still kept


class Error(MemberMessage, frozen=True, gc=False, tag=32):
    """What `request_id` asked for was refused, or (nil id) what you sent broke the rules."""

    request_id: MessageId
    code: ErrorNumber
    message: Line
    hint: Line = ""
    retryable: bool = False


class Result(MemberMessage, frozen=True, gc=False, tag=5):
    """How your job ended; or so many tasks of your array, from this one on, that never began."""

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
    worker: WorkerName = ""  # who gave the result: its name, else its id


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
    expect_ms: Duration = 0  # that it may well run for; 0: nobody knows
    parents: ParentResults = ()  # of those whose results it uses
    ends: ParentEnds = ()  # of all, if one of its conditions leaves open how a parent ends


class StopJob(MemberMessage, frozen=True, gc=False, tag=43):
    """End this attempt: cancelled, or not yours any more."""

    job_id: JobId
    attempt: Count
    fence: Number


class Drain(MemberMessage, frozen=True, gc=False, tag=56):
    """You get no new jobs from now on: give back what you have not begun. Or you do again. Every
    session begins without."""

    is_drained: bool


class AckTaken(MemberMessage, frozen=True, gc=False, tag=41):
    """Your ack or nack is committed (or was stale): forget the attempt."""

    job_id: Id
    attempt: Count
    stale: bool = False


# --- members speak to each other (raft messages are rollq.raft.types)


class LeaderHello(PeerMessage, frozen=True, tag=21):
    """Roll call: who I am and how often my disk has been started. Sent until answered."""

    member_id: MemberId
    address: Address
    cluster_id: ClusterId
    boot: Number
    last_index: Number
    newcomer: bool = False  # my disk is empty: I ask to be let in
    lives: Lives = ()  # the starts that my disk remembers, this one last
    features: Features = ()  # what I understand beyond the first version
    call: CallNonce = b""  # only whoever gets this call knows it: repeat it in the answer
    key_id: KeyId = b""  # of the cluster key that I hold; empty: none
    key_term: Number = 0  # in which a leader made it
    key_sure: bool = False  # all members hold it, so it does not change any more


class RollAnswer(PeerMessage, frozen=True, tag=65):
    """What I know: of you, the highest boot I ever wrote down; of the group, who belongs to it."""

    member_id: MemberId
    address: Address
    cluster_id: ClusterId
    boot_known: Number
    to_boot: Number
    newcomer: bool = False
    roster: Roster = ()  # the configuration at the cluster's birth
    config: Config = Config()  # as it holds at `config_index` of my log
    config_index: Number = 0
    boots: Boots = ()  # what I have written down of everybody's starts
    features: Features = ()  # as in LeaderHello
    noted: bool = True  # your start is written down; no: your call arrived, answer mine
    to_call: CallNonce = b""  # `call` of the hello that this answers
    key_id: KeyId = b""  # as in LeaderHello
    key_term: Number = 0
    key_sure: bool = False
    key: KeyBytes = b""  # itself, for a member that lacks it
    share: KeyBytes = b""  # my part of the key of a cluster that is about to be born

    def __repr__(self) -> str:  # neither a key nor a share is shown in any log
        told = [name for name in ("key", "share") if getattr(self, name)]
        return (
            f"RollAnswer({self.member_id}, {self.address!r}, to_boot={self.to_boot}, "
            f"newcomer={self.newcomer}, noted={self.noted}, key_id={self.key_id.hex()!r}, "
            f"tells={told})"
        )


class HistoryFetch(PeerMessage, frozen=True, tag=66):
    """Send me the history rows of these log indexes."""

    first: Number
    last: Number


class HistoryRows(PeerMessage, frozen=True, tag=67):
    """The rows of log indexes first to last (a prefix of what was asked for), as JSON lines."""

    first: Number
    last: Number
    lines: Annotated[tuple[bytes, ...], Many(most.FRAME_BYTES_MAX // 2, Free())] = ()


class MemberReport(PeerMessage, frozen=True, gc=False, tag=68):
    """From time to time, to the leader: what my wall clock says, what my state is, and how
    my port is protected."""

    member_id: MemberId
    wall_ms: Number
    index: Number = 0  # a log index that I have applied
    # Of my state there; empty: not known.
    state_hash: Annotated[bytes, Bytes(most.STATE_HASH_BYTES_MAX)] = b""
    certificate_ends_ms: Number = 0  # by the clock on the wall; 0: I have no certificate
    is_unprotected: bool = False  # others reach me without TLS, or without a login


# --- the legacy cache messages (relayed; the file plane gives them meaning)


class CachePut(ClientMessage, MemberMessage, frozen=True, tag=6):
    """Put files on the workers whose patterns overlap the target. `payload` is CachePutRequest."""

    request_id: MessageId
    payload: Payload


class CacheAck(WorkerMessage, MemberMessage, frozen=True, tag=7):
    """One worker's answer to CachePut. `payload` is CachePutResult."""

    request_id: MessageId
    payload: Payload
