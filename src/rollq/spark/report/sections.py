"""The sections of the page, in its order. A section without data has a short note instead."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rollq.spark.report import scales
from rollq.spark.report.charts import (
    ChartFrame,
    ChartLayer,
    columns,
    fan,
    legend,
    levels,
    with_tooltips,
)
from rollq.spark.report.happened import chart_marks, comparison, incident_list
from rollq.spark.report.marks import Markup, join, tag
from rollq.spark.report.model import Report, ShareRow, Slot
from rollq.spark.report.stories import story_of
from rollq.spark.report.tables import bars, check_rows, heat_map, numbers, ranges, shares
from rollq.spark.report.words import say

ENDS: Final = ("succeeded", "failed", "dead", "cancelled")


def what_happened(report: Report) -> Markup | str:
    """Leader changes, lost workers, paused queues."""
    if not report.incidents:
        return ""
    caption = say(
        "Marked by these numbers on every chart. The history does not say who leads: where all "
        "workers connect again at once, there is a new leader, or the same was restarted."
    )
    return section("What happened to the grid", caption, incident_list(report))


def beside_before(report: Report) -> Markup | str:
    """The comparison with the preceding period."""
    before = report.earlier
    if before is None:
        return ""
    caption = say(
        "Before: {first} to {last} UTC. Now: {now} to {end} UTC.",
        first=scales.when(before.first_ms),
        last=scales.when(before.last_ms),
        now=scales.when(report.first_ms),
        end=scales.when(report.last_ms),
    )
    return section("Beside the time before", caption, comparison(report))


def throughput(report: Report, frame: ChartFrame) -> Markup:
    """Ended jobs by outcome."""
    title = "Throughput"
    if not report.total("ended") and not report.total("submitted"):
        return section(title, "", _empty("No job was submitted or ended in this period."))
    starts = [slot.start_ms for slot in report.slots]
    layers = [
        ChartLayer(name, name, [getattr(slot, name) for slot in report.slots])
        for name in ENDS
        if report.total(name) or name == "succeeded"
    ]
    words = (
        (
            slot.start_ms,
            tuple(
                (say(name), scales.count(getattr(slot, name)))
                for name in ("submitted", *ENDS, "retried")
                if getattr(slot, name) or name in ("submitted", "succeeded")
            ),
        )
        for slot in report.slots
    )
    chart = with_tooltips(
        columns(frame, report.slot_ms, starts, layers), frame, report.slot_ms, words
    )
    return section(
        title,
        say("Jobs that ended, {every}.", every=scales.every(report.slot_ms)),
        join(
            legend(*((layer.style, say(layer.name)) for layer in layers)),
            chart,
            numbers(*_slot_numbers(report.slots, report.slot_ms)),
        ),
    )


def _slot_numbers(
    slots: Sequence[Slot], step_ms: int
) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    counts = ("submitted", *ENDS, "retried")
    head = [say("from (UTC)"), *map(say, counts)]
    head += [f"{say(name)} {part}" for name in ("wait", "run") for part in ("p50", "p95", "p99")]
    rows = []
    for slot in slots:
        row = [scales.slot_words(slot.start_ms, step_ms)]
        row += [scales.count(getattr(slot, name)) for name in counts]
        for one in (slot.wait, slot.run):
            row += [scales.duration(v) for v in (one.p50, one.p95, one.p99)] if one else ["–"] * 3
        rows.append(row)
    return head, rows


def latency(report: Report, frame: ChartFrame, name: str) -> Markup:
    """Percentiles of wait or run times."""
    is_wait = name == "wait"
    title = "Time in the queue" if is_wait else "Time of running"
    points = [(slot.start_ms, getattr(slot, name)) for slot in report.slots]
    known = [one for _, one in points if one is not None]
    if not known:
        return section(title, "", _empty("No attempt in this period."))
    what = (
        "From being ready to being assigned, {every}"
        if is_wait
        else "As the worker measured it, {every}"
    )
    # Percentiles of hours cannot be combined to those of a day: the maximum is shown.
    worst = "" if report.slot_ms <= scales.HOUR else ": the worst hour"
    total = report.wait if is_wait else report.run
    words = (
        (
            start,
            (
                ("p50", scales.duration(one.p50)),
                ("p95", scales.duration(one.p95)),
                ("p99", scales.duration(one.p99)),
            ),
        )
        for start, one in points
        if one is not None
    )
    plot = fan(frame, report.slot_ms, points)
    keys = [
        (part, f"{part} {scales.duration(getattr(total, part))}" if total else part)
        for part in ("p50", "p95", "p99")
    ]
    inner = tag(
        "div", legend(*keys), with_tooltips(plot, frame, report.slot_ms, words), class_=name
    )
    return section(title, say(f"{what}{worst}.", every=scales.every(report.slot_ms)), inner)


def depth_over_time(report: Report, frame: ChartFrame) -> Markup:
    """Waiting and running jobs over time."""
    title = "Depth"
    if not any(one.waiting or one.running for one in report.depth):
        return section(title, "", _empty("Nothing waited or ran at the end of any minute."))
    layers = [
        ChartLayer("waiting", "wait", [one.waiting for one in report.depth]),
        ChartLayer("running", "run", [one.running for one in report.depth]),
    ]
    starts = [one.start_ms for one in report.depth]
    words = (
        (
            one.start_ms,
            (
                (say("waiting"), scales.count(one.waiting)),
                (say("running"), scales.count(one.running)),
            ),
        )
        for one in report.depth
    )
    plot = levels(frame, report.depth_ms, starts, layers)
    caption = (
        "Jobs that wait and jobs that workers have: at the end, {every}."
        if report.depth_ms <= scales.MINUTE
        else "Jobs that wait and jobs that workers have: the most, {every}."
    )
    return section(
        title,
        say(caption, every=scales.every(report.depth_ms)),
        join(
            legend(("wait", say("waiting")), ("run", say("running"))),
            with_tooltips(plot, frame, report.depth_ms, words),
        ),
    )


def utilisation(report: Report, frame: ChartFrame) -> Markup:
    """The utilisation of workers."""
    title = "Utilisation of workers"
    if not report.heat.rows:
        return section(title, "", _empty("No worker was there."))
    more = report.heat.left_out
    ahead = "; jobs that it fetched ahead count, too" if report.slot_ms >= scales.HOUR else ""
    caption = say(f"Share of a worker's slots that were busy{ahead}. Hatched: it was not there.")
    if more:
        caption += say(
            " The {shown} busiest; {n} more are left out.",
            shown=len(report.heat.rows),
            n=scales.count(more),
        )
    key = tag("ul", tag("li", "0 %", tag("i", class_="ramp"), "100 %"), class_="legend")
    return section(title, caption, join(key, heat_map(frame, report.heat)))


def repeated(report: Report) -> Markup:
    """Failed attempts by cause."""
    title = "Attempts that came to nothing"
    if not report.retries:
        return section(title, "", _empty("Every attempt came to an end of its own."))
    return section(
        title,
        say("Lost, given back or tried again, by cause. The job ran again, or died."),
        bars(("cause", "attempts"), report.retries, "failed"),
    )


def dead_letters(report: Report) -> Markup:
    """Dead jobs by cause."""
    title = "Dead letters"
    if not report.dead:
        return section(title, "", _empty("No job died."))
    return section(title, say("By cause."), bars(("cause", "jobs"), report.dead, "dead"))


def share_section(name: str, title: str, rows: Sequence[ShareRow], left_out: int) -> Markup | str:
    """Figures by queue or by client."""
    if not rows:
        return ""
    more = say(" {n} with fewer jobs are left out.", n=scales.count(left_out)) if left_out else ""
    return section(title, f"{say('Those with most jobs first.')}{more}", shares(name, rows))


def slowest(report: Report) -> Markup:
    """Programs by run time."""
    title = "Slowest programs"
    if not report.execs:
        return section(title, "", _empty("No program ran."))
    caption = say("Run time of what ended in this period: dot p50, bar p95, end of the line p99.")
    if report.execs_left_out:
        caption += say(" {n} quicker ones are left out.", n=scales.count(report.execs_left_out))
    return section(title, caption, ranges(report.execs))


def lives(report: Report) -> Markup:
    """Timelines of notable jobs."""
    title = "The life of a job"
    if not report.stories:
        return section(title, "", _empty("No job to show."))
    now_ms = report.last_ms
    return section(
        title,
        say(
            "A row an attempt: first the wait, then the run. rollq report --job ID shows any other."
        ),
        join(*(story_of(one, now_ms, chart_marks(report)) for one in report.stories)),
    )


def data_checks(report: Report) -> Markup:
    """The data checks of the pipeline."""
    title = "Checks of the data"
    if not report.checks:
        return section(title, "", _empty("No batch was checked yet."))
    batches = max(one.batches for one in report.checks)
    caption = say("What must be so, asked of each batch; {n} so far.", n=scales.count(batches))
    unlike = [one for one in report.checks if one.failed or one.unknown]
    if not unlike:
        return section(title, caption, _empty("All of it is so."))
    return section(title, caption, check_rows(unlike))


def section(title: str, caption: str, inner: str, style: str | None = None) -> Markup:
    """A section with title and caption."""
    words = tag("p", caption, class_="soft") if caption else ""
    return tag("section", tag("h2", say(title)), words, inner, class_=style)


def _empty(words: str) -> Markup:
    return tag("p", say(words), class_="empty")
