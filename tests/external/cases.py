"""Where the cases of others lie, and how a run over a folder of them is told."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

FOLDER_VARIABLE = "ROLLQ_EXTERNAL"
REPOSITORY = Path(__file__).resolve().parents[2]


@dataclass(slots=True, frozen=True)
class Outcome:
    """How one file went."""

    verdict: str  # passed, failed or skipped
    detail: str


def external_folder(part: str) -> Path:
    """The folder of `part` (quorum, confchange, scripts) of the etcd-raft cases."""
    given = os.environ.get(FOLDER_VARIABLE)
    root = Path(given) if given else REPOSITORY.parent / "shared" / "external" / "etcd-raft"
    return root / part


def find_files(place: Path) -> list[Path]:
    """The files of cases in a folder, by name; or the one file given."""
    return [place] if place.is_file() else sorted(place.glob("*.txt"))


def absence(part: str) -> str:
    """Why there is nothing to run; empty if there is."""
    folder = external_folder(part)
    if find_files(folder):
        return ""
    return f"no cases in {folder}; set {FOLDER_VARIABLE} to the folder that holds {part}/"


def report(arguments: list[str], run: Callable[[str], Outcome]) -> int:
    """Run every file of a folder, one line each; the exit code."""
    if len(arguments) != 1:
        print("usage: python -m <this module> DIR", file=sys.stderr)
        return 2
    tally = {"passed": 0, "failed": 0, "skipped": 0}
    for path in find_files(Path(arguments[0])):
        outcome = run(path.read_text(encoding="utf-8"))
        tally[outcome.verdict] += 1
        print(f"{outcome.verdict:<7} {path.name}: {outcome.detail}")
    skipped = f", {tally['skipped']} skipped" if tally["skipped"] else ""
    print(f"{tally['passed']} passed, {tally['failed']} failed{skipped}")
    return 0 if tally["passed"] and not tally["failed"] else 1
