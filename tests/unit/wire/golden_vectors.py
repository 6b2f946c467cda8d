"""Frames written by hand from the layout in docs/protocol.md, not by the encoder under test.

  [len:4 LE][type:1][msgId:16][corrId:16][subjectLen:2 LE][subject][payloadLen:4 LE][payload]

They are promises: a vector may be added, none may change. When a message gets a new field, its
vector becomes one that is only read (`ours=False`), and another shows the new form. The Guid in
all of them is 00112233-4455-6677-8899-aabbccddeeff, whose first three groups are little-endian on
the wire.
"""

from __future__ import annotations

import msgspec

from rollq.base.disk_use import DiskUse
from rollq.base.jobs import JobOptions, Status
from rollq.raft import types as raft
from rollq.wire import blob_messages as b
from rollq.wire import messages as m
from rollq.wire import output_messages as o
from rollq.wire.compact import Message
from rollq.wire.message_codec import Dialect

GUID_TEXT = "00112233-4455-6677-8899-aabbccddeeff"
GUID = "33221100 5544 7766 8899 aabbccddeeff"
NIL = "00000000 0000 0000 0000 000000000000"
JOB = bytes.fromhex(GUID)
DIGEST = "e3b0c442 98fc1c14 9afbf4c8 996fb924 27ae41e4 649b934c a495991b 7852b855"
BLOB = bytes.fromhex(DIGEST)

REQUEST = (
    b'{"JobId":"00112233-4455-6677-8899-aabbccddeeff","ClientId":"clientA","ExecName":"calcA",'
    b'"Args":["-x"],"Files":[{"Name":"a","CacheId":null,"Content":"AQI="}]}'
)
RESULT = (
    b'{"JobId":"00112233-4455-6677-8899-aabbccddeeff","ClientId":"clientA","ExecName":"calcA",'
    b'"Status":"OK","Stdout":"hi","Stderr":"","OutputArchive":"UEs="}'
)
PUT = b'{"CacheId":"d1","Entries":[{"Name":"a","Content":"AQI="}],"TargetPattern":"job.assign.*"}'
PUT_ACK = b'{"CacheId":"d1","Status":"OK","Message":"added=1"}'


class Vector(msgspec.Struct, frozen=True):
    """Bytes and what they say; `ours` if we would write the very same bytes."""

    name: str
    data: bytes
    message: Message
    dialect: Dialect = Dialect.LEGACY
    ours: bool = True


def from_parts(*parts: str | bytes) -> bytes:
    return b"".join(bytes.fromhex(part) if isinstance(part, str) else part for part in parts)


def _report(size: str, body_size: str, body: str) -> bytes:
    """A MemberReport."""
    subject = b"cluster.g1.report"
    return from_parts(f"{size} 44", NIL, NIL, "1100", subject, body_size, body)


VECTORS = [
    Vector(
        "1 SubmitJob with a JobRequest",
        from_parts("d4000000 01", GUID, NIL, "1000", b"job.submit.calcA", "9d000000", REQUEST),
        m.SubmitJob(JOB, "clientA", "job.submit.calcA", "calcA", REQUEST),
    ),
    Vector(
        "1 SubmitJob, opaque",
        from_parts("3c000000 01", GUID, NIL, "1000", b"job.submit.calcA", "05000000", b"hello"),
        m.SubmitJob(JOB, "", "job.submit.calcA", "calcA", b"hello"),
    ),
    Vector(
        "2 AssignJob",
        from_parts("3c000000 02", GUID, GUID, "1000", b"job.assign.calcA", "05000000", b"hello"),
        m.AssignJob(JOB, 0, 0, 0, "job.assign.calcA", "calcA", b"hello"),
    ),
    Vector(
        "3 AckJob, empty",
        from_parts("27000000 03", NIL, GUID, "0000", "00000000"),
        m.AckJob(JOB),
    ),
    Vector(
        "3 AckJob with a JobResult",
        from_parts("be000000 03", NIL, GUID, "0000", "97000000", RESULT),
        m.AckJob(JOB, status=Status.OK, result=RESULT),
    ),
    Vector(
        "4 Credit of ten",
        from_parts("2b000000 04", NIL, NIL, "0000", "04000000", "0a000000"),
        m.Credit(10),
    ),
    Vector(
        "4 Credit with a msgId, as legacy workers send it",
        from_parts("2b000000 04", GUID, NIL, "0000", "04000000", "01000000"),
        m.Credit(1),
        ours=False,
    ),
    Vector(
        "5 Result",
        from_parts("be000000 05", GUID, GUID, "0000", "97000000", RESULT),
        m.Result(JOB, "done", result=RESULT, exec_name="calcA", client_id="clientA"),
    ),
    Vector(
        "6 CachePut of a client",
        from_parts("96000000 06", GUID, NIL, "1600", b"cache.put.job.assign.*", "59000000", PUT),
        m.CachePut(JOB, PUT),
        ours=False,
    ),
    Vector(
        "7 CacheAck",
        from_parts("65000000 07", NIL, GUID, "0c00", b"cache.ack.d1", "32000000", PUT_ACK),
        m.CacheAck(JOB, PUT_ACK),
        ours=False,
    ),
    Vector(
        "9 HelloClient by its subject",
        from_parts("2e000000 09", NIL, NIL, "0700", b"clientA", "00000000"),
        m.HelloClient("clientA"),
        ours=False,
    ),
    Vector(
        "9 HelloClient with a ClientConfig",
        from_parts(
            "5b000000 09",
            NIL + NIL,
            "0700",
            b"clientA",
            "2d000000",
            b'{"ClientId":"clientA","DesiredParallelism":4}',
        ),
        m.HelloClient("clientA", 4),
    ),
    Vector(
        "10 HelloWorker",
        from_parts("33000000 0a", GUID, NIL, "0c00", b"job.assign.>", "00000000"),
        m.HelloWorker(JOB, ("job.assign.>",)),
    ),
    Vector(
        "20 NotLeader",
        from_parts("41000000 14", NIL, NIL, "0000", "1a000000", b'{"leader":"10.0.0.1:5000"}'),
        m.NotLeader("10.0.0.1:5000"),
    ),
    Vector(
        "21 LeaderHello",
        from_parts(
            "42000000 15" + NIL + NIL,
            "0f00",
            b"cluster.g1.roll",
            "0c000000",
            "96 01 a3613a31 c401cc 02 03 c2",
        ),
        m.LeaderHello(1, "a:1", b"\xcc", 2, 3),
        ours=False,
    ),
    Vector(
        "21 LeaderHello with lives",
        from_parts(
            "45000000 15" + NIL + NIL,
            "0f00",
            b"cluster.g1.roll",
            "0f000000",
            "97 01 a3613a31 c401cc 02 03 c2 92 01 02",
        ),
        m.LeaderHello(1, "a:1", b"\xcc", 2, 3, lives=(1, 2)),
        ours=False,
    ),
    Vector(
        "21 LeaderHello with features",
        from_parts(
            "4e000000 15" + NIL + NIL,
            "0f00",
            b"cluster.g1.roll",
            "18000000",
            "98 01 a3613a31 c401cc 02 03 c2 92 01 02 91 a7",
            b"reports",
        ),
        m.LeaderHello(1, "a:1", b"\xcc", 2, 3, lives=(1, 2), features=("reports",)),
        ours=False,
    ),
    Vector(
        "68 MemberReport",
        _report("3e000000", "06000000", "94 01 02 03 c400"),
        m.MemberReport(1, 2, 3),
        ours=False,
    ),
    Vector(
        "68 MemberReport with how it is protected",
        _report("40000000", "08000000", "96 01 02 03 c400 04 c3"),
        m.MemberReport(1, 2, 3, certificate_ends_ms=4, is_unprotected=True),
        ours=False,
    ),
    Vector(
        "68 MemberReport with its disk",
        _report("48000000", "10000000", "97 01 02 03 c400 04 c3 97 05 06 07 08 09 0a 0b"),
        m.MemberReport(
            *(1, 2, 3),
            certificate_ends_ms=4,
            is_unprotected=True,
            disk=DiskUse(5, 6, 7, 8, 9, 10, 11),
        ),
        ours=False,
    ),
    Vector(
        "68 MemberReport of one that lacks history",
        _report("49000000", "11000000", "98 01 02 03 c400 04 c3 97 05 06 07 08 09 0a 0b c3"),
        m.MemberReport(
            *(1, 2, 3),
            certificate_ends_ms=4,
            is_unprotected=True,
            disk=DiskUse(5, 6, 7, 8, 9, 10, 11),
            lacks_history=True,
        ),
    ),
    Vector(
        "22 AppendEntries",
        from_parts(
            "45000000 16" + NIL + NIL,
            "0f00",
            b"cluster.g1.raft",
            "0f000000",
            "97 01 02 03 04 05 04 91 94 03 05 00 c40178",
        ),
        raft.AppendEntries(1, 2, 3, 4, 5, 4, (raft.Entry(3, 5, 0, b"x"),)),
    ),
    Vector(
        "23 AppendResp",
        from_parts(
            "3e000000 17" + NIL + NIL,
            "0f00",
            b"cluster.g1.raft",
            "08000000",
            "97 02 01 03 05 c2 00 00",
        ),
        raft.AppendResponse(2, 1, 3, 5),
    ),
    Vector(
        "24 RequestVote",
        from_parts(
            "3e000000 18" + NIL + NIL,
            "0f00",
            b"cluster.g1.raft",
            "08000000",
            "97 01 02 03 04 05 c2 c3",
        ),
        raft.RequestVote(1, 2, 3, 4, 5, False, True),
    ),
    Vector(
        "25 VoteResp, before it told of the commit",
        from_parts(
            "3c000000 19" + NIL + NIL, "0f00", b"cluster.g1.raft", "06000000", "95 02 01 03 c3 c2"
        ),
        raft.VoteResponse(2, 1, 3, True),
        ours=False,
    ),
    Vector(
        "25 VoteResp",
        from_parts(
            "3e000000 19" + NIL + NIL,
            "0f00",
            b"cluster.g1.raft",
            "08000000",
            "97 02 01 03 c3 c2 05 02",
        ),
        raft.VoteResponse(2, 1, 3, True, False, 5, 2),
    ),
    Vector(
        "26 InstallSnapshot of a member that knows no large bodies",
        from_parts(
            "53000000 1a" + NIL + NIL,
            "0f00",
            b"cluster.g1.raft",
            "1d000000",
            "97 01 02 03 95 07 03 92 91 92 01 a3613a31 90 05 c401aa 00 05 c405",
            b"hello",
        ),
        raft.InstallSnapshot(
            1,
            2,
            3,
            raft.SnapshotMeta(7, 3, raft.Config((raft.Member(1, "a:1"),)), 5, b"\xaa"),
            0,
            5,
            b"hello",
        ),
        ours=False,
    ),
    Vector(
        "26 InstallSnapshot",
        from_parts(
            "54000000 1a" + NIL + NIL,
            "0f00",
            b"cluster.g1.raft",
            "1e000000",
            "97 01 02 03 96 07 03 92 91 92 01 a3613a31 90 05 c401aa 02 00 05 c405",
            b"hello",
        ),
        raft.InstallSnapshot(
            1,
            2,
            3,
            raft.SnapshotMeta(7, 3, raft.Config((raft.Member(1, "a:1"),)), 5, b"\xaa", 2),
            0,
            5,
            b"hello",
        ),
    ),
    Vector(
        "27 InstallSnapResp",
        from_parts(
            "3d000000 1b" + NIL + NIL,
            "0f00",
            b"cluster.g1.raft",
            "07000000",
            "96 02 01 03 07 05 c3",
        ),
        raft.InstallSnapshotResponse(2, 1, 3, 7, 5, True),
    ),
    Vector(
        "1 SubmitJob, compact",
        from_parts(
            "6f000000 01" + NIL + NIL,
            "0000",
            "48000000",
            "96 c410" + GUID,
            "a7" + b"clientA".hex() + "b0" + b"job.submit.calcA".hex(),
            "a5" + b"calcA".hex() + "c405" + b"hello".hex(),
            "9b 09 00 00 00 00 00 00 00 00 91 03 a2" + b"w1".hex(),
        ),
        m.SubmitJob(
            JOB,
            "clientA",
            "job.submit.calcA",
            "calcA",
            b"hello",
            JobOptions(priority=9, retry_exit_codes=(3,), worker_name="w1"),
        ),
        Dialect.COMPACT,
        ours=False,
    ),
    Vector(
        "31 Accepted",
        from_parts("3d000000 1f" + NIL + NIL, "0000", "16000000", "94 c410" + GUID + "01 c2 c3"),
        m.Accepted(JOB, 1, False, True),
        Dialect.COMPACT,
    ),
    Vector(
        "70 HelloBlobs",
        from_parts(
            "38000000 46" + NIL + NIL,
            "0000",
            "11000000",
            "93 a6 636c69656e74 a2 6731 91 a4 7a737464",
        ),
        b.HelloBlobs("client", "g1", ("zstd",)),
        Dialect.COMPACT,
    ),
    Vector(
        "71 BlobAsk",
        from_parts(
            "5d000000 47" + NIL + NIL, "0000", "36000000", "92 c410" + GUID + "91 c420" + DIGEST
        ),
        b.BlobAsk(JOB, (BLOB,)),
        Dialect.COMPACT,
    ),
    Vector(
        "72 BlobHave",
        from_parts("3d000000 48" + NIL + NIL, "0000", "16000000", "92 c410" + GUID + "92 05 ff"),
        b.BlobHave(JOB, (5, -1)),
        Dialect.COMPACT,
    ),
    Vector(
        "73 BlobPut",
        from_parts(
            "4f000000 49" + NIL + NIL, "0000", "28000000", "92 c420" + DIGEST + "ce 00010000"
        ),
        b.BlobPut(BLOB, 65536),
        Dialect.COMPACT,
    ),
    Vector(
        "74 BlobGo",
        from_parts("4d000000 4a" + NIL + NIL, "0000", "26000000", "94 c420" + DIGEST + "05 00 a0"),
        b.BlobGo(BLOB, 5),
        Dialect.COMPACT,
    ),
    Vector(
        "75 BlobChunk",
        from_parts(
            "51000000 4b" + NIL + NIL, "0000", "2a000000", "94 c420" + DIGEST + "05 c403 616263 00"
        ),
        b.BlobChunk(BLOB, 5, b"abc"),
        Dialect.COMPACT,
    ),
    Vector(
        "76 BlobStored, refused",
        from_parts(
            "52000000 4c" + NIL + NIL,
            "0000",
            "2b000000",
            "93 c420" + DIGEST + "cd 0192 a4 66756c6c",
        ),
        b.BlobStored(BLOB, 402, "full"),
        Dialect.COMPACT,
    ),
    Vector(
        "77 BlobGet",
        from_parts("4b000000 4d" + NIL + NIL, "0000", "24000000", "92 c420" + DIGEST + "05"),
        b.BlobGet(BLOB, 5),
        Dialect.COMPACT,
    ),
    Vector(
        "78 BlobInfo",
        from_parts("4d000000 4e" + NIL + NIL, "0000", "26000000", "94 c420" + DIGEST + "08 00 a0"),
        b.BlobInfo(BLOB, 8),
        Dialect.COMPACT,
    ),
    Vector(
        "79 BlobMore",
        from_parts("4b000000 4f" + NIL + NIL, "0000", "24000000", "92 c420" + DIGEST + "08"),
        b.BlobMore(BLOB, 8),
        Dialect.COMPACT,
    ),
    Vector(
        "80 BlobDrop",
        from_parts("4a000000 50" + NIL + NIL, "0000", "23000000", "91 c420" + DIGEST),
        b.BlobDrop(BLOB),
        Dialect.COMPACT,
        ours=False,
    ),
    Vector(
        "80 BlobDrop of what is rotten",
        from_parts("4c000000 50" + NIL + NIL, "0000", "25000000", "92 c420" + DIGEST, "ccda"),
        b.BlobDrop(BLOB, 218),
        Dialect.COMPACT,
    ),
    Vector(
        "81 WatchOutput",
        from_parts(
            "53000000 51" + NIL + NIL,
            "0000",
            "2c000000",
            "95 c410" + GUID + "c410" + GUID + "02 92 cd0100 ff c3",
        ),
        o.WatchOutput(JOB, JOB, 2, (256, -1)),
        Dialect.COMPACT,
        ours=False,
    ),
    Vector(
        "81 WatchOutput of the whole",
        from_parts(
            "54000000 51" + NIL + NIL,
            "0000",
            "2d000000",
            "96 c410" + GUID + "c410" + GUID + "02 92 cd0100 ff c3 c3",
        ),
        o.WatchOutput(JOB, JOB, 2, (256, -1), whole=True),
        Dialect.COMPACT,
    ),
    Vector(
        "82 TellOutput",
        from_parts(
            "52000000 52" + NIL + NIL,
            "0000",
            "2b000000",
            "96 c410" + GUID + "c410" + GUID + "02 07 92 00 00 c2",
        ),
        o.TellOutput(JOB, JOB, 2, 7, (0, 0), False),
        Dialect.COMPACT,
        ours=False,
    ),
    Vector(
        "82 TellOutput of the whole",
        from_parts(
            "53000000 52" + NIL + NIL,
            "0000",
            "2c000000",
            "97 c410" + GUID + "c410" + GUID + "02 07 92 00 00 c2 c3",
        ),
        o.TellOutput(JOB, JOB, 2, 7, (0, 0), False, True),
        Dialect.COMPACT,
    ),
    Vector(
        "83 OutputChunk",
        from_parts(
            "45000000 53" + NIL + NIL,
            "0000",
            "1e000000",
            "97 c410" + GUID + "02 01 05 c402" + "6869" + "92 00 07 00",
        ),
        o.OutputChunk(JOB, 2, 1, 5, b"hi", (0, 7)),
        Dialect.COMPACT,
    ),
]
