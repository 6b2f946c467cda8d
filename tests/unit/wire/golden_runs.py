"""Frames of runs, written by hand as those in `golden_vectors`."""

from __future__ import annotations

from rollq.base.jobs import BlobRef
from rollq.wire import messages as m
from rollq.wire import run_messages as u
from rollq.wire.message_codec import Dialect
from tests.unit.wire.golden_vectors import GUID, JOB, NIL, Vector, from_parts

OTHER = b"\x11" * 16
IDS = "c420" + GUID + "11" * 16
BLOB = BlobRef(b"\xab" * 32, 5)

RUNS = [
    Vector(
        "50 SubmitRun",
        from_parts(
            "a0000000 32" + NIL + NIL,
            "0000",
            "79000000",
            "9a c410" + GUID + "a7" + b"clientA".hex() + "a1" + b"q".hex() + "a1" + b"e".hex(),
            IDS + "92 c401 78 c402 797a",
            "c0 91 a2" + b"d1".hex() + "a3 610062",
            "92 91 92 c420" + "ab" * 32 + "05 90",
        ),
        u.SubmitRun(
            *(JOB, "clientA", "q", "e", JOB + OTHER, (b"x", b"yz")),
            caches=("d1",),
            keys="a\0b",
            blobs=((BLOB,), ()),
        ),
        Dialect.COMPACT,
    ),
    Vector(
        "51 RunAccepted",
        from_parts(
            "50000000 33" + NIL + NIL,
            "0000",
            "29000000",
            "95 c410" + GUID + "03 92 00 02 91 02",
            "91 95 01 cccd a4" + b"full".hex() + "a4" + b"wait".hex() + "c3",
        ),
        u.RunAccepted(JOB, 3, (0, 2), (2,), (u.RefusedJob(1, 205, "full", "wait", True),)),
        Dialect.COMPACT,
    ),
    Vector(
        "52 AssignRun",
        from_parts(
            "5f000000 34" + NIL + NIL,
            "0000",
            "38000000",
            "9c" + IDS + "01 07 cd7530 a1" + b"q".hex() + "a1" + b"e".hex(),
            "92 c401 78 c400 c0 a1" + b"c".hex() + "ff 90 28",
        ),
        u.AssignRun(
            *(JOB + OTHER, 1, 7, 30_000, "q", "e", (b"x", b"")), client_id="c", expect_ms=40
        ),
        Dialect.COMPACT,
    ),
    Vector(
        "53 AckRun",
        from_parts(
            "4a000000 35" + NIL + NIL,
            "0000",
            "23000000",
            "91 91 9d 03 c410" + GUID + "01 07 00 c401 72 00 00 05 00 90 00 00",
        ),
        u.AckRun((m.AckJob(JOB, 1, 7, result=b"r", run_ms=5),)),
        Dialect.COMPACT,
    ),
    Vector(
        "54 AcksTaken",
        from_parts("4f000000 36" + NIL + NIL, "0000", "28000000", "93" + IDS + "92 01 02 91 01"),
        u.AcksTaken(JOB + OTHER, (1, 2), (1,)),
        Dialect.COMPACT,
    ),
    Vector(
        "55 ResultRun",
        from_parts(
            "67000000 37" + NIL + NIL,
            "0000",
            "40000000",
            "9f" + IDS + "92 c401 78 c400 a4" + b"done".hex() + "00 a1" + b"e".hex(),
            "00 00 01 00 a0 a1" + b"c".hex() + "a2" + b"w1".hex() + "92 05 00 a0 90",
        ),
        u.ResultRun(
            *(JOB + OTHER, (b"x", b""), "done"),
            exec_name="e",
            attempt=1,
            client_id="c",
            worker="w1",
            run_ms=(5, 0),
        ),
        Dialect.COMPACT,
    ),
]
