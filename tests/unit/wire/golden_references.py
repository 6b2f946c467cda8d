"""Frames with references to blobs, written by hand as those in `golden_vectors`."""

from __future__ import annotations

from rollq.base.jobs import AttemptRef, BlobRef, ParentEnd, ParentResult
from rollq.wire import messages as m
from rollq.wire.message_codec import Dialect
from tests.unit.wire.golden_vectors import GUID, JOB, NIL, Vector, from_parts

REFERENCES = [
    Vector(
        "1 SubmitJob with a blob and a cache, compact",
        from_parts(
            "7c000000 01" + NIL + NIL,
            "0000",
            "55000000",
            "98 c410" + GUID,
            "a7" + b"clientA".hex() + "a5" + b"calcA".hex() + "a5" + b"calcA".hex(),
            "c400 c0 91 92 c420" + "ab" * 32 + "cd03e8 91 a2" + b"d1".hex(),
        ),
        m.SubmitJob(
            JOB, "clientA", "calcA", "calcA", b"", None, (BlobRef(b"\xab" * 32, 1_000),), ("d1",)
        ),
        Dialect.COMPACT,
        ours=False,
    ),
    Vector(
        "2 AssignJob with a blob, compact",
        from_parts(
            "6b000000 02" + NIL + NIL,
            "0000",
            "44000000",
            "9b c410" + GUID,
            "01 02 03 a1" + b"q".hex() + "a1" + b"e".hex() + "c400 c0 a0 ff",
            "91 92 c420" + "ab" * 32 + "05",
        ),
        m.AssignJob(JOB, 1, 2, 3, "q", "e", b"", blobs=(BlobRef(b"\xab" * 32, 5),)),
        Dialect.COMPACT,
        ours=False,
    ),
    Vector(
        "2 AssignJob with a blob and what to expect, compact",
        from_parts(
            "6e000000 02" + NIL + NIL,
            "0000",
            "47000000",
            "9c c410" + GUID,
            "01 02 03 a1" + b"q".hex() + "a1" + b"e".hex() + "c400 c0 a0 ff",
            "91 92 c420" + "ab" * 32 + "05 cd03e8",
        ),
        m.AssignJob(
            JOB, 1, 2, 3, "q", "e", b"", blobs=(BlobRef(b"\xab" * 32, 5),), expect_ms=1_000
        ),
        Dialect.COMPACT,
        ours=False,
    ),
    Vector(
        "2 AssignJob with the result of a parent, compact",
        from_parts(
            "87000000 02" + NIL + NIL,
            "0000",
            "60000000",
            "9d c410" + GUID,
            "01 02 03 a1" + b"q".hex() + "a1" + b"e".hex() + "c400 c0 a0 ff",
            "91 92 c420" + "ab" * 32 + "05 cd03e8",
            "91 93 c410" + GUID + "c402 7b7d 90",
        ),
        m.AssignJob(
            *(JOB, 1, 2, 3, "q", "e", b""),
            blobs=(BlobRef(b"\xab" * 32, 5),),
            expect_ms=1_000,
            parents=(ParentResult(JOB, b"{}"),),
        ),
        Dialect.COMPACT,
        ours=False,
    ),
    Vector(
        "2 AssignJob with the end of a parent, compact",
        from_parts(
            "73000000 02" + NIL + NIL,
            "0000",
            "4c000000",
            "9e c410" + GUID,
            "01 02 03 a1" + b"q".hex() + "a1" + b"e".hex() + "c400 c0 a0 ff 90 00 90",
            "91 9c c410" + GUID + "a6" + b"failed".hex() + "a1" + b"e".hex() + "a1" + b"q".hex(),
            "a1" + b"k".hex() + "03 00 05 02 00 cd03e8 90",
        ),
        m.AssignJob(
            *(JOB, 1, 2, 3, "q", "e", b""),
            ends=(
                ParentEnd(
                    *(JOB, "failed", "e", "q", "k"),
                    exit_code=3,
                    run_ms=5,
                    attempts=2,
                    ended_ms=1_000,
                ),
            ),
        ),
        Dialect.COMPACT,
    ),
    Vector(
        "3 AckJob with a blob, compact, of a worker that does not count its inputs",
        from_parts(
            "68000000 03" + NIL + NIL,
            "0000",
            "41000000",
            "9a c410" + GUID + "01 02 00 c400 00 00 00 00",
            "91 92 c420" + "ab" * 32 + "05",
        ),
        m.AckJob(JOB, 1, 2, blobs=(BlobRef(b"\xab" * 32, 5),)),
        Dialect.COMPACT,
        ours=False,
    ),
    Vector(
        "3 AckJob with a blob and counted inputs, compact",
        from_parts(
            "6c000000 03" + NIL + NIL,
            "0000",
            "45000000",
            "9c c410" + GUID + "01 02 00 c400 00 00 00 00",
            "91 92 c420" + "ab" * 32 + "05",
            "cd03e8 07",
        ),
        m.AckJob(JOB, 1, 2, 0, b"", 0, 0, 0, 0, (BlobRef(b"\xab" * 32, 5),), 1_000, 7),
        Dialect.COMPACT,
    ),
    Vector(
        "5 Result with a blob, compact",
        from_parts(
            "70000000 05" + NIL + NIL,
            "0000",
            "49000000",
            "9e c410" + GUID + "a4" + b"done".hex() + "00 c400 a0 00 00 00 00 00 a0 a0 01",
            "91 92 c420" + "ab" * 32 + "05",
        ),
        m.Result(JOB, "done", blobs=(BlobRef(b"\xab" * 32, 5),)),
        Dialect.COMPACT,
        ours=False,
    ),
    Vector(
        "10 HelloWorker that serves blobs",
        from_parts(
            "94000000 0a" + GUID + NIL,
            "0100",
            b"a",
            "6c000000",
            b'{"Patterns":["a"],"Name":"","Incarnation":0,"Slots":0,"Holding":[],',
            b'"Features":["cache"],"BlobAddress":"h:1"}',
        ),
        m.HelloWorker(JOB, ("a",), features=("cache",), blob_address="h:1"),
    ),
    Vector(
        "10 HelloWorker that counts what it holds",
        from_parts(
            "a1000000 0a" + GUID + NIL,
            "0100",
            b"a",
            "79000000",
            b'{"Patterns":["a"],"Name":"","Incarnation":0,"Slots":0,"Holding":[],',
            b'"Features":["holdings"],"Plain":true,"HoldingCount":2}',
        ),
        m.HelloWorker(JOB, ("a",), features=("holdings",), plain=True, holding_count=2),
    ),
    Vector(
        "49 Holdings",
        from_parts("3e000000 31" + NIL + NIL, "0000", "17000000", "91 91 93 c410" + GUID + "01 02"),
        m.Holdings((AttemptRef(JOB, 1, 2),)),
    ),
]
