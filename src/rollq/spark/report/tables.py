"""Tables with drawn rows: bars for causes, ranges for programs, a heat map for workers. Screen
readers get them as plain tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rollq.spark.report import scales
from rollq.spark.report.charts import ChartFrame, mark_shapes, time_axis
from rollq.spark.report.marks import Markup, join, short, tag
from rollq.spark.report.model import (
    CauseRow,
    CheckRow,
    ExecRow,
    Heat,
    Percentiles,
    ShareRow,
    WorkerFigures,
)
from rollq.spark.report.scales import Axis
from rollq.spark.report.words import known, say

NAME_LETTERS: Final = 60
DETAIL_LETTERS: Final = 160


def bars(head: tuple[str, str], rows: Sequence[CauseRow], style: str) -> Markup:
    """Causes, the most frequent first, with a bar and their programs."""
    maximum = max((row.count for row in rows), default=1) or 1
    body = [
        tag(
            "tr",
            tag("th", known(short(row.cause, NAME_LETTERS).replace("_", " ")), scope="row"),
            tag("td", scales.count(row.count), class_="n"),
            tag("td", _bar(row.count / maximum, style), class_="wide", aria_hidden="true"),
            tag("td", _execs(row), class_="soft"),
        )
        for row in rows
    ]
    titles = tag(
        "tr",
        *(tag("th", say(title), scope="col") for title in head),
        tag("td"),
        tag("th", say("programs"), scope="col", class_="soft"),
    )
    return tag("table", tag("thead", titles), tag("tbody", *body), class_="drawn")


def check_rows(rows: Sequence[CheckRow]) -> Markup:
    """Checks that failed or were unknown."""
    head = ("check", "group", "batches", "failed", "not known", "failed last in batch")
    body = [
        tag(
            "tr",
            tag("th", row.name, scope="row"),
            tag("td", short(row.group, NAME_LETTERS)),
            *(
                tag("td", scales.count(number) if number else "–", class_="n")
                for number in (row.batches, row.failed, row.unknown, row.last_failed)
            ),
        )
        for row in rows
    ]
    titles = tag("tr", *(tag("th", say(title), scope="col") for title in head))
    return tag("table", tag("thead", titles), tag("tbody", *body))


def ranges(rows: Sequence[ExecRow]) -> Markup:
    """Programs with their run times, from p50 to p99."""
    axis = scales.duration_axis(
        [value for row in rows if row.run for value in (row.run.p50, row.run.p99)]
    )
    body = []
    for row in rows:
        run = row.run
        drawing = _range(axis, run) if run else ""
        times = [scales.duration(one) for one in (run.p50, run.p95, run.p99)] if run else ["–"] * 3
        body.append(
            tag(
                "tr",
                tag("th", short(row.exec_name, NAME_LETTERS), scope="row"),
                tag("td", drawing, class_="wide", aria_hidden="true"),
                *(tag("td", one, class_="n") for one in times),
                tag("td", scales.duration(row.wait.p95) if row.wait else "–", class_="n"),
                tag("td", scales.count(row.jobs), class_="n"),
                tag("td", _mark(row.failed, "failed"), class_="n"),
                tag("td", _mark(row.dead, "dead"), class_="n"),
                tag("td", scales.count(row.retried), class_="n"),
            )
        )
    scale = tag(
        "div",
        *(
            tag("span", scales.duration(t), style=f"left:{axis.place(t) * 100:.1f}%")
            for t in (axis.ticks[0], axis.ticks[-1])
        ),
        class_="xs ends",
        aria_hidden="true",
    )
    names = ("p50", "p95", "p99", "wait p95", "jobs", "failed", "dead", "retried")
    head = tag(
        "tr",
        tag("th", say("program"), scope="col"),
        tag("td", scale, class_="wide"),
        *(tag("th", known(name), scope="col", class_="n") for name in names),
    )
    table = tag("table", tag("thead", head), tag("tbody", *body), class_="drawn")
    return tag("div", table, class_="scroll")


def heat_map(frame: ChartFrame, heat: Heat) -> Markup:
    """Workers by time: the darker the busier."""
    rows = []
    for worker in heat.rows:
        cells = []
        for start, cell in zip(heat.starts_ms, worker.cells, strict=True):
            if cell is None:
                continue
            left, right = frame.x(start), frame.x(start + heat.step_ms)
            words = f"{scales.slot_words(start, heat.step_ms)}: {scales.share(cell, 1)}"
            cells.append(
                tag(
                    "rect",
                    tag("title", words),
                    x=left,
                    y=0,
                    width=max(0.5, right - left),
                    height=20,
                    fill_opacity=0.06 + 0.94 * min(max(cell, 0.0), 1.0),
                )
            )
        connected = _connected_slots(frame, heat, worker)
        shapes = (*connected, *cells, *mark_shapes(frame, 20))
        drawing = tag("svg", *shapes, viewBox="0 0 1000 20", preserveAspectRatio="none")
        slots = say("{n} slot" if worker.slots == 1 else "{n} slots", n=worker.slots)
        rows.append(
            tag(
                "tr",
                tag("th", short(worker.name, 24), tag("small", slots), scope="row"),
                tag("td", drawing, class_="wide", aria_hidden="true"),
                tag("td", scales.share(worker.utilisation, 1), class_="n"),
            )
        )
    axis = tag("tr", tag("td"), tag("td", time_axis(frame, 5), class_="wide"), tag("td"))
    head = tag(
        "tr",
        tag("th", say("worker"), scope="col"),
        tag("td"),
        tag("th", say("busy"), scope="col"),
    )
    return tag("table", tag("thead", head), tag("tbody", *rows, axis), class_="drawn heat")


def shares(title: str, rows: Sequence[ShareRow]) -> Markup:
    """Queues or clients, those with most jobs first."""
    maximum = max((row.submitted for row in rows), default=1) or 1
    names = ("submitted", "succeeded", "failed", "dead", "retried", "wait p95", "run p95")
    head = tag(
        "tr",
        tag("th", say(title), scope="col"),
        tag("td"),
        *(tag("th", say(name), scope="col", class_="n") for name in names),
    )
    body = [
        tag(
            "tr",
            tag("th", short(row.name, NAME_LETTERS) or say("(none)"), scope="row"),
            tag("td", _bar(row.submitted / maximum, "run"), class_="wide", aria_hidden="true"),
            tag("td", scales.count(row.submitted), class_="n"),
            tag("td", scales.count(row.succeeded), class_="n"),
            tag("td", _mark(row.failed, "failed"), class_="n"),
            tag("td", _mark(row.dead, "dead"), class_="n"),
            tag("td", scales.count(row.retried), class_="n"),
            *(
                tag("td", scales.duration(one.p95) if one else "–", class_="n")
                for one in (row.wait, row.run)
            ),
        )
        for row in rows
    ]
    table = tag("table", tag("thead", head), tag("tbody", *body), class_="drawn shares")
    return tag("div", table, class_="scroll")


def compared(rows: Sequence[tuple[str, str, str, str]]) -> Markup:
    """Figures of two periods: name, before, now, and change."""
    head = tag(
        "tr",
        tag("td"),
        *(tag("th", say(name), scope="col") for name in ("before", "now", "change")),
    )
    body = (
        tag("tr", tag("th", row[0], scope="row"), *(tag("td", cell) for cell in row[1:]))
        for row in rows
    )
    table = tag("table", tag("thead", head), tag("tbody", *body), class_="plain")
    return tag("div", table, class_="scroll")


def numbers(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Markup:
    """A collapsed table of plain figures."""
    table = tag(
        "table",
        tag("thead", tag("tr", *(tag("th", name, scope="col") for name in head))),
        tag(
            "tbody",
            *(
                tag("tr", tag("th", row[0], scope="row"), *(tag("td", cell) for cell in row[1:]))
                for row in rows
            ),
        ),
        class_="plain",
    )
    return tag("details", tag("summary", say("Numbers")), tag("div", table, class_="scroll"))


def _connected_slots(frame: ChartFrame, heat: Heat, worker: WorkerFigures) -> list[Markup]:
    """Background rectangles for slots in which a worker was connected, to tell idle from absent."""
    pieces: list[tuple[float, float]] = []
    for start, cell in zip(heat.starts_ms, worker.cells, strict=True):
        left, right = frame.x(start), frame.x(start + heat.step_ms)
        if cell is None:
            continue
        if pieces and pieces[-1][1] == left:
            pieces[-1] = (pieces[-1][0], right)
        else:
            pieces.append((left, right))
    return [
        tag("rect", class_="there", x=left, y=0, width=right - left, height=20)
        for left, right in pieces
    ]


def _range(axis: Axis, run: Percentiles) -> Markup:
    low, middle, high = (axis.place(max(one, 1)) * 100 for one in (run.p50, run.p95, run.p99))
    grid = "".join(f"M{axis.place(t) * 100:.1f} 0V20" for t in axis.ticks)
    return tag(
        "svg",
        tag("path", class_="grid", d=grid),
        tag("path", class_="line run thin", d=f"M{low:.2f} 10H{high:.2f}"),
        tag("path", class_="line run dot", d=f"M{low:.2f} 10h0"),
        tag("path", class_="line run bar", d=f"M{middle:.2f} 6V14"),
        viewBox="0 0 100 20",
        preserveAspectRatio="none",
    )


def _bar(part: float, style: str) -> Markup:
    return tag(
        "svg",
        tag("path", class_=f"fill {style}", d=f"M0 3H{max(part * 100, 0.5):.2f}V17H0z"),
        viewBox="0 0 100 20",
        preserveAspectRatio="none",
    )


def _execs(row: CauseRow) -> str:
    names = ", ".join(f"{short(name, NAME_LETTERS)} ({scales.count(n)})" for name, n in row.execs)
    return short(names, DETAIL_LETTERS)


def _mark(value: int, style: str) -> str:
    """A count, highlighted unless it is 0."""
    return join(tag("b", scales.count(value), class_=f"ink {style}")) if value else "0"
