"""The figures of a whole run, as tables for people and as JSON for programs."""

from __future__ import annotations

import json
import platform
import time
from pathlib import Path
from typing import Any

import psutil  # type: ignore[import-untyped]
from rich.console import Console
from rich.table import Table

from bench.figures import Figures, Spread, number
from bench.ratios import RATIOS, Ratio
from bench.works.all import WORKS

FORMAT_VERSION = 1
BUSY_PERCENT = 15  # above this a run was disturbed by others


def print_report(figures: Figures, console: Console) -> None:
    """One table a work, then the ratios, then what was skipped, failed or disturbed."""
    for name in WORKS:
        if figures.places(name):
            console.print(work_table(figures, name))
    if any(ratio.value(figures) is not None for ratio in RATIOS):
        console.print(ratio_table(figures))
    for line in remarks(figures):
        console.print(line, highlight=False, markup=False)


def work_table(figures: Figures, work: str) -> Table:
    """Peers down, figures across."""
    columns = WORKS[work].columns
    table = Table(title=WORKS[work].title, title_justify="left")
    table.add_column("peer", no_wrap=True)
    for _, heading in columns:
        table.add_column(heading, justify="right")
    for peer in dict.fromkeys(peer for peer, _ in figures.places(work)):
        cells = (figures.get(work, peer, figure) for figure, _ in columns)
        table.add_row(peer, *("—" if cell is None else cell_text(cell) for cell in cells))
    return table


def cell_text(spread: Spread) -> str:
    """The median, and the spread if there is one."""
    if len(spread.values) == 1:
        return number(spread.median)
    return f"{number(spread.median)} ({number(spread.low)}–{number(spread.high)})"


def ratio_table(figures: Figures) -> Table:
    """What is compared, with both sides beside it."""
    table = Table(title="Ratios", title_justify="left")
    table.add_column("ratio", no_wrap=True)
    for column in ("value", "wanted", "rollq", "peer"):
        table.add_column(column, justify="right")
    for ratio in RATIOS:
        value = ratio.value(figures)
        if value is not None:
            style = "" if ratio.is_met(value) else "red"
            table.add_row(
                ratio.key, number(value), wanted(ratio), *sides(figures, ratio), style=style
            )
    return table


def wanted(ratio: Ratio) -> str:
    """The bound, as text."""
    if ratio.wanted is None:
        return ""
    return f"{'≥' if ratio.at_least else '≤'} {number(ratio.wanted)}"


def sides(figures: Figures, ratio: Ratio) -> tuple[str, str]:
    """Both medians of a ratio."""
    ours = figures.get(ratio.work, *ratio.ours)
    theirs = figures.get(ratio.work, *ratio.theirs) if ratio.theirs else None
    return (cell_text(ours) if ours else "", cell_text(theirs) if theirs else "")


def remarks(figures: Figures) -> list[str]:
    """What a reader of the tables must know."""
    lines = []
    for outcome in figures.outcomes:
        name = f"{outcome.work} {outcome.peer}"
        if outcome.skipped:
            lines.append(f"skipped: {name}: {outcome.skipped}")
        if outcome.failure:
            lines.append(f"failed: {name}: {outcome.failure}")
        if outcome.busy_percent >= BUSY_PERCENT:
            lines.append(f"disturbed: {name}: others used {outcome.busy_percent:.0f} % just before")
    return lines


def write_json(figures: Figures, path: Path, is_quick: bool) -> None:
    """Everything, so that nothing must be read off a table."""
    path.write_text(json.dumps(to_document(figures, is_quick), indent=2) + "\n")


def to_document(figures: Figures, is_quick: bool) -> dict[str, Any]:
    """The JSON document: ratios by key, then every value of every run."""
    values = {ratio.key: ratio.value(figures) for ratio in RATIOS}
    measured: dict[str, dict[str, dict[str, Any]]] = {}
    for work in WORKS:
        for peer, figure in figures.places(work):
            spread = figures.get(work, peer, figure)
            if spread is not None:
                cell = {"median": spread.median, "low": spread.low, "high": spread.high}
                at = measured.setdefault(work, {}).setdefault(peer, {})
                at[figure] = {**cell, "values": list(spread.values)}
    return {
        "format": FORMAT_VERSION,
        "quick": is_quick,
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": {
            "cores": psutil.cpu_count(),
            "memory_gb": round(psutil.virtual_memory().total / 1e9),
            "kernel": platform.release(),
            "python": platform.python_version(),
        },
        "ratios": {key: value for key, value in values.items() if value is not None},
        "missed": [
            ratio.key
            for ratio in RATIOS
            if (value := values[ratio.key]) is not None and not ratio.is_met(value)
        ],
        "versions": {one.peer: one.version for one in figures.outcomes if one.version},
        "figures": measured,
        "remarks": remarks(figures),
    }
