"""The figures of a whole run, as tables for people and as JSON for programs."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench import machine
from bench.figures import Figures, number
from bench.ratios import RATIOS
from bench.targets import Verdict, verdicts
from bench.works.all import WORKS

FORMAT_VERSION = 3
BUSY_PERCENT = 15  # above this a run was disturbed by others


def print_report(figures: Figures, console: Console) -> None:
    """The machine, one table a work, the ratios, what a reader must know, and the targets last."""
    console.print(machine.line(), highlight=False, markup=False)
    for name in WORKS:
        if figures.places(name):
            console.print(work_table(figures, name))
    if any(ratio.value(figures) is not None for ratio in RATIOS):
        console.print(ratio_table(figures))
    for line in remarks(figures):
        console.print(line, highlight=False, markup=False)
    judged = verdicts(figures)
    if any(one.value is not None for one in judged):
        console.print(target_table(judged))
    if left := [one.target.key for one in judged if one.value is None]:
        console.print(f"targets that this run did not measure: {', '.join(left)}", highlight=False)


def work_table(figures: Figures, work: str) -> Table:
    """Peers down, figures across."""
    columns = WORKS[work].columns
    table = Table(title=WORKS[work].title, title_justify="left")
    table.add_column("peer", no_wrap=True)
    table.add_column("client's loop", no_wrap=True)
    for _, heading in columns:
        table.add_column(heading, justify="right")
    for peer in dict.fromkeys(peer for peer, _ in figures.places(work)):
        loop = figures.loop(work, peer) or "—"
        cells = (figures.get(work, peer, figure) for figure, _ in columns)
        table.add_row(peer, loop, *("—" if cell is None else cell.text for cell in cells))
    return table


def ratio_table(figures: Figures) -> Table:
    """What is compared, with both sides beside it."""
    table = Table(title="Ratios", title_justify="left")
    table.add_column("ratio", no_wrap=True)
    for column in ("value", "this", "peer"):
        table.add_column(column, justify="right")
    for ratio in RATIOS:
        value = ratio.value(figures)
        if value is not None:
            sides = [figures.get(ratio.work, *side) for side in (ratio.ours, ratio.theirs) if side]
            table.add_row(ratio.key, number(value), *(side.text for side in sides if side))
    return table


def target_table(judged: list[Verdict]) -> Table:
    """The targets that this run measured, met or not."""
    table = Table(title="Targets", title_justify="left")
    table.add_column("target")
    table.add_column("wanted", justify="right", no_wrap=True)
    table.add_column("measured", justify="right", no_wrap=True)
    table.add_column("met?", no_wrap=True)
    table.add_column("rollq", justify="right")
    table.add_column("peers")
    for one in judged:
        if one.value is None:
            continue
        table.add_row(
            one.target.text,
            one.target.bound(),
            number(one.value),
            {True: "yes", False: "NO", None: "—"}[one.is_met],
            one.ours,
            one.others,
            style="red" if one.is_met is False else "",
        )
    return table


def remarks(figures: Figures) -> list[str]:
    """What a reader of the tables must know. A peer that is missing everywhere is named once."""
    lines: dict[str, None] = {}
    for outcome in figures.outcomes:
        name = f"{outcome.work} {outcome.peer}"
        if outcome.skipped:
            lines[f"missing: {outcome.peer}: {outcome.skipped}"] = None
        if outcome.failure:
            lines[f"failed: {name}: {outcome.failure}"] = None
        if outcome.busy_percent >= BUSY_PERCENT:
            busy = f"others used {outcome.busy_percent:.0f} % just before"
            lines[f"disturbed: {name}: {busy}"] = None
    return list(lines)


def write_json(figures: Figures, path: Path, is_quick: bool) -> None:
    """Everything, so that nothing must be read off a table."""
    path.write_text(json.dumps(to_document(figures, is_quick), indent=2) + "\n")


def to_document(figures: Figures, is_quick: bool) -> dict[str, Any]:
    """The JSON document: ratios by key (null: not measured), targets, every value of every run."""
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
        "machine": machine.describe(),
        "ratios": {ratio.key: ratio.value(figures) for ratio in RATIOS},
        "targets": [one.to_document() for one in verdicts(figures)],
        "missed": [one.target.key for one in verdicts(figures) if one.is_met is False],
        "loops": {
            work: {one.peer: one.loop for one in figures.outcomes if one.work == work and one.loop}
            for work in measured
        },
        "versions": {one.peer: one.version for one in figures.outcomes if one.version},
        "figures": measured,
        "remarks": remarks(figures),
    }
