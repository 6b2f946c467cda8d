"""How fast the pipeline is, beside DuckDB, and how little a second run costs.

python -m bench.pipeline                     # 5,000,000 events
python -m bench.pipeline --events 500000
python -m bench.pipeline --kills 20          # instead: kill -9 at random points
python -m bench.pipeline --kills 5 --format delta --events 5000
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

from bench.histories import make
from bench.pipeline import duck
from bench.pipeline.kills import kills
from bench.pipeline.processes import ProcessRun, run_pipeline
from rollq.history.segments import range_of
from rollq.spark.pipeline.formats import FORMATS, PARQUET
from rollq.spark.pipeline.manifest import Book, TableManifest
from rollq.spark.pipeline.tables import paths

SPEED_EVENTS = 5_000_000
KILL_EVENTS = 20_000


def main() -> int:
    """Run what the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, help=f"{SPEED_EVENTS}, or {KILL_EVENTS} with --kills")
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--format", choices=FORMATS, default=PARQUET, help="with --kills")
    parser.add_argument("--state", type=Path, help="a history that was made before")
    parser.add_argument("--folder", type=Path, help="where to work; kept if it is given")
    parser.add_argument("--master", default="local[2]")
    given = parser.parse_args()
    folder = given.folder or Path(tempfile.mkdtemp(prefix="rollq-pipeline-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        if given.kills:
            events = given.events or KILL_EVENTS
            return _report(kills(folder, given.kills, events, given.format))
        _speed(folder, given.state, given.events or SPEED_EVENTS, given.master)
        return 0
    finally:
        if given.folder is None:
            shutil.rmtree(folder, ignore_errors=True)


def _report(found: list[str]) -> int:
    print("\n".join(found) or "no difference")
    return 1 if found else 0


def _speed(folder: Path, state: Path | None, events: int, master: str) -> None:
    """The first run, the second over the last hundredth, each in processes of its own, and DuckDB
    on the same files."""
    if state is None:
        made = make(folder / "made", events)
        print(f"made {made.events} events in {made.seconds:.0f} s")
        state = folder / "made"
    most, rest = _halves(state / "history")
    source, tables = folder / "source", folder / "tables"
    _link(most, source / "history")
    first = _run(source, tables, master, "first run")
    events = Book(tables).expect().events
    duck_s = _duck(tables, folder / "duck")
    _link(rest, source / "history")
    second = _run(source, tables, master, "second run")
    newest = Book(tables).expect()
    print(
        f"second run: {100 * (newest.events - events) / events:.2f} % of the events, "
        f"{100 * second.took_s / first.took_s:.1f} % of the time, "
        f"{100 * second.cpu_s / first.cpu_s:.1f} % of the CPU time"
    )
    print(f"DuckDB, silver and gold from the same bronze files: {duck_s:.1f} s")
    _sizes(tables, newest)


def _run(source: Path, tables: Path, master: str, name: str) -> ProcessRun:
    made = run_pipeline(source, tables, master)
    events = Book(tables).expect().events
    print(f"{name} to {events} events: {made.told()}; load {os.getloadavg()[0]:.1f}", flush=True)
    return made


def _duck(tables: Path, out: Path) -> float:
    begun = time.perf_counter()
    seconds = duck.run(paths(tables, "bronze_events"), out)
    took_s = time.perf_counter() - begun
    print("DuckDB: " + json.dumps({name: round(each, 2) for name, each in seconds.items()}))
    for name in ("gold_hourly", "gold_dead", "gold_depth", "gold_utilisation", "gold_execs"):
        print(f"  {name}: {duck.unlike(paths(tables, name), out / f'{name}.parquet')} rows differ")
    return took_s


def _halves(history: Path) -> tuple[list[Path], list[Path]]:
    """Segments, and the last of them that are about a hundredth."""
    files = sorted(path for path in history.iterdir() if range_of(path.name) is not None)
    total = sum(path.stat().st_size for path in files)
    rest = 0
    for place in range(len(files) - 1, 0, -1):
        rest += files[place].stat().st_size
        if rest * 100 >= total:
            return files[:place], files[place:]
    raise SystemExit("the history has too few segments")


def _link(files: list[Path], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for path in files:
        (folder / path.name).symlink_to(path.absolute())


def _sizes(tables: Path, manifest: TableManifest) -> None:
    for name, files in manifest.tables.items():
        rows, size = sum(file.rows for file in files), sum(file.bytes for file in files)
        print(f"  {name}: {rows} rows in {len(files)} files, {size / 1e6:.1f} MB")
    print(f"  newest manifest: {Book(tables).expect().number}")


if __name__ == "__main__":
    sys.exit(main())
