"""Incidents as text and as marks on the charts; and the comparison with the preceding period."""

from __future__ import annotations

from typing import Final

from rollq.spark.report import scales
from rollq.spark.report.charts import ChartMark
from rollq.spark.report.marks import Markup, join, short, tag
from rollq.spark.report.model import Incident, Percentiles, Report
from rollq.spark.report.tables import compared
from rollq.spark.report.words import say

NAME_LETTERS: Final = 80
COUNTS: Final = ("submitted", "succeeded", "failed", "dead", "cancelled", "retried")


def chart_marks(report: Report) -> tuple[ChartMark, ...]:
    """The marks of incidents on all charts; an open pause lasts to the end."""
    return tuple(
        ChartMark(
            str(number),
            one.kind,
            one.at_ms,
            (one.until_ms or report.last_ms) if one.kind == "paused" else None,
        )
        for number, one in enumerate(report.incidents, 1)
    )


def incident_list(report: Report) -> Markup:
    """The legend of the numbered marks."""
    rows = [
        tag(
            "li",
            tag("time", scales.when(one.at_ms)),
            " ",
            tag("span", incident_words(one)),
            class_=one.kind,
        )
        for one in report.incidents
    ]
    left_out = report.incidents_left_out
    more = tag("p", say("{n} more are left out", n=scales.count(left_out)), class_="soft")
    return join(tag("ol", *rows, class_="happened"), more if left_out else "")


def incident_words(one: Incident) -> str:
    """An incident as text."""
    what = short(one.what, NAME_LETTERS)
    if one.more:
        what = say("{names} and {n} more", names=what, n=one.more)
    if one.kind == "leader":
        return say(
            "a new leader, or the same restarted: all {n} workers connected again",
            n=scales.count(one.count),
        )
    if one.kind == "lost":
        lost = "{what} lost, with {n} job" if one.count == 1 else "{what} lost, with {n} jobs"
        return say(lost, what=what, n=scales.count(one.count))
    if one.kind == "again":
        return say("{what} connected again", what=what)
    if one.until_ms is None:
        return say("queue {what} paused, and still is", what=what)
    length = scales.duration(one.until_ms - one.at_ms)
    return say("queue {what} paused for {length}", what=what, length=length)


def comparison(report: Report) -> Markup | str:
    """The figures of the period and of the preceding one."""
    before = report.earlier
    if before is None:
        return ""
    rows = [
        (
            say(name),
            scales.count(getattr(before, name)),
            scales.count(report.total(name)),
            change(getattr(before, name), report.total(name)),
        )
        for name in COUNTS
    ]
    for name in ("wait", "run"):
        for part in ("p50", "p95", "p99"):
            old, new = (_of(getattr(one, name), part) for one in (before, report))
            was, is_now = ("–" if one is None else scales.duration(one) for one in (old, new))
            rows.append((f"{say(name)} {part}", was, is_now, change(old, new)))
    return compared(rows)


def change(old: float | None, new: float | None) -> str:
    """The change as text: a factor, or per cent."""
    if old is None or new is None or old == new:
        return "" if old is None or new is None else say("same")
    if not old:
        return say("new")
    if new >= 2 * old:
        return f"× {scales.ratio(new / old)}"
    return f"{100 * (new - old) / old:+.3g} %"


def _of(one: Percentiles | None, part: str) -> float | None:
    return None if one is None else float(getattr(one, part))
