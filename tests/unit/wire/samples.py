"""One full sample of every message, none of its fields at its default where that is possible."""

from __future__ import annotations

from rollq.base.disk_use import DiskUse
from rollq.base.jobs import (
    AttemptRef,
    BlobRef,
    BulkItem,
    Condition,
    JobOptions,
    JobSecret,
    ParentRef,
    ParentResult,
    Status,
)
from rollq.base.needs import WorkerLoad
from rollq.base.staged import StagedGroup, StagedPart
from rollq.raft import types as raft
from rollq.wire import blob_messages as b
from rollq.wire import login_messages as g
from rollq.wire import messages as m
from rollq.wire import output_messages as o
from rollq.wire import reader_messages as r
from rollq.wire import run_messages as u
from rollq.wire import staging_messages as s
from rollq.wire import subject_messages as p
from rollq.wire.compact import Message

JOB = bytes(range(16))
OTHER = bytes(range(16, 32))
BLOBS = (BlobRef(bytes(range(32)), 5), BlobRef(bytes(32), 2**40))
ITEMS = (BulkItem(OTHER, b"x", BLOBS, "row-1"),)
BLOB = bytes(range(32))
SECRETS = (JobSecret("TOKEN", "db"), JobSecret("CERT", "site.pem", as_file=True))
AFTER = (ParentRef(b"p" * 16), ParentRef(b"q" * 16, Condition.ENDED))
OPTIONS = JobOptions(1, 2, 3, 4, 5, 6, 7, 8, 9, (10, -11), "worker-1", secrets=SECRETS, after=AFTER)
GROUP = StagedGroup(
    "calcA",
    "calcA",
    JOB + OTHER,
    (3, 1),
    b"onex",
    OPTIONS,
    ("c1",),
    "row-1\0row-2",
    (BLOBS, ()),
    True,
)
HELD = (AttemptRef(JOB, 1, 2), AttemptRef(OTHER, 3, 4))
META = raft.SnapshotMeta(
    7, 3, raft.Config((raft.Member(1, "a:1"),), (raft.Member(2, "b:2"),)), 5, b"digest"
)

SAMPLES: list[Message] = [
    g.Login("token", "alice", b"rollq_alice_00", bytes(range(32))),
    g.LoginChallenge(bytes(range(32)), b"proof", "g1"),
    g.LoginProof(b"proof"),
    m.HelloClient("clientA", 4, ("compact", "accepted")),
    m.SubmitJob(
        JOB, "clientA", "job.submit.calcA", "calcA", b"\x00body", OPTIONS, BLOBS, ("c1",), "row-1"
    ),
    m.SubmitBulk(JOB, "clientA", "calcA", "calcA", ITEMS, OPTIONS, "batch-1", ("c1",)),
    m.SubmitArray(JOB, "clientA", "calcA", "calcA", b"body", 1_000_000, OPTIONS, 5, BLOBS, ("c1",)),
    m.Cancel(JOB, (JOB, OTHER)),
    m.Confirm((JOB, OTHER)),
    m.Query(JOB, "job", OTHER, 7),
    m.Admin(JOB, "pause", b"\x81\xa5queue\xa1x"),
    m.HelloWorker(JOB, ("a", "b.*"), "w1", 2, 3, HELD, ("compact", "lease"), "h:1", True, 4),
    m.HelloWorker(
        *(JOB, ("a",), "w", 1, 2, (), ("compact",)),
        labels=("gpu", "zone=a"),
        resources=(("cpu", 1_500),),
    ),
    m.Holdings(HELD),
    m.Credit(10),
    m.AckJob(JOB, 1, 2, Status.FAILED, b"result", 3, 9, 1_000, 2**40, BLOBS, 2**41, 5),
    m.Nack(JOB, 1, 2, "no such program"),
    m.Heartbeat(HELD),
    m.Heartbeat(HELD, True, WorkerLoad(125, 2**30, 2**34, 4_096, 2**40)),
    m.Goodbye("drained", True),
    m.Ping(),
    m.Pong(),
    m.Announce(("a", "b"), ("c",), False, True, ("landlock",)),
    m.Welcome("g1", 3, ("compact",), 2, 400, ("h:1", "h:2")),
    m.NotLeader("10.0.0.1:5000", ("10.0.0.1:5000", "10.0.0.2:5000")),
    m.Accepted(JOB, 2, True, True),
    m.Error(JOB, 205, "cap reached", "wait", True),
    m.Result(
        JOB,
        "dead",
        1,
        b"result",
        "calcA",
        3,
        9,
        1_000,
        5,
        4,
        "exit code 3",
        "clientA",
        1,
        BLOBS,
        "row-1",
    ),
    m.Result(JOB, "dead", 1, cause=5, client_id="clientA", count=1_000_000),
    m.Answer(JOB, 99, b"\x90"),
    m.AssignJob(
        JOB,
        1,
        2,
        30_000,
        "job.assign.calcA",
        "calcA",
        b"b",
        OPTIONS,
        "clientA",
        7,
        BLOBS,
        40,
        (ParentResult(b"p" * 16, b"{}", BLOBS),),
    ),
    m.StopJob(JOB, 1, 2),
    m.Drain(True),
    p.Publish("prices.eur", b"\x001.1", "_inbox.7.1", JOB),
    p.Subscribe(JOB, 7, "prices.*", "desk", "prices", "desk-1", 5),
    p.Unsubscribe(7, 2),
    p.Deliver("prices.eur", b"\x001.1", "_inbox.7.1", "desk", "prices", 5, 1_700_000_000_000, 3),
    p.Missed(7, 3, 12),
    p.Consumed(3, 5),
    m.AckTaken(JOB, 1, True),
    m.CachePut(JOB, b'{"CacheId":"d1"}'),
    m.CacheAck(JOB, b'{"CacheId":"d1"}'),
    m.LeaderHello(1, "a:1", b"cluster", 2, 3, True),
    m.RollAnswer(1, "a:1", b"cluster", 2, 3, True, (raft.Member(1, "a:1"),)),
    m.HistoryFetch(1, 2),
    m.HistoryRows(1, 2, (b"{}", b"{}")),
    m.MemberReport(
        *(1, 1_700_000_000_000, 2, b"hash", 1_800_000_000_000, True),
        DiskUse(2**30, 2**28, 2**33, 2**40, 4_096, 2**41, 2**42),
        True,
    ),
    b.HelloBlobs("client", "g1", ("zstd",)),
    b.BlobAsk(JOB, (BLOB, BLOB[::-1])),
    b.BlobHave(JOB, (2**40, -1)),
    b.BlobPut(BLOB, 2**40),
    b.BlobGo(BLOB, 2**32, 402, "full"),
    b.BlobChunk(BLOB, 2**32, b"\x00data", 1_000),
    b.BlobStored(BLOB, 402, "full"),
    b.BlobGet(BLOB, 2**32),
    b.BlobInfo(BLOB, 2**40, 402, "full"),
    b.BlobMore(BLOB, 2**32),
    b.BlobDrop(BLOB, 218),
    s.StageJobs(JOB, "batch-1", "0.1", 7, (GROUP,), "clientA"),
    s.CommitBatch(JOB, "batch-1", (StagedPart("0.1", 2, 2**32 - 1),), "clientA"),
    s.DropBatch(JOB, "batch-1", "clientA"),
    u.SubmitRun(
        JOB,
        "clientA",
        "job.submit.calcA",
        "calcA",
        JOB + OTHER,
        (b"\x00body", b""),
        OPTIONS,
        ("c1",),
        "row-1\0",
        (BLOBS, ()),
    ),
    u.RunAccepted(JOB, 2, (0,), (0,), (u.RefusedJob(1, 205, "cap reached", "wait", True),)),
    u.AssignRun(
        JOB + OTHER,
        1,
        2,
        30_000,
        "job.assign.calcA",
        "calcA",
        (b"b", b""),
        OPTIONS,
        "clientA",
        7,
        (BLOBS, ()),
        40,
    ),
    u.AckRun((m.AckJob(JOB, 1, 2, Status.FAILED, b"r", 3, 9, 1_000, 2**40, BLOBS, 2**41, 5),)),
    u.AcksTaken(JOB + OTHER, (1, 2), (1,)),
    u.ResultRun(
        JOB + OTHER,
        (b"result", b""),
        "dead",
        1,
        "calcA",
        3,
        9,
        5,
        4,
        "exit code 3",
        "clientA",
        "w1",
        (1_000, 0),
        "row-1\0",
        (BLOBS, ()),
    ),
    o.WatchOutput(JOB, OTHER, 2, (2**40, -1), False),
    o.TellOutput(JOB, OTHER, 2, 3, (2**40, -1), False),
    o.OutputChunk(JOB, 2, 1, 2**40, b"\x00out", (0, 2**41), 1),
    r.HelloReader("g1", ("zstd",)),
    r.SpanAsk(JOB, True, 3, 2**40),
    r.SpanTold(JOB, 3, 2**40, True, (r.Cut(4, 9, 1_000, True),)),
    r.PiecesAsk(JOB, 3, 2**40, ("lines", "arrow")),
    r.PieceChunk(JOB, 3, 2**40, "lines", 1_000, 500, b"\x00data", True),
    r.TableAsk(JOB, ("jobs", "dlq"), 2**40, True),
    r.TableTold(JOB, "a1b2", 2**40, (r.TablePart("jobs", 50_000, 2**25),)),
    r.PartAsk(JOB, "a1b2", 3, 2**40),
    r.ResultsAsk(JOB, (JOB, OTHER), 2**40),
    r.BackupAsk(JOB),
    r.BackupTold(JOB, 2**40, 3, 2**33, bytes(range(32)), 7, OTHER),
    raft.RequestVote(1, 2, 3, 4, 5, True, True),
    raft.VoteResponse(1, 2, 3, True, True, 4, 5),
    raft.AppendEntries(1, 2, 3, 4, 5, 6, (raft.Entry(3, 5, 1, b"data"),)),
    raft.AppendResponse(1, 2, 3, 4, True, 5, 6),
    raft.RaftHeartbeat(1, 2, 3, 4, 5),
    raft.RaftHeartbeatResponse(1, 2, 3, 4),
    raft.InstallSnapshot(1, 2, 3, META, 4, 5, b"chunk"),
    raft.InstallSnapshotResponse(1, 2, 3, 4, 5, True),
    raft.TimeoutNow(1, 2, 3),
    raft.ReadIndex(1, 2, 3, 4),
    raft.ReadIndexResponse(1, 2, 3, 4, 5),
]
