"""The page: a headline, key figures, then the sections. It is self-contained and has no scripts;
a Content-Security-Policy forbids them."""

from __future__ import annotations

from typing import Final

from rollq.spark.report import scales
from rollq.spark.report.charts import ChartFrame
from rollq.spark.report.findings import findings
from rollq.spark.report.happened import chart_marks
from rollq.spark.report.marks import Markup, tag
from rollq.spark.report.model import Percentiles, Report
from rollq.spark.report.sections import (
    beside_before,
    data_checks,
    dead_letters,
    depth_over_time,
    latency,
    lives,
    repeated,
    section,
    share_section,
    slowest,
    throughput,
    utilisation,
    what_happened,
)
from rollq.spark.report.style import STYLE
from rollq.spark.report.words import ENGLISH, say, speaking

POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def page_of(report: Report, language: str = ENGLISH) -> str:
    """The page as text; `language` is one of `words.LANGUAGES`."""
    with speaking(language):
        return _page(report, language)


def _page(report: Report, language: str) -> str:
    groups = ", ".join(dict.fromkeys(span.group for span in report.spans if span.group))
    title = f"{say('rollq report')}{': ' if groups else ''}{groups}"
    frame = _frame(report)
    body = tag(
        "main",
        _head(report, title),
        _tiles(report),
        _attention(report),
        what_happened(report),
        beside_before(report),
        throughput(report, frame),
        tag("div", latency(report, frame, "wait"), latency(report, frame, "run"), class_="pair"),
        depth_over_time(report, frame),
        utilisation(report, frame),
        tag("div", repeated(report), dead_letters(report), class_="pair"),
        share_section("queue", "Queues", report.queues, report.queues_left_out),
        share_section("client", "Clients", report.clients, report.clients_left_out),
        slowest(report),
        lives(report),
        data_checks(report),
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
    return "<!doctype html>\n" + tag("html", head, tag("body", body), lang=language) + "\n"


def _frame(report: Report) -> ChartFrame:
    """From the start of the first slot to the end of the last."""
    if not report.slots:
        return ChartFrame(report.first_ms, report.first_ms + 1)
    last = report.slots[-1].start_ms + report.slot_ms
    return ChartFrame(report.slots[0].start_ms, last, chart_marks(report))


def _head(report: Report, title: str) -> Markup:
    entries = [
        (
            say("group"),
            say(
                "{group}, log index {first} to {last}, {rows} rows",
                group=span.group or say("(no name)"),
                first=span.first_index,
                last=span.last_index,
                rows=scales.count(span.events),
            ),
        )
        for span in report.spans
    ]
    entries += [
        (say("made"), f"{scales.when(report.made_ms)} UTC"),
        (say("tables"), report.source),
    ]
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
    """A summary in two sentences."""
    if not report.slots:
        return say("Nothing happened yet: the tables hold no jobs.")
    length = scales.duration(report.last_ms - report.first_ms)
    submitted, ended = report.total("submitted"), report.total("ended")
    bad = report.total("failed") + report.total("dead")
    how = (
        say("all of them well")
        if ended and not bad and not report.total("cancelled")
        else say("{share} of them well", share=scales.share(report.total("succeeded"), ended))
    )
    return (
        say(
            "{first} to {last} UTC ({length}): {submitted} jobs were submitted and {ended} ended",
            first=scales.when(report.first_ms),
            last=scales.when(report.last_ms),
            length=length,
            submitted=scales.count(submitted),
            ended=scales.count(ended),
        )
        + (say(", {how}.", how=how) if ended else say("."))
        + _balance(report)
    )


def _balance(report: Report) -> str:
    """The balance of jobs: open before + submitted + redriven = ended + open after."""
    parts = [
        (report.open_before, "{n} open when this period began"),
        (report.redriven, "{n} redriven"),
        (report.open_after, "{n} still open at its end"),
        (-report.open_after, "{n} submitted before the history that is left begins"),
    ]
    said = [say(what, n=scales.count(number)) for number, what in parts if number > 0]
    return say(" Jobs beside these: {parts}.", parts=say(", ").join(said)) if said else ""


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
        (
            "peak",
            scales.count(peak),
            say("jobs ended in {length}", length=scales.duration(report.slot_ms)),
        ),
        ("wait p95", _p95(report.wait), _p50(report.wait)),
        ("run p95", _p95(report.run), _p50(report.run)),
    ]
    if report.bytes_moved or moved:
        share = scales.share(report.cache_hit_bytes, moved)
        hits = say("{share} from caches", share=share) if moved else ""
        entries.append(("files moved", scales.size(report.bytes_moved), hits))
    return tag(
        "dl",
        *(
            tag("div", tag("dt", say(name)), tag("dd", value, tag("small", more) if more else ""))
            for name, value, more in entries
        ),
        class_="tiles",
    )


def _attention(report: Report) -> Markup | str:
    found = findings(report)
    if not found:
        return ""
    return section("Look at", "", tag("ul", *(tag("li", one) for one in found)), "attention")


def _foot(report: Report) -> Markup:
    return tag(
        "footer",
        say(
            "All times in UTC. Made by rollq report from the tables of rollq pipeline; this file "
            "holds everything it shows."
        ),
    )


def _p95(one: Percentiles | None) -> str:
    return scales.duration(one.p95) if one else "–"


def _p50(one: Percentiles | None) -> str:
    return f"p50 {scales.duration(one.p50)}" if one else ""
