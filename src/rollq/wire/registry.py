"""The table of messages: one row per message type, and everything derived from it.

A new message type is its struct, in one of the modules of messages, and its row here. Frame types,
both codecs, the handshake, the field checks and the access check take what they need from the row.

Reading order: `Row`; `ROWS`, the table; below it the derived tables.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import msgspec

from rollq.base.access import Action, Resource, ResourceKind
from rollq.base.errors import ErrorCode
from rollq.raft import types as raft
from rollq.wire import blob_messages as b
from rollq.wire import login_messages as g
from rollq.wire import messages as m
from rollq.wire import output_messages as o
from rollq.wire import reader_messages as r
from rollq.wire import run_messages as u
from rollq.wire import staging_messages as s
from rollq.wire import subject_messages as p
from rollq.wire.features import (
    ACCEPTED,
    ALIVE,
    COMPACT,
    DRAIN,
    FEATURES,
    HOLDINGS,
    LEASE,
    PROGRAMS,
    RUNS,
    SUBJECTS,
)


class Direction(enum.Enum):
    """The sender and receiver of a message. The first of the two dialed, except between members."""

    # Before the hello, on links of every kind.
    DIALER_TO_ACCEPTER = "dialer to accepter"
    ACCEPTER_TO_DIALER = "accepter to dialer"
    CLIENT_TO_MEMBER = "client to member"
    MEMBER_TO_CLIENT = "member to client"
    WORKER_TO_MEMBER = "worker to member"
    MEMBER_TO_WORKER = "member to worker"
    MEMBER_TO_MEMBER = "member to member"  # whichever of the two dialed
    MEMBER_TO_CALLER = "member to calling member"
    # Blobs are served by members, and by workers to other workers.
    BLOB_CLIENT_TO_SERVER = "blob client to server"
    BLOB_SERVER_TO_CLIENT = "blob server to client"
    READER_TO_MEMBER = "reader to member"
    MEMBER_TO_READER = "member to reader"


class Phase(enum.Flag):
    """When a message is legal in the life of a connection."""

    LOGIN = enum.auto()  # before the hello: `handshake` has their order
    HELLO = enum.auto()  # the first frame, or after a login; it decides the role of the link
    MORE = enum.auto()  # after a hello that waits for Welcome, by its sender
    REPLY = enum.auto()  # to a hello that waits for Welcome
    OPEN = enum.auto()  # once the handshake is over


class Row(NamedTuple):
    """One message type.

    Attributes:
        number: The type byte of its frames; never reused. It is also the tag of the struct, unless
            raft, which numbers its messages for itself, has it.
        struct: Its fields.
        directions: Its senders and receivers.
        action: Its action. ADMIN and QUERY: that of its verb or view.
        resources: The resources of the action.
        features: It is legal with any of them. Empty: always, because it is a legacy type or has a
            link of its own.
        phase: When it is legal.
        closes: Directions in which it ends an open connection.
        request_id: The field with the request id, under which a message out of bounds is refused.
            Empty: no answer is expected, and a violation ends the connection.
        area: Of a message between members: the last token of its subject.
        refusal: The code of the error, if a field is out of its bounds.
        check: The check of several fields together; raises OutOfBoundsError.
    """

    number: int
    struct: type[msgspec.Struct]
    directions: tuple[Direction, ...]
    action: Action
    resources: tuple[Resource, ...]
    features: frozenset[str] = frozenset()
    phase: Phase = Phase.OPEN
    closes: tuple[Direction, ...] = ()
    request_id: str = ""
    area: str = ""
    refusal: ErrorCode = ErrorCode.BAD_PAYLOAD
    check: Callable[[Any], None] | None = None

    @property
    def name(self) -> str:
        """Its name in errors and on the protocol page."""
        return self.struct.__name__


BATCH_NUMBER: Final = 45  # of the frame that holds many messages; no message itself

D = Direction
K = ResourceKind
FROM_CLIENT = (D.CLIENT_TO_MEMBER,)
FROM_WORKER = (D.WORKER_TO_MEMBER,)
FROM_EITHER = (*FROM_CLIENT, *FROM_WORKER)
TO_CLIENT = (D.MEMBER_TO_CLIENT,)
TO_WORKER = (D.MEMBER_TO_WORKER,)
TO_EITHER = (*TO_CLIENT, *TO_WORKER)
PEERS = (D.MEMBER_TO_MEMBER,)
BLOB_ASKED = (D.BLOB_CLIENT_TO_SERVER,)
BLOB_TOLD = (D.BLOB_SERVER_TO_CLIENT,)
READ_ASKED = (D.READER_TO_MEMBER,)
READ_TOLD = (D.MEMBER_TO_READER,)
LOGIN_ASKED = (D.DIALER_TO_ACCEPTER,)
LOGIN_TOLD = (D.ACCEPTER_TO_DIALER,)

SESSION = (Resource(K.SESSION),)
GROUP = (Resource(K.GROUP),)
JOB = (Resource(K.JOB, "job_id"),)
JOBS = (Resource(K.JOB, "job_ids"),)
DIGEST = (Resource(K.BLOB, "digest"),)
CLIENT = Resource(K.CLIENT, "client_id")
BATCH = (CLIENT,)  # a batch is its client's


# A submit: owner of the jobs, their queue, and what they can read.
SHARED = (
    CLIENT,
    Resource(K.QUEUE, "subject"),
    Resource(K.EXEC, "exec_name"),
    Resource(K.CACHE, "caches", Action.CACHES_READ),
    Resource(K.SECRET, "options.secrets.name", Action.SECRETS_USE),
    Resource(K.JOB, "options.after.job_id", Action.JOBS_READ),
)
SUBMITTED = (*SHARED, Resource(K.BLOB, "blobs.digest", Action.BLOBS_READ))
BULK = (*SHARED, Resource(K.BLOB, "items.blobs.digest", Action.BLOBS_READ))
# Jobs to redrive have no queue and no files: their ids are the resources.
STAGED = (
    CLIENT,
    Resource(K.QUEUE, "groups.queue"),
    Resource(K.EXEC, "groups.exec_name"),
    Resource(K.CACHE, "groups.caches", Action.CACHES_READ),
    Resource(K.SECRET, "groups.options.secrets.name", Action.SECRETS_USE),
    Resource(K.BLOB, "groups.blobs.digest", Action.BLOBS_READ),
    Resource(K.JOB, "groups.job_ids", Action.JOBS_REDRIVE),
)

OURS = frozenset({COMPACT})
WITH_ACCEPTED = OURS | {ACCEPTED}
WITH_LEASE = OURS | {LEASE}
WITH_ALIVE = OURS | {ALIVE}
WITH_RUNS = frozenset({RUNS})
WITH_SUBJECTS = frozenset({SUBJECTS})
ANY_OFFER = frozenset(FEATURES)
ASKED = "request_id"
REFUSAL = Phase.REPLY | Phase.OPEN


ROWS: Final = (
    # --- before the hello
    Row(12, g.Login, LOGIN_ASKED, Action.SESSION_LOGIN, SESSION, phase=Phase.LOGIN),
    Row(13, g.LoginChallenge, LOGIN_TOLD, Action.ANSWER, SESSION, phase=Phase.LOGIN),
    Row(14, g.LoginProof, LOGIN_ASKED, Action.SESSION_LOGIN, SESSION, phase=Phase.LOGIN),
    # --- from clients
    Row(
        9,
        m.HelloClient,
        FROM_CLIENT,
        Action.CLIENT_CONNECT,
        (CLIENT,),
        phase=Phase.HELLO,
        refusal=ErrorCode.BAD_HANDSHAKE,
    ),
    Row(1, m.SubmitJob, FROM_CLIENT, Action.JOBS_SUBMIT, SUBMITTED, request_id="job_id"),
    Row(33, m.SubmitBulk, FROM_CLIENT, Action.JOBS_SUBMIT, BULK, OURS, request_id=ASKED),
    Row(34, m.SubmitArray, FROM_CLIENT, Action.JOBS_SUBMIT, SUBMITTED, OURS, request_id="array_id"),
    Row(
        50,
        u.SubmitRun,
        FROM_CLIENT,
        Action.JOBS_SUBMIT,
        SUBMITTED,
        WITH_RUNS,
        request_id=ASKED,
        check=u.check_columns,
    ),
    Row(
        96,
        s.StageJobs,
        FROM_CLIENT,
        Action.JOBS_SUBMIT,
        STAGED,
        OURS,
        request_id=ASKED,
    ),
    Row(97, s.CommitBatch, FROM_CLIENT, Action.JOBS_SUBMIT, BATCH, OURS, request_id=ASKED),
    Row(98, s.DropBatch, FROM_CLIENT, Action.JOBS_SUBMIT, BATCH, OURS, request_id=ASKED),
    Row(35, m.Cancel, FROM_CLIENT, Action.JOBS_CANCEL, JOBS, OURS, request_id=ASKED),
    # Confirms only jobs of the session's client.
    Row(36, m.Confirm, FROM_CLIENT, Action.RESULTS_CONFIRM, SESSION, OURS),
    Row(
        37,
        m.Query,
        (*FROM_CLIENT, *READ_ASKED),
        Action.QUERY,
        (Resource(K.VIEW, "what"),),
        OURS,
        request_id=ASKED,
    ),
    Row(
        39,
        m.Admin,
        FROM_CLIENT,
        Action.ADMIN,
        (Resource(K.VERB, "action"),),
        OURS,
        request_id=ASKED,
    ),
    Row(
        81,
        o.WatchOutput,
        FROM_CLIENT,
        Action.OUTPUT_READ,
        JOB,
        OURS,
        request_id=ASKED,
        check=o.check_offsets,
    ),
    # The cache is named within the payload.
    Row(
        6,
        m.CachePut,
        (*FROM_CLIENT, *TO_WORKER),
        Action.CACHES_WRITE,
        (Resource(K.CACHE),),
        request_id=ASKED,
    ),
    Row(46, m.Ping, FROM_EITHER, Action.SESSION_PING, SESSION, WITH_ALIVE),
    # --- from workers; fences decide which attempts they may name
    Row(
        10,
        m.HelloWorker,
        FROM_WORKER,
        Action.WORKER_CONNECT,
        (Resource(K.WORKER, "worker_id"), Resource(K.PATTERN, "patterns")),
        phase=Phase.HELLO,
        refusal=ErrorCode.BAD_HANDSHAKE,
    ),
    Row(
        49,
        m.Holdings,
        FROM_WORKER,
        Action.WORKER_CONNECT,
        SESSION,
        OURS | {HOLDINGS},
        phase=Phase.MORE,
        refusal=ErrorCode.BAD_HANDSHAKE,
    ),
    Row(4, m.Credit, FROM_WORKER, Action.JOBS_RUN, SESSION, refusal=ErrorCode.BAD_CREDIT),
    Row(3, m.AckJob, FROM_WORKER, Action.JOBS_RUN, SESSION, request_id="job_id"),
    Row(53, u.AckRun, FROM_WORKER, Action.JOBS_RUN, SESSION, WITH_RUNS),
    Row(40, m.Nack, FROM_WORKER, Action.JOBS_RUN, SESSION, WITH_LEASE, request_id="job_id"),
    Row(
        42,
        m.Heartbeat,
        FROM_WORKER,
        Action.JOBS_RUN,
        SESSION,
        WITH_LEASE,
    ),
    Row(
        48,
        m.Announce,
        FROM_WORKER,
        Action.JOBS_RUN,
        SESSION,
        OURS | {PROGRAMS},
    ),
    Row(44, m.Goodbye, FROM_WORKER, Action.JOBS_RUN, SESSION, WITH_LEASE, closes=FROM_WORKER),
    Row(
        7,
        m.CacheAck,
        (*FROM_WORKER, *TO_CLIENT),
        Action.JOBS_RUN,
        SESSION,
        request_id=ASKED,
    ),
    Row(83, o.OutputChunk, (*FROM_WORKER, *TO_CLIENT), Action.JOBS_RUN, SESSION, OURS),
    # --- from members to clients and workers
    Row(
        30,
        m.Welcome,
        (*TO_EITHER, *BLOB_TOLD, *READ_TOLD),
        Action.ANSWER,
        SESSION,
        ANY_OFFER,
        phase=Phase.REPLY,
    ),
    Row(
        20,
        m.NotLeader,
        (*TO_EITHER, *BLOB_TOLD),
        Action.ANSWER,
        SESSION,
        phase=REFUSAL,
        closes=(*TO_EITHER, *BLOB_TOLD),
    ),
    Row(31, m.Accepted, TO_EITHER, Action.ANSWER, SESSION, WITH_ACCEPTED),
    Row(
        32,
        m.Error,
        (*TO_EITHER, *BLOB_TOLD, *READ_TOLD, D.MEMBER_TO_CALLER),
        Action.ANSWER,
        SESSION,
        WITH_ACCEPTED,
        phase=REFUSAL,
        closes=(*BLOB_TOLD, D.MEMBER_TO_CALLER),
    ),
    Row(5, m.Result, TO_CLIENT, Action.ANSWER, JOB),
    Row(51, u.RunAccepted, TO_CLIENT, Action.ANSWER, SESSION, WITH_RUNS),
    Row(55, u.ResultRun, TO_CLIENT, Action.ANSWER, JOBS, WITH_RUNS, check=u.check_columns),
    Row(38, m.Answer, (*TO_CLIENT, *READ_TOLD), Action.ANSWER, SESSION, OURS),
    Row(47, m.Pong, TO_EITHER, Action.ANSWER, SESSION, WITH_ALIVE),
    Row(2, m.AssignJob, TO_WORKER, Action.JOBS_ASSIGN, JOB),
    Row(52, u.AssignRun, TO_WORKER, Action.JOBS_ASSIGN, JOBS, WITH_RUNS, check=u.check_columns),
    Row(43, m.StopJob, TO_WORKER, Action.JOBS_ASSIGN, JOB, WITH_LEASE),
    Row(56, m.Drain, TO_WORKER, Action.JOBS_ASSIGN, SESSION, OURS | {DRAIN}),
    Row(41, m.AckTaken, TO_WORKER, Action.ANSWER, JOB, WITH_LEASE),
    Row(54, u.AcksTaken, TO_WORKER, Action.ANSWER, JOBS, WITH_RUNS, check=u.check_columns),
    Row(82, o.TellOutput, TO_WORKER, Action.OUTPUT_READ, JOB, OURS, check=o.check_offsets),
    # --- publishing: clients and workers do the same
    Row(
        101,
        p.Publish,
        FROM_EITHER,
        Action.SUBJECTS_PUBLISH,
        (Resource(K.SUBJECT, "subject"),),
        WITH_SUBJECTS,
        request_id=ASKED,
    ),
    Row(
        102,
        p.Subscribe,
        FROM_EITHER,
        Action.SUBJECTS_SUBSCRIBE,
        (Resource(K.SUBJECT, "pattern"), Resource(K.TOPIC, "topic", Action.TOPICS_READ)),
        WITH_SUBJECTS,
        request_id=ASKED,
    ),
    Row(103, p.Unsubscribe, FROM_EITHER, Action.SUBJECTS_HOLD, SESSION, WITH_SUBJECTS),
    Row(104, p.Deliver, TO_EITHER, Action.ANSWER, SESSION, WITH_SUBJECTS),
    Row(105, p.Missed, TO_EITHER, Action.ANSWER, SESSION, WITH_SUBJECTS),
    Row(106, p.Consumed, FROM_EITHER, Action.SUBJECTS_HOLD, SESSION, WITH_SUBJECTS),
    # --- between members
    Row(
        21,
        m.LeaderHello,
        PEERS,
        Action.GROUP_JOIN,
        (Resource(K.MEMBER, "member_id"),),
        phase=Phase.HELLO | Phase.OPEN,
        area="roll",
    ),
    Row(
        65, m.RollAnswer, PEERS, Action.GROUP_JOIN, (Resource(K.MEMBER, "member_id"),), area="roll"
    ),
    Row(66, m.HistoryFetch, PEERS, Action.GROUP_REPLICATE, GROUP, area="history"),
    Row(67, m.HistoryRows, PEERS, Action.GROUP_REPLICATE, GROUP, area="history"),
    Row(68, m.MemberReport, PEERS, Action.GROUP_REPLICATE, GROUP, area="report"),
    Row(22, raft.AppendEntries, PEERS, Action.GROUP_REPLICATE, GROUP, area="raft"),
    Row(23, raft.AppendResponse, PEERS, Action.GROUP_REPLICATE, GROUP, area="raft"),
    Row(24, raft.RequestVote, PEERS, Action.GROUP_REPLICATE, GROUP, area="raft"),
    Row(25, raft.VoteResponse, PEERS, Action.GROUP_REPLICATE, GROUP, area="raft"),
    Row(26, raft.InstallSnapshot, PEERS, Action.GROUP_REPLICATE, GROUP, area="raft"),
    Row(27, raft.InstallSnapshotResponse, PEERS, Action.GROUP_REPLICATE, GROUP, area="raft"),
    Row(60, raft.RaftHeartbeat, PEERS, Action.GROUP_REPLICATE, GROUP, area="raft"),
    Row(61, raft.RaftHeartbeatResponse, PEERS, Action.GROUP_REPLICATE, GROUP, area="raft"),
    Row(62, raft.TimeoutNow, PEERS, Action.GROUP_REPLICATE, GROUP, area="raft"),
    Row(63, raft.ReadIndex, PEERS, Action.GROUP_REPLICATE, GROUP, area="raft"),
    Row(64, raft.ReadIndexResponse, PEERS, Action.GROUP_REPLICATE, GROUP, area="raft"),
    # --- on links for blobs
    Row(
        70,
        b.HelloBlobs,
        BLOB_ASKED,
        Action.BLOBS_CONNECT,
        (Resource(K.GROUP, "group"),),
        phase=Phase.HELLO,
    ),
    Row(71, b.BlobAsk, BLOB_ASKED, Action.BLOBS_READ, (Resource(K.BLOB, "digests"),)),
    Row(72, b.BlobHave, BLOB_TOLD, Action.ANSWER, SESSION),
    Row(73, b.BlobPut, BLOB_ASKED, Action.BLOBS_WRITE, SESSION),
    Row(74, b.BlobGo, BLOB_TOLD, Action.ANSWER, DIGEST),
    Row(75, b.BlobChunk, (*BLOB_ASKED, *BLOB_TOLD), Action.BLOBS_TRANSFER, DIGEST),
    Row(76, b.BlobStored, BLOB_TOLD, Action.ANSWER, DIGEST),
    Row(77, b.BlobGet, BLOB_ASKED, Action.BLOBS_READ, DIGEST),
    Row(78, b.BlobInfo, BLOB_TOLD, Action.ANSWER, DIGEST),
    Row(79, b.BlobMore, (*BLOB_ASKED, *BLOB_TOLD), Action.BLOBS_TRANSFER, DIGEST),
    Row(80, b.BlobDrop, BLOB_ASKED, Action.BLOBS_TRANSFER, DIGEST),
    # --- on links of readers
    Row(
        84,
        r.HelloReader,
        READ_ASKED,
        Action.READER_CONNECT,
        (Resource(K.GROUP, "group"),),
        phase=Phase.HELLO,
    ),
    Row(85, r.SpanAsk, READ_ASKED, Action.HISTORY_READ, GROUP, request_id=ASKED),
    Row(86, r.SpanTold, READ_TOLD, Action.ANSWER, SESSION),
    Row(87, r.PiecesAsk, READ_ASKED, Action.HISTORY_READ, GROUP, request_id=ASKED),
    Row(88, r.PieceChunk, READ_TOLD, Action.ANSWER, SESSION),
    Row(
        92,
        r.TableAsk,
        READ_ASKED,
        Action.TABLES_READ,
        (Resource(K.TABLE, "tables"),),
        request_id=ASKED,
    ),
    Row(93, r.TableTold, READ_TOLD, Action.ANSWER, SESSION),
    # The part is one of a table.
    Row(94, r.PartAsk, READ_ASKED, Action.TABLES_READ, (Resource(K.TABLE),), request_id=ASKED),
    Row(95, r.ResultsAsk, READ_ASKED, Action.RESULTS_READ, JOBS, request_id=ASKED),
    Row(99, r.BackupAsk, READ_ASKED, Action.CLUSTER_BACKUP, GROUP, request_id=ASKED),
    Row(100, r.BackupTold, READ_TOLD, Action.ANSWER, SESSION),
)

# --- what follows from the table

ROW_OF: Final[Mapping[type[msgspec.Struct], Row]] = {row.struct: row for row in ROWS}
ROW_NUMBERED: Final[Mapping[int, Row]] = {row.number: row for row in ROWS}
NUMBER_OF: Final[Mapping[type[msgspec.Struct], int]] = {row.struct: row.number for row in ROWS}
COVERED_BY: Final[Mapping[int, frozenset[str]]] = {
    row.number: row.features for row in ROWS if row.features
}
AREA_OF: Final[Mapping[int, str]] = {row.number: row.area for row in ROWS if row.area}
REQUEST_ID_OF: Final[Mapping[type[msgspec.Struct], str]] = {
    row.struct: row.request_id for row in ROWS if row.request_id
}


def is_known(number: int) -> bool:
    """Whether a frame of this type has a message."""
    return number in ROW_NUMBERED or number == BATCH_NUMBER
