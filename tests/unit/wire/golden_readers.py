"""Frames of readers' links, written by hand as those in `golden_vectors`."""

from __future__ import annotations

from rollq.wire import reader_messages as r
from rollq.wire.message_codec import Dialect
from tests.unit.wire.golden_vectors import GUID, JOB, NIL, Vector, from_parts

READERS = [
    Vector(
        "84 HelloReader",
        from_parts("2c000000 54" + NIL + NIL, "0000", "05000000", "92 a2" + b"g1".hex() + "90"),
        r.HelloReader("g1"),
        Dialect.COMPACT,
    ),
    Vector(
        "85 SpanAsk",
        from_parts("3d000000 55" + NIL + NIL, "0000", "16000000", "94 c410" + GUID + "c3 00 00"),
        r.SpanAsk(JOB, True),
        Dialect.COMPACT,
    ),
    Vector(
        "86 SpanTold with a cut",
        from_parts(
            "45000000 56" + NIL + NIL,
            "0000",
            "1e000000",
            "95 c410" + GUID + "03 09 c2 91 94 04 09 cd03e8 c3",
        ),
        r.SpanTold(JOB, 3, 9, False, (r.Cut(4, 9, 1_000, True),)),
        Dialect.COMPACT,
    ),
    Vector(
        "87 PiecesAsk",
        from_parts(
            "43000000 57" + NIL + NIL,
            "0000",
            "1c000000",
            "94 c410" + GUID + "03 09 91 a5" + b"arrow".hex(),
        ),
        r.PiecesAsk(JOB, 3, 9, ("arrow",)),
        Dialect.COMPACT,
    ),
    Vector(
        "88 PieceChunk",
        from_parts(
            "49000000 58" + NIL + NIL,
            "0000",
            "22000000",
            "98 c410" + GUID + "03 09 a5" + b"lines".hex() + "02 00 c402" + "7b7d" + "c2",
        ),
        r.PieceChunk(JOB, 3, 9, "lines", 2, 0, b"{}"),
        Dialect.COMPACT,
    ),
    Vector(
        "92 TableAsk",
        from_parts(
            "42000000 5c" + NIL + NIL,
            "0000",
            "1b000000",
            "94 c410" + GUID + "91 a4" + b"jobs".hex() + "09 c3",
        ),
        r.TableAsk(JOB, ("jobs",), 9, True),
        Dialect.COMPACT,
    ),
    Vector(
        "93 TableTold with a part",
        from_parts(
            "49000000 5d" + NIL + NIL,
            "0000",
            "22000000",
            "94 c410" + GUID + "a2" + b"e1".hex() + "09 91 93 a4" + b"jobs".hex() + "02 cd03e8",
        ),
        r.TableTold(JOB, "e1", 9, (r.TablePart("jobs", 2, 1_000),)),
        Dialect.COMPACT,
    ),
    Vector(
        "94 PartAsk",
        from_parts(
            "3f000000 5e" + NIL + NIL,
            "0000",
            "18000000",
            "94 c410" + GUID + "a2" + b"e1".hex() + "03 05",
        ),
        r.PartAsk(JOB, "e1", 3, 5),
        Dialect.COMPACT,
    ),
    Vector(
        "95 ResultsAsk",
        from_parts(
            "4e000000 5f" + NIL + NIL,
            "0000",
            "27000000",
            "93 c410" + GUID + "91 c410" + GUID + "09",
        ),
        r.ResultsAsk(JOB, (JOB,), 9),
        Dialect.COMPACT,
    ),
    Vector(
        "99 BackupAsk",
        from_parts("3a000000 63" + NIL + NIL, "0000", "13000000", "91 c410" + GUID),
        r.BackupAsk(JOB),
        Dialect.COMPACT,
    ),
    Vector(
        "100 BackupTold",
        from_parts(
            "72000000 64" + NIL + NIL,
            "0000",
            "4b000000",
            "97 c410" + GUID + "09 02 05 c420" + "ab" * 32 + "01 c410" + GUID,
        ),
        r.BackupTold(JOB, 9, 2, 5, b"\xab" * 32, 1, JOB),
        Dialect.COMPACT,
    ),
]
