"""How files move through rollq: `python -m bench.files [--size 2G] [--only …] [--quick]`.

Everything runs here on loopback, and what is compared with is done in the same run: plain copies,
and the latency of jobs while nothing else moves. Figures of a shared machine mean little.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from rich.console import Console

from bench.figures import number
from bench.files.arrays import measure_array
from bench.files.grid import MIB, write_noise
from bench.files.latency import measure_latency
from bench.files.shared import measure_shared
from bench.files.spread import measure_spread
from bench.files.through import measure_through
from bench.frame import paper, workplace
from bench.targets import Target, show_targets

console = Console(stderr=True)
UNITS: Final = {"": 1, "K": 1024, "M": MIB, "G": 1024 * MIB}


@dataclass(frozen=True, slots=True)
class Scale:
    """How much is done."""

    size: int = 2 * 1024 * MIB  # of the large file
    rounds: int = 3
    idle_s: float = 10.0
    jobs: int = 1_000
    shared_size: int = 20_000_000
    through_size: int = 50_000_000
    array_size: int = 1024 * MIB


QUICK: Final = Scale(
    size=16 * MIB,
    rounds=1,
    idle_s=0.5,
    jobs=40,
    shared_size=5 * MIB,
    through_size=2 * MIB,
    array_size=8 * MIB,
)

TARGETS: Final = (
    Target("spread_vs_copies", "cache put to 4 workers: × four copies, one by one", at_most=1.5),
    Target("spread_vs_copies_at_once", "cache put to 4 workers: × four copies at once"),
    Target("spread_member_reads", "a member's store is read: × the file", at_most=1),
    Target("spread_wrong_copies", "copies that are wrong", at_most=0),
    Target("assign_p99_vs_idle", "submit to assign, p99: upload × none", at_most=2),
    Target("shared_worker_most", "jobs share a file: a worker takes × the file", at_most=1),
    Target("through_wrong", "in and out through three: wrong", at_most=0),
    Target("through_rss_mib", "in and out through three: memory MiB", at_most=16),
    Target("through_log_kib", "in and out through three: log KiB", at_most=64),
    Target("array_wrong", "an array from function to function: wrong", at_most=0),
    Target("array_moves", "an array from function to function: moves", at_most=1.01),
    Target("array_client_mib", "an array from function to function: client MiB", at_most=64),
)


def main() -> int:
    """Measure and report; 1 if something failed or a target is missed, unless it was quick."""
    options = parse(sys.argv[1:])
    began = time.monotonic()
    figures: dict[str, float] = {}
    failures: dict[str, str] = {}
    with workplace(options.dir) as folder:
        measure(options, folder, figures, failures)
    report(figures, paper())
    if options.json is not None:
        document = to_document(figures, failures, options)
        options.json.write_text(json.dumps(document, indent=2) + "\n")
    console.print(f"took {time.monotonic() - began:.0f} s", highlight=False)
    is_missed = not options.quick and bool(missed(figures))
    return int(bool(failures) or is_missed)


def parse(arguments: list[str]) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.files", description=__doc__)
    parser.add_argument("--size", type=bytes_of, help="of the large file (2G)")
    parser.add_argument("--rounds", type=int, help="uploads beside jobs (3)")
    parser.add_argument(
        "--members", type=int, default=1, choices=(1, 3), help="where not three (1)"
    )
    parser.add_argument("--only", default=",".join(WORKS), help=f"some of {','.join(WORKS)}")
    parser.add_argument("--quick", action="store_true", help="small and once, to see that it runs")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures")
    parser.add_argument("--dir", default=tempfile.gettempdir(), help="where everything is kept")
    options = parser.parse_args(arguments)
    options.only = [name for name in options.only.split(",") if name]
    for name in options.only:
        if name not in WORKS:
            parser.error(f"no work {name!r}; there are {', '.join(WORKS)}")
    scale = QUICK if options.quick else Scale()
    options.scale = replace(
        scale, size=options.size or scale.size, rounds=options.rounds or scale.rounds
    )
    return options


def bytes_of(text: str) -> int:
    """A size such as 300M; raises ValueError."""
    match = re.fullmatch(r"(\d+)([KMG]?)", text.upper().removesuffix("IB").removesuffix("B"))
    if match is None or not int(match.group(1)):
        raise ValueError(text)
    return int(match.group(1)) * UNITS[match.group(2)]


def measure(
    options: argparse.Namespace,
    folder: Path,
    figures: dict[str, float],
    failures: dict[str, str],
) -> None:
    """Each work; one that fails does not keep the others from being done."""
    for name in options.only:
        try:
            found = WORKS[name](folder, options.scale, options.members)
        except Exception as error:  # whatever it is, the others are measured
            failures[name] = f"{type(error).__name__}: {error}"
            console.print(f"failed: {name}: {failures[name]}", style="red", markup=False)
            continue
        figures |= found
        shown = ", ".join(f"{key} {number(value)}" for key, value in found.items())
        console.print(f"{time.strftime('%H:%M:%S')} {name}: {shown}", highlight=False)


def spread(folder: Path, scale: Scale, members: int) -> dict[str, float]:
    """One large file to four workers."""
    file = folder / "large.bin"
    digest = write_noise(file, scale.size)
    try:
        return measure_spread(folder, file, digest, members)
    finally:
        file.unlink()


def latency(folder: Path, scale: Scale, members: int) -> dict[str, float]:
    """Small jobs beside an upload."""
    file = folder / "large.bin"
    write_noise(file, scale.size)
    try:
        return measure_latency(folder, file, members, scale.rounds, scale.idle_s)
    finally:
        file.unlink()


def shared(folder: Path, scale: Scale, members: int) -> dict[str, float]:
    """Many jobs, one input."""
    return measure_shared(folder, scale.shared_size, scale.jobs, members)


def through(folder: Path, scale: Scale, _members: int) -> dict[str, float]:
    """A large input and a large output."""
    return measure_through(folder, scale.through_size)


def array(folder: Path, scale: Scale, _members: int) -> dict[str, float]:
    """A large value of a function, used by another one."""
    return measure_array(folder, scale.array_size)


WORKS: Final[dict[str, Callable[[Path, Scale, int], dict[str, float]]]] = {
    "spread": spread,
    "latency": latency,
    "shared": shared,
    "through": through,
    "array": array,
}


def report(figures: dict[str, float], to: Console) -> None:
    """Targets, then every other figure."""
    show_targets(TARGETS, figures, to)


def missed(figures: dict[str, float]) -> list[str]:
    """Targets that were measured and not met."""
    return [one.key for one in TARGETS if one.is_met(figures.get(one.key)) is False]


def to_document(
    figures: dict[str, float], failures: dict[str, str], options: argparse.Namespace
) -> dict[str, Any]:
    """The JSON."""
    return {
        "quick": options.quick,
        "members": options.members,
        "size": options.scale.size,
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "figures": figures,
        "targets": [
            {
                "key": one.key,
                "target": one.text,
                "at_most": one.at_most,
                "measured": figures.get(one.key),
                "met": one.is_met(figures.get(one.key)),
            }
            for one in TARGETS
        ],
        "missed": missed(figures),
        "failures": failures,
    }


if __name__ == "__main__":
    sys.exit(main())
