"""Charts over time. The drawing is stretched to the width of the page while its labels are not:
shapes are SVG in a box of 1000 by 100, labels are text positioned in percent. So a phone shows the
same chart with text of the same size. No script: a slot shows its figures on hover or touch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from rollq.spark.report import scales
from rollq.spark.report.marks import Markup, join, tag
from rollq.spark.report.model import Percentiles
from rollq.spark.report.scales import Axis

WIDTH: Final = 1000.0
HEIGHT: Final = 100.0
LABEL_GAP_PERCENT: Final = 4.0

Point = tuple[float, float]
TooltipLines = tuple[tuple[str, str], ...]  # lines of a tooltip: name and value


@dataclass(frozen=True, slots=True)
class ChartMark:
    """A time or interval that is marked on every axis."""

    label: str
    style: str
    at_ms: int
    until_ms: int | None = None


@dataclass(frozen=True, slots=True)
class ChartFrame:
    """The time range shared by all charts of a page."""

    first_ms: int
    last_ms: int
    marks: tuple[ChartMark, ...] = ()

    def x(self, at_ms: float) -> float:
        """The x coordinate of a time."""
        length = max(1, self.last_ms - self.first_ms)
        return min(max((at_ms - self.first_ms) / length, 0.0), 1.0) * WIDTH


@dataclass(frozen=True, slots=True)
class ChartLayer:
    """One series of stacked columns, from the bottom up."""

    name: str
    style: str
    values: Sequence[float]


def columns(
    frame: ChartFrame, step_ms: int, starts: Sequence[int], layers: Sequence[ChartLayer]
) -> Markup:
    """Stacked columns, one per slot."""
    sums = [sum(column) for column in zip(*(one.values for one in layers), strict=True)]
    axis = scales.count_axis(sums)
    shapes: list[Markup] = []
    foot = [0.0] * len(starts)
    for layer in layers:
        path: list[str] = []
        for place, (start, value) in enumerate(zip(starts, layer.values, strict=True)):
            if not value:
                continue
            left, right = frame.x(start), frame.x(start + step_ms)
            gap = min(1.0, (right - left) * 0.12)
            low, high = _y(axis, foot[place]), _y(axis, foot[place] + value)
            path.append(_box(left + gap, high, right - left - 2 * gap, low - high))
            foot[place] += value
        if path:
            shapes.append(tag("path", class_=f"fill {layer.style}", d="".join(path)))
    return _plot(frame, axis, scales.tick_count, shapes)


def fan(
    frame: ChartFrame, step_ms: int, points: Sequence[tuple[int, Percentiles | None]]
) -> Markup:
    """Percentiles: the median as a line, the tail above it as a fan. Slots without values leave a
    gap."""
    known = [one for _, one in points if one is not None]
    axis = scales.duration_axis([value for one in known for value in (one.p50, one.p99)])
    shapes: list[Markup] = []
    for run in _runs(points):
        xs = [frame.x(start + step_ms / 2) for start, _ in run]
        p50, p95, p99 = (
            [(x, _y(axis, getattr(one, name))) for x, (_, one) in zip(xs, run, strict=True)]
            for name in ("p50", "p95", "p99")
        )
        shapes += [
            tag("path", class_="fill tail", d=_band(p95, p99)),
            tag("path", class_="fill body", d=_band(p50, p95)),
            tag("path", class_="line p99", d=_line(p99)),
            tag("path", class_="line p95", d=_line(p95)),
            tag("path", class_="line p50", d=_line(p50)),
        ]
    return _plot(frame, axis, scales.duration, shapes)


def levels(
    frame: ChartFrame, step_ms: int, starts: Sequence[int], layers: Sequence[ChartLayer]
) -> Markup:
    """Levels over time, as steps: each series is an area from the bottom, the first one behind."""
    axis = scales.count_axis([value for one in layers for value in one.values])
    shapes: list[Markup] = []
    for layer in layers:
        steps: list[Point] = []
        for start, value in zip(starts, layer.values, strict=True):
            y = _y(axis, value)
            steps += [(frame.x(start), y), (frame.x(start + step_ms), y)]
        if steps:
            foot = [(steps[0][0], HEIGHT), (steps[-1][0], HEIGHT)]
            shapes.append(tag("path", class_=f"fill soft {layer.style}", d=_band(foot, steps)))
            shapes.append(tag("path", class_=f"line {layer.style}", d=_line(steps)))
    return _plot(frame, axis, scales.tick_count, shapes)


def with_tooltips(
    plot: Markup, frame: ChartFrame, step_ms: int, words: Iterable[tuple[int, TooltipLines]]
) -> str:
    """A chart with a tooltip for each slot."""
    hits: list[Markup] = []
    for start, lines in words:
        left = frame.x(start) / WIDTH * 100
        width = frame.x(start + step_ms) / WIDTH * 100 - left
        rows = [tag("strong", scales.slot_words(start, step_ms))]
        rows += [tag("span", f"{name} ", tag("em", value)) for name, value in lines]
        hits.append(
            tag(
                "i",
                tag("b", *rows),
                class_="r" if left > 50 else None,
                tabindex="-1",  # focusable by touch, skipped by the keyboard
                style=f"left:{left:.2f}%;width:{width:.2f}%",
            )
        )
    return join(
        tag("div", plot, tag("div", *hits, class_="hits", aria_hidden="true"), class_="chart")
    )


def legend(*entries: tuple[str, str]) -> Markup:
    """A legend: style and name of each series."""
    return tag(
        "ul",
        *(tag("li", tag("i", class_=f"key {style}"), name) for style, name in entries),
        class_="legend",
    )


def time_axis(frame: ChartFrame, most: int = 7) -> Markup:
    """The labels of a time axis. Every other one is hidden on a narrow page."""
    return _axis(frame, scales.time_ticks(frame.first_ms, frame.last_ms, most))


def length_axis(frame: ChartFrame) -> Markup:
    """The labels of an axis of elapsed time."""
    ticks = scales.length_ticks(frame.last_ms - frame.first_ms)
    return _axis(frame, [(frame.first_ms + after, words) for after, words in ticks])


def mark_shapes(frame: ChartFrame, height: float) -> list[Markup]:
    """Lines at incidents, and bands over their duration."""
    shapes = []
    for mark in frame.marks:
        end = mark.at_ms if mark.until_ms is None else mark.until_ms
        if end < frame.first_ms or mark.at_ms > frame.last_ms:
            continue
        left = frame.x(mark.at_ms)
        if end > mark.at_ms:
            band = _box(left, 0, max(frame.x(end) - left, 1.0), height)
            shapes.append(tag("path", class_=f"fill band {mark.style}", d=band))
        shapes.append(tag("path", class_=f"line mark {mark.style}", d=f"M{left:.1f} 0V{height:g}"))
    return shapes


def _mark_labels(frame: ChartFrame) -> Markup | str:
    """The numbers of the marks; those that would overlap are merged."""
    places: list[tuple[float, str, str]] = []
    for mark in frame.marks:
        if frame.first_ms <= mark.at_ms <= frame.last_ms:
            place = frame.x(mark.at_ms) / WIDTH * 100
            if places and place - places[-1][0] < LABEL_GAP_PERCENT:
                first = places[-1][1].partition("–")[0]
                places[-1] = (places[-1][0], f"{first}–{mark.label}", places[-1][2])
            else:
                places.append((place, mark.label, mark.style))
    labels = (
        tag("span", label, class_=style, style=f"left:{place:.2f}%")
        for place, label, style in places
    )
    return tag("div", *labels, class_="marks", aria_hidden="true") if places else ""


def _axis(frame: ChartFrame, ticks: Iterable[tuple[int, str]]) -> Markup:
    labels = [
        tag(
            "span",
            words,
            style=f"left:{frame.x(at) / WIDTH * 100:.2f}%",
            class_="alt" if number % 2 else None,
        )
        for number, (at, words) in enumerate(ticks)
        if 2 <= frame.x(at) / WIDTH * 100 <= 98
    ]
    return tag("div", *labels, class_="xs", aria_hidden="true")


def _plot(
    frame: ChartFrame, axis: Axis, words: Callable[[float], str], shapes: Sequence[Markup]
) -> Markup:
    lines = "".join(f"M0 {_y(axis, tick):.2f}H{WIDTH:g}" for tick in axis.ticks)
    drawing = tag(
        "svg",
        tag("path", class_="grid", d=lines),
        *shapes,
        *mark_shapes(frame, HEIGHT),
        viewBox=f"0 0 {WIDTH:g} {HEIGHT:g}",
        preserveAspectRatio="none",
        aria_hidden="true",
    )
    labels = tag(
        "div",
        *(
            tag("span", words(tick), style=f"bottom:{axis.place(tick) * 100:.2f}%")
            for tick in axis.ticks
        ),
        class_="ys",
        aria_hidden="true",
    )
    return join(labels, _mark_labels(frame), drawing, time_axis(frame))


def _runs(
    points: Sequence[tuple[int, Percentiles | None]],
) -> Iterable[list[tuple[int, Percentiles]]]:
    """Consecutive slots with values."""
    run: list[tuple[int, Percentiles]] = []
    for start, one in points:
        if one is not None:
            run.append((start, one))
        elif run:
            yield run
            run = []
    if run:
        yield run


def _y(axis: Axis, value: float) -> float:
    return HEIGHT * (1 - axis.place(value))


def _box(x: float, y: float, width: float, height: float) -> str:
    return f"M{x:.1f} {y:.2f}h{width:.1f}v{height:.2f}h-{width:.1f}z"


def _line(points: Sequence[Point]) -> str:
    """A path; a single point becomes a dot, by round line ends."""
    first, *rest = points
    more = "".join(f"L{x:.1f} {y:.2f}" for x, y in rest) or "h0"
    return f"M{first[0]:.1f} {first[1]:.2f}{more}"


def _band(low: Sequence[Point], high: Sequence[Point]) -> str:
    return _line(low) + "".join(f"L{x:.1f} {y:.2f}" for x, y in reversed(high)) + "z"
