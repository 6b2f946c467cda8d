"""The timeline of one job as a chart: one row per attempt, with its wait and run."""

from __future__ import annotations

from typing import Final

from rollq.spark.report import scales
from rollq.spark.report.charts import WIDTH, ChartFrame, ChartMark, length_axis, mark_shapes
from rollq.spark.report.marks import Markup, join, short, tag
from rollq.spark.report.model import Attempt, Story
from rollq.spark.report.words import known, say

ATTEMPTS_MAX: Final = 24
FACTS_MAX: Final = 200
_STYLES: Final = {"ok": "succeeded", "failed": "failed", "cancelled": "cancelled", "running": "run"}


def story_of(story: Story, now_ms: int, marks: tuple[ChartMark, ...] = ()) -> Markup:
    """One job: its attributes, its attempts, and its events."""
    frame = _frame(story, now_ms, marks)
    shown = list(story.attempts)[-ATTEMPTS_MAX:]
    rows = [_attempt(frame, one) for one in shown]
    if not rows and story.submitted_ms is not None:
        rows = [_only_waited(frame, story)]
    axis = tag("tr", tag("td"), tag("td", length_axis(frame), class_="wide"), tag("td"))
    titles = (
        tag("th", say(name), scope="col") if name else tag("td") for name in ("attempt", "", "took")
    )
    table = tag(
        "table",
        tag("thead", tag("tr", *titles)),
        tag("tbody", *rows, axis),
        class_="drawn gantt",
    )
    left_out = len(story.attempts) - len(shown)
    return tag(
        "article",
        tag("h3", tag("code", story.job_id), " ", tag("small", say(story.why))),
        tag("p", _words(story), class_="soft"),
        tag("p", short(story.detail, 300), class_="detail") if story.detail else "",
        table,
        tag("p", say("{n} earlier attempts are left out", n=left_out), class_="soft")
        if left_out
        else "",
        _facts(story),
    )


def _frame(story: Story, now_ms: int, marks: tuple[ChartMark, ...]) -> ChartFrame:
    """From submission to end, or to now."""
    moments = [one for one in (story.submitted_ms, story.ended_ms) if one is not None]
    for attempt in story.attempts:
        moments += [attempt.ready_ms, attempt.assigned_ms]
        moments.append(now_ms if attempt.ended_ms is None else attempt.ended_ms)
    if story.ended_ms is None:
        moments.append(now_ms)
    return ChartFrame(min(moments), max(*moments, min(moments) + 1), marks)


def _words(story: Story) -> str:
    parts = [f"{story.exec_name or say('a program')}: {known(story.state)}"]
    for name, value in (("queue", story.queue), ("client", story.client), ("key", story.key)):
        if value:
            parts.append(f"{say(name)} {short(value, 60)}")
    if story.submitted_ms is not None:
        parts.append(say("submitted {at}", at=scales.when(story.submitted_ms, exact=True)))
        if story.ended_ms is not None:
            length = scales.duration(story.ended_ms - story.submitted_ms)
            parts.append(say("took {length} in all", length=length))
    return " · ".join(parts)


def _attempt(frame: ChartFrame, one: Attempt) -> Markup:
    style = _STYLES.get(one.outcome, "dead")
    end = frame.last_ms if one.ended_ms is None else one.ended_ms
    took = scales.duration(end - one.assigned_ms) + ("…" if one.ended_ms is None else "")
    waited = scales.duration(one.assigned_ms - one.ready_ms)
    words = say(
        "waited {wait}, then {took} on {worker}: {outcome}",
        wait=waited,
        took=took,
        worker=one.worker or say("a worker"),
        outcome=known(one.outcome),
    )
    drawing = _lane(
        frame,
        tag("title", words),
        _piece(frame, one.ready_ms, one.assigned_ms, "wait soft"),
        _piece(frame, one.assigned_ms, end, style),
    )
    return tag(
        "tr",
        tag("th", f"{one.number}", tag("small", short(one.worker, 20)), scope="row"),
        tag("td", drawing, class_="wide"),
        tag(
            "td",
            took,
            tag(
                "small",
                join(
                    tag("b", known(short(one.outcome.replace("_", " "), 24)), class_=f"ink {style}")
                ),
            ),
            class_="n",
        ),
        title=words,
    )


def _only_waited(frame: ChartFrame, story: Story) -> Markup:
    end = frame.last_ms if story.ended_ms is None else story.ended_ms
    start = frame.first_ms if story.submitted_ms is None else story.submitted_ms
    drawing = _lane(frame, _piece(frame, start, end, "wait soft"))
    return tag(
        "tr",
        tag("th", say("none"), tag("small", say("only waited")), scope="row"),
        tag("td", drawing, class_="wide"),
        tag("td", scales.duration(end - start), class_="n"),
    )


def _lane(frame: ChartFrame, *shapes: Markup) -> Markup:
    shapes = (*shapes, *mark_shapes(frame, 20))
    return tag("svg", *shapes, viewBox=f"0 0 {WIDTH:g} 20", preserveAspectRatio="none")


def _piece(frame: ChartFrame, start_ms: int, end_ms: int, style: str) -> Markup:
    left = frame.x(start_ms)
    width = frame.x(end_ms) - left
    # A minimum width keeps short ones visible.
    return tag("rect", class_=f"fill {style}", x=left, y=3, width=max(width, 1.5), height=14)


def _facts(story: Story) -> Markup | str:
    if not story.facts:
        return ""
    rows = [
        tag(
            "tr",
            tag("th", scales.when(fact.at_ms, exact=True), scope="row"),
            tag("td", fact.place),
            tag("td", fact.kind),
            tag("td", short(fact.detail, 300), class_="long"),
        )
        for fact in list(story.facts)[:FACTS_MAX]
    ]
    head = tag(
        "tr",
        *(tag("th", say(name), scope="col") for name in ("time (UTC)", "index", "type", "what")),
    )
    table = tag("table", tag("thead", head), tag("tbody", *rows), class_="plain")
    left_out = len(story.facts) - len(rows)
    more = say("{n} more rows are left out", n=left_out) if left_out else ""
    more = tag("p", more, class_="soft") if more else ""
    return tag("details", tag("summary", say("History")), tag("div", table, more, class_="scroll"))
