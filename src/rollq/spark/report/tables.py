"""Tables whose rows are drawn: bars for causes, ranges for programs, a map of heat for workers.
They are tables for those who cannot see the drawing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from rollq.spark.report import scales
from rollq.spark.report.charts import ChartFrame, time_axis
from rollq.spark.report.marks import Markup, join, short, tag
from rollq.spark.report.model import CauseRow, ExecRow, Heat, Percentiles, WorkerFigures

NAME_LETTERS: Final = 60
DETAIL_LETTERS: Final = 160


def bars(head: tuple[str, str], rows: Sequence[CauseRow], style: str) -> Markup:
    """Causes, the most frequent first, each with its bar and the programs it hit."""
    most = max((row.count for row in rows), default=1) or 1
    body = [
        tag(
            "tr",
            tag("th", short(row.cause, NAME_LETTERS).replace("_", " "), scope="row"),
            tag("td", scales.count(row.count), class_="n"),
            tag("td", _bar(row.count / most, style), class_="wide", aria_hidden="true"),
            tag("td", _execs(row), class_="soft"),
        )
        for row in rows
    ]
    titles = tag(
        "tr",
        *(tag("th", title, scope="col") for title in head),
        tag("td"),
        tag("th", "programs", scope="col"),
    )
    return tag("table", tag("thead", titles), tag("tbody", *body), class_="drawn")


def ranges(rows: Sequence[ExecRow]) -> Markup:
    """Programs with the range of their run time: from the middle to the slowest of a hundred."""
    axis = scales.duration_axis(
        [value for row in rows if row.run for value in (row.run.p50, row.run.p99)]
    )
    body = []
    for row in rows:
        run = row.run or Percentiles(0, 0, 0)
        low, middle, high = (axis.place(max(one, 1)) * 100 for one in (run.p50, run.p95, run.p99))
        drawing = tag(
            "svg",
            tag(
                "path",
                class_="grid",
                d="".join(f"M{axis.place(t) * 100:.1f} 0V20" for t in axis.ticks),
            ),
            tag("path", class_="line run thin", d=f"M{low:.2f} 10H{high:.2f}"),
            tag("path", class_="line run dot", d=f"M{low:.2f} 10h0"),
            tag("path", class_="line run bar", d=f"M{middle:.2f} 6V14"),
            viewBox="0 0 100 20",
            preserveAspectRatio="none",
        )
        body.append(
            tag(
                "tr",
                tag("th", short(row.exec_name, NAME_LETTERS), scope="row"),
                tag("td", drawing, class_="wide", aria_hidden="true"),
                *(
                    tag("td", scales.duration(one), class_="n")
                    for one in (run.p50, run.p95, run.p99)
                ),
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
        tag("th", "program", scope="col"),
        tag("td", scale, class_="wide"),
        *(tag("th", name, scope="col", class_="n") for name in names),
    )
    table = tag("table", tag("thead", head), tag("tbody", *body), class_="drawn")
    return tag("div", table, class_="scroll")


def heat_map(frame: ChartFrame, heat: Heat) -> Markup:
    """Workers by time: the fuller the colour, the busier."""
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
        there = _there(frame, heat, worker)
        drawing = tag("svg", *there, *cells, viewBox="0 0 1000 20", preserveAspectRatio="none")
        slots = f"{worker.slots} slot{'' if worker.slots == 1 else 's'}"
        rows.append(
            tag(
                "tr",
                tag("th", short(worker.name, 24), tag("small", slots), scope="row"),
                tag("td", drawing, class_="wide", aria_hidden="true"),
                tag("td", scales.share(worker.utilisation, 1), class_="n"),
            )
        )
    axis = tag("tr", tag("td"), tag("td", time_axis(frame, 5), class_="wide"), tag("td"))
    head = tag("tr", tag("th", "worker", scope="col"), tag("td"), tag("th", "busy", scope="col"))
    return tag("table", tag("thead", head), tag("tbody", *rows, axis), class_="drawn heat")


def numbers(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Markup:
    """Plain figures, for those who want them: folded away until asked for."""
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
    return tag("details", tag("summary", "Numbers"), tag("div", table, class_="scroll"))


def _there(frame: ChartFrame, heat: Heat, worker: WorkerFigures) -> list[Markup]:
    """Plain ground below the pieces in which a worker was there, so that idle is not gone."""
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
    """A count that stands out if it is not nothing."""
    return join(tag("b", scales.count(value), class_=f"ink {style}")) if value else "0"
