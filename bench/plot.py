"""The main figures as bars, in an SVG that needs nothing to be drawn."""

from __future__ import annotations

import math
from html import escape
from pathlib import Path
from typing import Final

from bench.figures import Figures, Spread, number
from bench.works.all import WORKS

# What of each work is drawn; the rest is in the tables and the JSON.
DRAWN: Final = (
    ("noop", "jobs_per_s"),
    ("noop1024", "jobs_per_s"),
    ("sustained", "cpu_all_us"),
    ("submit", "submit64_per_s"),
    ("submit", "submit1024_per_s"),
    ("large", "submit64_per_s"),
    ("replicated", "submit64_per_s"),
    ("replicated", "submit1024_per_s"),
    ("failover", "kill_gap_s"),
    ("execs", "true_per_s"),
    ("execs", "files_per_s"),
    ("backlog", "rss_full_mb"),
    ("backlog", "restart_kill_s"),
)
WIDTH: Final = 860
LABEL_WIDTH: Final = 190
BAR_WIDTH: Final = 520
ROW: Final = 20
OURS: Final = "#1f6feb"
THEIRS: Final = "#9aa4b2"


def write_plot(figures: Figures, path: Path) -> None:
    """One panel a figure, rollq's bar in its own colour, on a logarithmic scale."""
    parts: list[str] = []
    top = 10
    for work, figure in DRAWN:
        bars = [
            (peer, spread)
            for peer, name in figures.places(work)
            if name == figure and (spread := figures.get(work, peer, figure)) is not None
        ]
        if bars:
            parts.append(text(10, top + 16, f"{WORKS[work].title}: {figure}", bold=True))
            top = panel(parts, bars, top + 26) + 18
    path.write_text(
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{top}" '
        f'font-family="sans-serif" font-size="12">\n'
        '<rect width="100%" height="100%" fill="white"/>\n' + "\n".join(parts) + "\n</svg>\n"
    )


def panel(parts: list[str], bars: list[tuple[str, Spread]], top: int) -> int:
    """Draw the bars below each other, with a line from the lowest to the highest run."""
    low = min((spread.low for _, spread in bars if spread.low > 0), default=1.0)
    high = max(low, *(spread.high for _, spread in bars))
    floor = math.log10(low) - 0.5
    span = max(math.log10(high) - floor, 0.1)

    def length(value: float) -> float:
        return BAR_WIDTH * max(0.0, math.log10(value) - floor) / span if value > 0 else 0.0

    for peer, spread in bars:
        color = OURS if peer.startswith("rollq") else THEIRS
        parts.append(text(LABEL_WIDTH - 6, top + 14, peer, anchor="end"))
        parts.append(
            f'<rect x="{LABEL_WIDTH}" y="{top + 3}" width="{length(spread.median):.1f}" '
            f'height="{ROW - 6}" fill="{color}"/>'
        )
        parts.append(
            f'<line x1="{LABEL_WIDTH + length(spread.low):.1f}" y1="{top + ROW / 2}" '
            f'x2="{LABEL_WIDTH + length(spread.high):.1f}" y2="{top + ROW / 2}" stroke="black"/>'
        )
        at = LABEL_WIDTH + length(spread.high) + 6
        parts.append(text(at, top + 14, number(spread.median)))
        top += ROW
    return top


def text(x: float, y: float, content: str, anchor: str = "start", bold: bool = False) -> str:
    """One line of text."""
    weight = ' font-weight="bold"' if bold else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{weight}>{escape(content)}</text>'
