"""Reports as they may be: a busy week, a few seconds, nothing at all, and names of ill will."""

from __future__ import annotations

import math
import random

from rollq.spark.report.model import (
    Attempt,
    CauseRow,
    Depth,
    ExecRow,
    Heat,
    Percentiles,
    Report,
    ReportSpan,
    Slot,
    Story,
    TimelineEvent,
    WorkerFigures,
)
from rollq.spark.report.scales import HOUR, SECOND

NOON_MS = 1_795_000_000_000 // HOUR * HOUR
JOB = "6f9619ff-8b86-d011-b42d-00c04fc964ff"
HOSTILE = "</style><script>alert(1)</script>\"'&<img src=x onerror=alert(2)>\x00\u202e"


def nothing() -> Report:
    return Report(made_ms=NOON_MS, source="tables")


def week() -> Report:
    chance = random.Random(7)
    hours = 168
    first = NOON_MS - hours * HOUR
    slots = []
    for n in range(hours):
        wave = 1 + math.sin(n / 24 * 2 * math.pi)
        done = int(4_000 * wave * chance.uniform(0.8, 1.2))
        asleep = 60 < n < 66
        slots.append(
            Slot(
                first + n * HOUR,
                *(0, 0) if asleep else (done + chance.randrange(50), done),
                failed=0 if asleep else chance.randrange(200),
                dead=chance.randrange(60) if n % 40 == 7 else 0,
                cancelled=chance.randrange(20),
                retried=chance.randrange(90),
                wait=None if asleep else Percentiles(4 * wave + 1, 60 * wave + 5, 900 * wave + 9),
                run=None if asleep else Percentiles(220, 800 + 200 * wave, 4_000 + 3_000 * wave),
            )
        )
    starts = tuple(slot.start_ms for slot in slots)
    return Report(
        made_ms=NOON_MS,
        source="tables",
        spans=[ReportSpan("demo", 1, 2_400_300, 4_912_004)],
        first_ms=first,
        last_ms=NOON_MS,
        slot_ms=HOUR,
        slots=slots,
        wait=Percentiles(6, 80, 1_200),
        run=Percentiles(220, 1_000, 6_400),
        depth_ms=HOUR,
        depth=[Depth(one, chance.randrange(900), chance.randrange(64)) for one in starts],
        heat=Heat(starts, HOUR, tuple(worker(n, hours, chance) for n in range(12)), left_out=3),
        retries=[
            CauseRow("worker_down", 412, (("render", 300), ("calcA", 112))),
            CauseRow("lease_lost", 61, (("render", 61),)),
            CauseRow("nacked", 5, (("no-such", 5),)),
        ],
        dead=[
            CauseRow("attempts used up", 120, (("render", 90), ("calcA", 30))),
            CauseRow("waited too long", 11, (("calcA", 11),)),
        ],
        execs=[
            ExecRow("render", 80_211, Percentiles(3_800, 42_000, 310_000), None, 1_400, 90, 361),
            ExecRow("calcA", 620_114, Percentiles(180, 900, 2_100), Percentiles(4, 50, 90), 20, 41),
            ExecRow("a/long/name/of/a/program/that/somebody/gave", 7, Percentiles(1, 2, 3), None),
        ],
        stories=[story()],
        bytes_moved=73_000_000_000,
        cache_hit_bytes=51_000_000_000,
        cache_miss_bytes=9_000_000_000,
    )


def worker(number: int, hours: int, chance: random.Random) -> WorkerFigures:
    begin = 40 if number == 3 else 0
    cells = tuple(
        None if n < begin else clamp(0.5 + 0.4 * math.sin(n / 8) + chance.gauss(0, 0.1))
        for n in range(hours)
    )
    known = [one for one in cells if one is not None]
    return WorkerFigures(f"w{number}", 1 + number % 4 * 4, sum(known) / len(known), cells)


def clamp(value: float) -> float:
    return min(1.0, max(0.0, value))


def seconds() -> Report:
    """A demonstration: over in seven seconds."""
    first = NOON_MS + 12 * SECOND
    starts = tuple(first + n * SECOND for n in range(7))
    slots = [
        Slot(one, 150, 150, wait=Percentiles(40, 70, 90), run=Percentiles(23, 29, 34))
        for one in starts
    ]
    return Report(
        made_ms=NOON_MS,
        source="tables",
        spans=[ReportSpan("demo", 1, 812, 4_016)],
        first_ms=first,
        last_ms=first + 7 * SECOND,
        slot_ms=SECOND,
        slots=slots,
        wait=Percentiles(40, 70, 90),
        run=Percentiles(23, 29, 34),
        depth_ms=SECOND,
        depth=[Depth(one, 190, 8) for one in starts],
        heat=Heat(starts, SECOND, (WorkerFigures("w1", 4, 0.81, (0.8,) * 7),)),
        execs=[ExecRow("square", 1_000, Percentiles(23, 29, 34), Percentiles(40, 70, 90))],
        stories=[story()],
    )


def story() -> Story:
    at = NOON_MS
    return Story(
        job_id=JOB,
        why="most attempts",
        state="done",
        exec_name="render",
        queue="default",
        client="ann",
        key="scene-12/frame-0041",
        submitted_ms=at,
        ended_ms=at + 61_000,
        detail="exit code 0",
        attempts=[
            Attempt(1, "w1", at, at + 1_200, at + 20_000, "worker_down"),
            Attempt(2, "w2", at + 25_000, at + 26_000, at + 40_000, "lease_lost"),
            Attempt(3, "w3", at + 42_000, at + 42_050, at + 61_000, "ok"),
        ],
        facts=[
            TimelineEvent(at, "59.0", "enqueue", "client ann, queue default"),
            TimelineEvent(at + 1_200, "60.0", "assign", "attempt 1 on w1"),
        ],
    )


def hostile() -> Report:
    """Every word that comes from outside means harm."""
    bad = HOSTILE
    return Report(
        made_ms=NOON_MS,
        source=bad,
        spans=[ReportSpan(bad, 1, 2, 3)],
        first_ms=NOON_MS,
        last_ms=NOON_MS + HOUR,
        slot_ms=HOUR,
        slots=[Slot(NOON_MS, 20, 10, 5, 5, retried=1)],
        heat=Heat((NOON_MS,), HOUR, (WorkerFigures(bad, 1, 0.5, (0.5,)),)),
        retries=[CauseRow(bad, 1, ((bad, 1),))],
        dead=[CauseRow(bad, 1, ((bad, 1),))],
        execs=[ExecRow(bad, 20, Percentiles(1, 2, 3), None, failed=10)],
        stories=[
            Story(
                *(bad, bad, bad, bad, bad, bad, bad),
                submitted_ms=NOON_MS,
                detail=bad,
                attempts=[Attempt(1, bad, NOON_MS, NOON_MS, None, bad, bad)],
                facts=[TimelineEvent(NOON_MS, bad, bad, bad)],
            )
        ],
    )
