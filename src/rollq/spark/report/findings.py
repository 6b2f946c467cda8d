"""What an operator should look at first: a few plain rules over the figures of a report. Each says
what was seen, and nothing is said if nothing is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rollq.spark.report import scales
from rollq.spark.report.marks import short
from rollq.spark.report.model import Report

NAME_LETTERS: Final = 60
JOBS_MIN: Final = 20  # fewer jobs than this make no rate
BAD_SHARE: Final = 0.05
SLOW_RATIO: Final = 5.0
IDLE_SHARE: Final = 0.5
NAMED_MAX: Final = 3


def findings(report: Report) -> list[str]:
    """Sentences, the gravest first."""
    return [
        *_dead(report),
        *_failing(report),
        *_lost_attempts(report),
        *_backlog(report),
        *_slower(report),
    ]


def _dead(report: Report) -> Iterator[str]:
    dead = report.total("dead")
    if dead:
        top = f", most by {short(report.dead[0].cause, NAME_LETTERS)}" if report.dead else ""
        jobs = "job" if dead == 1 else "jobs"
        yield f"{scales.count(dead)} {jobs} died{top}: rollq dlq list shows those still there."


def _failing(report: Report) -> Iterator[str]:
    rates = [
        (one.failed / one.jobs, one)
        for one in report.execs
        if one.jobs >= JOBS_MIN and one.failed / one.jobs >= BAD_SHARE
    ]
    for rate, one in sorted(rates, key=lambda pair: -pair[0])[:NAMED_MAX]:
        yield (
            f"{short(one.exec_name, NAME_LETTERS)} failed in {scales.share(rate, 1)} "
            f"of its {scales.count(one.jobs)} jobs."
        )


def _lost_attempts(report: Report) -> Iterator[str]:
    lost = sum(one.count for one in report.retries if one.cause in ("lease_lost", "worker_down"))
    if lost:
        yield (
            f"{scales.count(lost)} attempt{'' if lost == 1 else 's'} ended with a lost worker or "
            "lease and ran again."
        )


def _backlog(report: Report) -> Iterator[str]:
    """More wait at the end than ever before, while workers have nothing to do, or not."""
    if len(report.depth) < 4:
        return
    last = report.depth[-1].waiting
    before = max(one.waiting for one in report.depth[: len(report.depth) // 2])
    if last < JOBS_MIN or last <= 2 * before:
        return
    known = [row.cells[-1] for row in report.heat.rows if row.cells and row.cells[-1] is not None]
    busy = sum(one for one in known if one is not None) / len(known) if known else None
    text = f"{scales.count(last)} jobs wait at the end, more than twice the most of the first half"
    if busy is not None and busy < IDLE_SHARE:
        text += f", while workers are only {scales.share(busy, 1)} busy: see rollq explain"
    yield f"{text}."


def _slower(report: Report) -> Iterator[str]:
    """The second half against the first."""
    for name in ("wait", "run"):
        known = [one for one in (getattr(slot, name) for slot in report.slots) if one is not None]
        half = len(known) // 2
        if half < 2:
            continue
        before = sorted(max(one.p95, 1) for one in known[:half])[half // 2]
        after = sorted(max(one.p95, 1) for one in known[half:])[(len(known) - half) // 2]
        if after >= SLOW_RATIO * before and after >= scales.SECOND:
            what = "Waiting" if name == "wait" else "Running"
            yield (
                f"{what} became slower: p95 {scales.duration(before)} in the first half, "
                f"{scales.duration(after)} in the second."
            )
