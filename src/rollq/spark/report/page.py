"""The page: a headline, the figures, then one section a question. It needs nothing from elsewhere
and runs no script; a browser is told to allow none."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rollq.spark.report import scales
from rollq.spark.report.charts import ChartFrame, Layer, columns, fan, legend, levels, with_words
from rollq.spark.report.findings import findings
from rollq.spark.report.marks import Markup, join, tag
from rollq.spark.report.model import Percentiles, Report, Slot
from rollq.spark.report.stories import story_of
from rollq.spark.report.style import STYLE
from rollq.spark.report.tables import bars, heat_map, numbers, ranges

POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
ENDS: Final = ("succeeded", "failed", "dead", "cancelled")


def page_of(report: Report) -> str:
    """The whole page as one text."""
    groups = ", ".join(dict.fromkeys(span.group for span in report.spans if span.group))
    title = f"rollq report{': ' if groups else ''}{groups}"
    frame = _frame(report)
    body = tag(
        "main",
        _head(report, title),
        _tiles(report),
        _attention(report),
        _throughput(report, frame),
        tag("div", _latency(report, frame, "wait"), _latency(report, frame, "run"), class_="pair"),
        _depth(report, frame),
        _utilisation(report, frame),
        tag("div", _retries(report), _dead(report), class_="pair"),
        _execs(report),
        _stories(report),
        _foot(report),
    )
    head = tag(
        "head",
        Markup('<meta charset="utf-8">'),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'),
        Markup('<meta name="viewport" content="width=device-width,initial-scale=1">'),
        Markup('<meta name="color-scheme" content="light dark">'),
        tag("title", title),
        tag("style", Markup(STYLE)),
    )
    return "<!doctype html>\n" + tag("html", head, tag("body", body), lang="en") + "\n"


def _frame(report: Report) -> ChartFrame:
    """From the begin of the first slot to the end of the last."""
    if not report.slots:
        return ChartFrame(report.first_ms, report.first_ms + 1)
    return ChartFrame(report.slots[0].start_ms, report.slots[-1].start_ms + report.slot_ms)


def _head(report: Report, title: str) -> Markup:
    entries = [
        (
            "group",
            f"{span.group or '(no name)'}, log index {span.first_index} to {span.last_index}, "
            f"{scales.count(span.events)} rows",
        )
        for span in report.spans
    ]
    entries += [("made", f"{scales.when(report.made_ms)} UTC"), ("tables", report.source)]
    return tag(
        "header",
        tag("h1", title),
        tag("p", _headline(report), class_="lead"),
        tag(
            "dl",
            *(tag("div", tag("dt", name), tag("dd", value)) for name, value in entries),
            class_="source",
        ),
    )


def _headline(report: Report) -> str:
    """The report in two sentences."""
    if not report.slots:
        return "Nothing happened yet: the tables hold no jobs."
    length = scales.duration(report.last_ms - report.first_ms)
    submitted, ended = report.total("submitted"), report.total("ended")
    bad = report.total("failed") + report.total("dead")
    how = (
        "all of them well"
        if ended and not bad and not report.total("cancelled")
        else (f"{scales.share(report.total('succeeded'), ended)} of them well")
    )
    return (
        f"{scales.when(report.first_ms)} to {scales.when(report.last_ms)} UTC ({length}): "
        f"{scales.count(submitted)} jobs were submitted and {scales.count(ended)} ended"
        + (f", {how}." if ended else ".")
        + _balance(report)
    )


def _balance(report: Report) -> str:
    """Why as many jobs ended as did: open before + submitted + redriven = ended + open after."""
    parts = [
        (report.open_before, "open when this period began"),
        (report.redriven, "redriven"),
        (report.open_after, "still open at its end"),
        (-report.open_after, "submitted before the history that is left begins"),
    ]
    said = [f"{scales.count(number)} {what}" for number, what in parts if number > 0]
    return f" Jobs beside these: {', '.join(said)}." if said else ""


def _tiles(report: Report) -> Markup | str:
    if not report.slots:
        return ""
    ended = report.total("ended")
    peak = max(slot.ended for slot in report.slots)
    moved = report.cache_hit_bytes + report.cache_miss_bytes
    entries = [
        ("submitted", scales.count(report.total("submitted")), ""),
        (
            "succeeded",
            scales.count(report.total("succeeded")),
            scales.share(report.total("succeeded"), ended),
        ),
        (
            "failed",
            scales.count(report.total("failed")),
            scales.share(report.total("failed"), ended),
        ),
        ("dead", scales.count(report.total("dead")), scales.share(report.total("dead"), ended)),
        ("retries", scales.count(report.total("retried")), ""),
        ("peak", _rate(peak, report.slot_ms), "jobs ended a second"),
        ("wait p95", _p95(report.wait), _p50(report.wait)),
        ("run p95", _p95(report.run), _p50(report.run)),
    ]
    if report.bytes_moved or moved:
        hits = f"{scales.share(report.cache_hit_bytes, moved)} from caches" if moved else ""
        entries.append(("files moved", scales.size(report.bytes_moved), hits))
    return tag(
        "dl",
        *(
            tag("div", tag("dt", name), tag("dd", value, tag("small", more) if more else ""))
            for name, value, more in entries
        ),
        class_="tiles",
    )


def _attention(report: Report) -> Markup | str:
    found = findings(report)
    if not found:
        return ""
    return _section("Look at", "", tag("ul", *(tag("li", one) for one in found)), "attention")


def _throughput(report: Report, frame: ChartFrame) -> Markup:
    title = "Throughput"
    if not report.total("ended") and not report.total("submitted"):
        return _section(title, "", _empty("No job was submitted or ended in this period."))
    starts = [slot.start_ms for slot in report.slots]
    layers = [
        Layer(name, name, [getattr(slot, name) for slot in report.slots])
        for name in ENDS
        if report.total(name) or name == "succeeded"
    ]
    words = (
        (
            slot.start_ms,
            tuple(
                (name, scales.count(getattr(slot, name)))
                for name in ("submitted", *ENDS, "retried")
                if getattr(slot, name) or name in ("submitted", "succeeded")
            ),
        )
        for slot in report.slots
    )
    chart = with_words(columns(frame, report.slot_ms, starts, layers), frame, report.slot_ms, words)
    return _section(
        title,
        f"Jobs that ended, {scales.every(report.slot_ms)}.",
        join(
            legend(*((layer.style, layer.name) for layer in layers)),
            chart,
            numbers(*_slot_numbers(report.slots, report.slot_ms)),
        ),
    )


def _slot_numbers(
    slots: Sequence[Slot], step_ms: int
) -> tuple[Sequence[str], Sequence[Sequence[str]]]:
    counts = ("submitted", *ENDS, "retried")
    head = ["from (UTC)", *counts]
    head += [f"{name} {part}" for name in ("wait", "run") for part in ("p50", "p95", "p99")]
    rows = []
    for slot in slots:
        row = [scales.slot_words(slot.start_ms, step_ms)]
        row += [scales.count(getattr(slot, name)) for name in counts]
        for one in (slot.wait, slot.run):
            row += [scales.duration(v) for v in (one.p50, one.p95, one.p99)] if one else ["–"] * 3
        rows.append(row)
    return head, rows


def _latency(report: Report, frame: ChartFrame, name: str) -> Markup:
    is_wait = name == "wait"
    title = "Time in the queue" if is_wait else "Time of running"
    points = [(slot.start_ms, getattr(slot, name)) for slot in report.slots]
    known = [one for _, one in points if one is not None]
    if not known:
        return _section(title, "", _empty("No attempt in this period."))
    what = "From being ready to being assigned" if is_wait else "As the worker measured it"
    # Percentiles of hours do not add up to those of a day: the worst hour stands for it.
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
    inner = tag("div", legend(*keys), with_words(plot, frame, report.slot_ms, words), class_=name)
    return _section(title, f"{what}, {scales.every(report.slot_ms)}{worst}.", inner)


def _depth(report: Report, frame: ChartFrame) -> Markup:
    title = "Depth"
    if not any(one.waiting or one.running for one in report.depth):
        return _section(title, "", _empty("Nothing waited or ran at the end of any minute."))
    layers = [
        Layer("waiting", "wait", [one.waiting for one in report.depth]),
        Layer("running", "run", [one.running for one in report.depth]),
    ]
    starts = [one.start_ms for one in report.depth]
    words = (
        (
            one.start_ms,
            (("waiting", scales.count(one.waiting)), ("running", scales.count(one.running))),
        )
        for one in report.depth
    )
    plot = levels(frame, report.depth_ms, starts, layers)
    which = "at the end" if report.depth_ms <= scales.MINUTE else "the most"
    return _section(
        title,
        f"Jobs that wait and jobs that workers have: {which}, {scales.every(report.depth_ms)}.",
        join(
            legend(("wait", "waiting"), ("run", "running")),
            with_words(plot, frame, report.depth_ms, words),
        ),
    )


def _utilisation(report: Report, frame: ChartFrame) -> Markup:
    title = "Utilisation of workers"
    if not report.heat.rows:
        return _section(title, "", _empty("No worker was there."))
    more = report.heat.left_out
    ahead = "; jobs that it fetched ahead count, too" if report.slot_ms >= scales.HOUR else ""
    caption = f"Share of a worker's slots that were busy{ahead}. Hatched: it was not there."
    if more:
        caption += f" The {len(report.heat.rows)} busiest; {scales.count(more)} more are left out."
    key = tag("ul", tag("li", "0 %", tag("i", class_="ramp"), "100 %"), class_="legend")
    return _section(title, caption, join(key, heat_map(frame, report.heat)))


def _retries(report: Report) -> Markup:
    title = "Attempts that came to nothing"
    if not report.retries:
        return _section(title, "", _empty("Every attempt came to an end of its own."))
    return _section(
        title,
        "Lost, given back or tried again, by cause. The job ran again, or died.",
        bars(("cause", "attempts"), report.retries, "failed"),
    )


def _dead(report: Report) -> Markup:
    title = "Dead letters"
    if not report.dead:
        return _section(title, "", _empty("No job died."))
    return _section(title, "By cause.", bars(("cause", "jobs"), report.dead, "dead"))


def _execs(report: Report) -> Markup:
    title = "Slowest programs"
    if not report.execs:
        return _section(title, "", _empty("No program ran."))
    caption = "Run time of all that is known: dot p50, bar p95, end of the line p99."
    if report.execs_left_out:
        caption += f" {scales.count(report.execs_left_out)} quicker ones are left out."
    return _section(title, caption, ranges(report.execs))


def _stories(report: Report) -> Markup:
    title = "The life of a job"
    if not report.stories:
        return _section(title, "", _empty("No job to show."))
    now_ms = report.last_ms
    return _section(
        title,
        "A row an attempt: first the wait, then the run. rollq report --job ID shows any other.",
        join(*(story_of(one, now_ms) for one in report.stories)),
    )


def _foot(report: Report) -> Markup:
    return tag(
        "footer",
        "All times in UTC. Made by rollq report from the tables of rollq pipeline; this file holds "
        "everything it shows.",
    )


def _section(title: str, caption: str, inner: str, style: str | None = None) -> Markup:
    words = tag("p", caption, class_="soft") if caption else ""
    return tag("section", tag("h2", title), words, inner, class_=style)


def _empty(words: str) -> Markup:
    return tag("p", words, class_="empty")


def _rate(number: int, step_ms: int) -> str:
    rate = number * 1000 / step_ms
    return scales.count(round(rate) if rate >= 10 else round(rate, 1))


def _p95(one: Percentiles | None) -> str:
    return scales.duration(one.p95) if one else "–"


def _p50(one: Percentiles | None) -> str:
    return f"p50 {scales.duration(one.p50)}" if one else ""
