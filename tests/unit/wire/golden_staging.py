"""Frames of staged batches, and of jobs with keys, written by hand as those in `golden_vectors`."""

from __future__ import annotations

from rollq.base.jobs import BlobRef, BulkItem
from rollq.base.staged import SAME_BODY, StagedGroup, StagedPart
from rollq.wire import messages as m
from rollq.wire import staging_messages as s
from rollq.wire.message_codec import Dialect
from tests.unit.wire.golden_vectors import GUID, JOB, NIL, Vector, from_parts

BLOB = BlobRef(b"\xab" * 32, 5)
GROUP = StagedGroup("q", "e", JOB, (3,), b"abc", None, ("d1",), "row-1", ((BLOB,),))
AGAIN = StagedGroup("", "", JOB, (SAME_BODY,), b"", redrives=True)

STAGING = [
    Vector(
        "1 SubmitJob with a key, compact",
        from_parts(
            "59000000 01" + NIL + NIL,
            "0000",
            "32000000",
            "99 c410" + GUID,
            "a7" + b"clientA".hex() + "a5" + b"calcA".hex() + "a5" + b"calcA".hex(),
            "c400 c0 90 90 a5" + b"row-1".hex(),
        ),
        m.SubmitJob(JOB, "clientA", "calcA", "calcA", b"", job_key="row-1"),
        Dialect.COMPACT,
    ),
    Vector(
        "5 Result with a key, compact",
        from_parts(
            "52000000 05" + NIL + NIL,
            "0000",
            "2b000000",
            "9f c410" + GUID + "a4" + b"done".hex() + "00 c400 a0 00 00 00 00 00 a0 a0 01",
            "90 a5" + b"row-1".hex(),
        ),
        m.Result(JOB, "done", job_key="row-1"),
        Dialect.COMPACT,
        ours=False,
    ),
    Vector(
        "5 Result with a worker, compact",
        from_parts(
            "57000000 05" + NIL + NIL,
            "0000",
            "30000000",
            "dc0010 c410" + GUID + "a4" + b"done".hex() + "00 c400 a0 00 00 00 00 00 a0 a0 01",
            "90 a5" + b"row-1".hex() + "a2" + b"w1".hex(),
        ),
        m.Result(JOB, "done", job_key="row-1", worker="w1"),
        Dialect.COMPACT,
    ),
    Vector(
        "33 SubmitBulk with a key",
        from_parts(
            "60000000 21" + NIL + NIL,
            "0000",
            "39000000",
            "98 c410" + GUID + "a0 a1" + b"q".hex() + "a1" + b"e".hex(),
            "91 94 c410" + GUID + "c401 78 90 a5" + b"row-1".hex(),
            "c0 a0 90",
        ),
        m.SubmitBulk(JOB, "", "q", "e", (BulkItem(JOB, b"x", (), "row-1"),)),
        Dialect.COMPACT,
    ),
    Vector(
        "96 StageJobs",
        from_parts(
            "9b000000 60" + NIL + NIL,
            "0000",
            "74000000",
            "96 c410" + GUID + "a2" + b"b1".hex() + "a3" + b"0.1".hex() + "02",
            "91 9a a1" + b"q".hex() + "a1" + b"e".hex() + "c410" + GUID,
            "91 03 c403" + b"abc".hex() + "c0 91 a2" + b"d1".hex() + "a5" + b"row-1".hex(),
            "91 91 92 c420" + "ab" * 32 + "05 c2",
            "a7" + b"clientA".hex(),
        ),
        s.StageJobs(JOB, "b1", "0.1", 2, (GROUP,), "clientA"),
        Dialect.COMPACT,
    ),
    Vector(
        "96 StageJobs of dead jobs",
        from_parts(
            "62000000 60" + NIL + NIL,
            "0000",
            "3b000000",
            "96 c410" + GUID + "a2" + b"b1".hex() + "a3" + b"0.1".hex() + "00",
            "91 9a a0 a0 c410" + GUID + "91 ff c400 c0 90 a0 90 c3",
            "a0",
        ),
        s.StageJobs(JOB, "b1", "0.1", 0, (AGAIN,)),
        Dialect.COMPACT,
    ),
    Vector(
        "97 CommitBatch",
        from_parts(
            "53000000 61" + NIL + NIL,
            "0000",
            "2c000000",
            "94 c410" + GUID + "a2" + b"b1".hex(),
            "91 93 a3" + b"0.1".hex() + "cd03e8 ceffffffff",
            "a7" + b"clientA".hex(),
        ),
        s.CommitBatch(JOB, "b1", (StagedPart("0.1", 1_000, 2**32 - 1),), "clientA"),
        Dialect.COMPACT,
    ),
    Vector(
        "98 DropBatch",
        from_parts(
            "3e000000 62" + NIL + NIL,
            "0000",
            "17000000",
            "93 c410" + GUID + "a2" + b"b1".hex() + "a0",
        ),
        s.DropBatch(JOB, "b1"),
        Dialect.COMPACT,
    ),
]
