"""`python -m bench.chaos`: faults on real processes, and a table of what they cost.

Exit code 1 if an accepted job was lost, ended twice or was run again without need.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from statistics import median

from bench.chaos.rounds import Figures, all_rounds, run_round
from bench.chaos.wires import make_wires
from bench.procs import NotReadyError

COLUMNS = (
    ("accepted", "accepted"),
    ("lost", "lost"),
    ("failed", "failed"),
    ("ended_twice", "twice"),
    ("run_again", "run again"),
    ("gap_ack_s", "gap to ack s"),
    ("gap_result_s", "gap to result s"),
    ("healed_ack_s", "ack after heal s"),
    ("healed_result_s", "result after heal s"),
)


def main(arguments: list[str] | None = None) -> int:
    """The command."""
    rounds = all_rounds()
    parser = argparse.ArgumentParser(prog="python -m bench.chaos", description=__doc__)
    parser.add_argument("--rounds", default="", help=f"some of: {', '.join(rounds)}")
    parser.add_argument("--repeat", type=int, default=1, help="how often; medians at the end")
    parser.add_argument("--share", type=float, default=1.0, help="of the seconds of each fault")
    parser.add_argument("--relay", action="store_true", help="relays and not namespaces")
    parser.add_argument("--until-result", action="store_true", help="heal after the next result")
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--dir", type=Path, help="where processes have their files")
    options = parser.parse_args(arguments)
    names = [name for name in options.rounds.split(",") if name] or list(rounds)
    unknown = [name for name in names if name not in rounds]
    if unknown:
        parser.error(f"no such round: {', '.join(unknown)}; there are: {', '.join(rounds)}")
    wires = make_wires(["m"], [], relay=options.relay)
    wires.close()
    print(f"three members, two workers, one client; {wires.kind}\n")
    print("| round | s | " + " | ".join(text for _, text in COLUMNS) + " |")
    print("|---" * (len(COLUMNS) + 2) + "|", flush=True)
    found: list[Figures] = []
    failed: list[str] = []
    with tempfile.TemporaryDirectory(prefix="rollq-chaos-", dir=options.dir) as folder:
        for number, name in enumerate(names * options.repeat):
            one = rounds[name]
            try:
                figures = run_round(
                    one,
                    Path(folder) / str(number),
                    relay=options.relay,
                    share=options.share,
                    until_result=options.until_result,
                )
            except NotReadyError as error:
                failed.append(name)
                print(f"| {one.what} | {one.seconds * options.share:g} | {error} |", flush=True)
                continue
            found.append(figures)
            cells = [str(getattr(figures, key)) for key, _ in COLUMNS]
            row = " | ".join(cells)
            print(f"| {one.what} | {one.seconds * options.share:g} | {row} |", flush=True)
    if options.repeat > 1:
        print("\n| median of | gap to ack s | gap to result s |\n|---|---|---|")
        for name in names:
            mine = [figures for figures in found if figures.name == name]
            acks = median([figures.gap_ack_s for figures in mine])
            results = median([figures.gap_result_s for figures in mine])
            print(f"| {rounds[name].what}, {len(mine)} times | {acks:.2f} | {results:.2f} |")
    if options.json is not None:
        options.json.write_text(json.dumps([figures.as_dict() for figures in found]))
    return 1 if failed or not all(figures.is_good for figures in found) else 0


if __name__ == "__main__":
    sys.exit(main())
