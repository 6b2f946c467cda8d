"""A summary of what an operator should look at first: simple rules over the figures of a report.
A rule yields nothing if nothing is wrong."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from rollq.spark.report import scales
from rollq.spark.report.marks import short
from rollq.spark.report.model import Report
from rollq.spark.report.words import known, say

NAME_LETTERS: Final = 60
JOBS_MIN: Final = 20  # least jobs for a meaningful rate
BAD_SHARE: Final = 0.05
SLOW_RATIO: Final = 5.0
IDLE_SHARE: Final = 0.5
NAMED_MAX: Final = 3
PEAK_SLOTS_MIN: Final = 8
PEAK_RATIO: Final = 10.0


def findings(report: Report) -> list[str]:
    """Findings, the most severe first."""
    return [
        *_failed_checks(report),
        *_dead(report),
        *_failing(report),
        *_lost_attempts(report),
        *_backlog(report),
        *_slower(report),
        *_incidents(report),
        *_peaks(report),
        *_worse_than_before(report),
    ]


def _failed_checks(report: Report) -> Iterator[str]:
    failed = [one for one in report.checks if one.failed]
    if failed:
        names = ", ".join(dict.fromkeys(one.name for one in failed))
        yield say(
            "These figures do not agree with each other: the checks {names} failed.", names=names
        )


def _dead(report: Report) -> Iterator[str]:
    dead = report.total("dead")
    if dead:
        cause = short(report.dead[0].cause, NAME_LETTERS) if report.dead else ""
        yield (
            say("{n} job died" if dead == 1 else "{n} jobs died", n=scales.count(dead))
            + (say(", most by {cause}", cause=known(cause)) if cause else "")
            + say(": rollq dlq list shows those still there.")
        )


def _failing(report: Report) -> Iterator[str]:
    rates = [
        (one.failed / one.jobs, one)
        for one in report.execs
        if one.jobs >= JOBS_MIN and one.failed / one.jobs >= BAD_SHARE
    ]
    for rate, one in sorted(rates, key=lambda pair: -pair[0])[:NAMED_MAX]:
        yield say(
            "{name} failed in {share} of its {n} jobs.",
            name=short(one.exec_name, NAME_LETTERS),
            share=scales.share(rate, 1),
            n=scales.count(one.jobs),
        )


def _lost_attempts(report: Report) -> Iterator[str]:
    lost = sum(one.count for one in report.retries if one.cause in ("lease_lost", "worker_down"))
    if lost:
        yield say(
            "{n} attempt ended with a lost worker or lease."
            if lost == 1
            else "{n} attempts ended with a lost worker or lease.",
            n=scales.count(lost),
        )


def _backlog(report: Report) -> Iterator[str]:
    """A growing backlog at the end, with idle workers or without."""
    if len(report.depth) < 4:
        return
    last = report.depth[-1].waiting
    before = max(one.waiting for one in report.depth[: len(report.depth) // 2])
    if last < JOBS_MIN or last <= 2 * before:
        return
    known = [row.cells[-1] for row in report.heat.rows if row.cells and row.cells[-1] is not None]
    busy = sum(one for one in known if one is not None) / len(known) if known else None
    if busy is not None and busy < IDLE_SHARE:
        share = scales.share(busy, 1)
        text = (
            "{n} jobs wait at the end, more than twice the most of the first half, while workers "
            "are only {share} busy: see rollq explain."
        )
        yield say(text, n=scales.count(last), share=share)
    else:
        text = "{n} jobs wait at the end, more than twice the most of the first half."
        yield say(text, n=scales.count(last))


def _slower(report: Report) -> Iterator[str]:
    """Compare the second half with the first."""
    for name in ("wait", "run"):
        known = [one for one in (getattr(slot, name) for slot in report.slots) if one is not None]
        half = len(known) // 2
        if half < 2:
            continue
        before = sorted(max(one.p95, 1) for one in known[:half])[half // 2]
        after = sorted(max(one.p95, 1) for one in known[half:])[(len(known) - half) // 2]
        if after >= SLOW_RATIO * before and after >= scales.SECOND:
            what = "Waiting" if name == "wait" else "Running"
            yield say(
                what + " became slower: p95 {old} in the first half, {new} in the second.",
                old=scales.duration(before),
                new=scales.duration(after),
            )


def _incidents(report: Report) -> Iterator[str]:
    """A summary of incidents."""
    leaders = sum(one.kind == "leader" for one in report.incidents)
    if leaders:
        yield say(
            "All workers connected again at once: the leader changed or was restarted; "
            "see the marks on the charts."
            if leaders == 1
            else "All workers connected again at once, {n} times: the leader changed or was "
            "restarted; see the marks on the charts.",
            n=scales.count(leaders),
        )
    for one in report.incidents:
        if one.kind == "paused" and one.until_ms is None:
            yield say(
                "Queue {what} is paused: rollq queue resume ends it.",
                what=short(one.what, NAME_LETTERS),
            )


def _peaks(report: Report) -> Iterator[str]:
    """Slots that were far worse than usual."""
    for name, what in (("wait", "Waiting"), ("run", "Running")):
        known = [(slot, one) for slot in report.slots if (one := getattr(slot, name)) is not None]
        if len(known) < PEAK_SLOTS_MIN:
            continue
        usual = sorted(max(one.p95, 1) for _, one in known)[len(known) // 2]
        slot, worst = max(known, key=lambda pair: pair[1].p95)
        if worst.p95 >= PEAK_RATIO * usual and worst.p95 >= scales.SECOND:
            yield say(
                what + " peaked at {when}: p95 {worst}, {ratio} times what is usual.",
                when=scales.slot_words(slot.start_ms, report.slot_ms),
                worst=scales.duration(worst.p95),
                ratio=scales.ratio(worst.p95 / usual),
            )


def _worse_than_before(report: Report) -> Iterator[str]:
    """Compare unwanted outcomes with the preceding period."""
    before = report.earlier
    if before is None:
        return
    for name, what in (
        ("failed", "jobs failed"),
        ("dead", "jobs died"),
        ("retried", "attempts were repeated"),
    ):
        old, new = getattr(before, name), report.total(name)
        if new >= JOBS_MIN and new >= 2 * old:
            text = "{n} " + what + ", after {old} in the time before."
            yield say(text, n=scales.count(new), old=scales.count(old))
