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
import resource
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from bench.histories import make
from bench.pipeline import duck
from bench.pipeline.kills import kills
from bench.pipeline.processes import ProcessRun, run_pipeline
from bench.pipeline.stages import log_settings, stages_of
from rollq.history.segments import range_of
from rollq.spark.pipeline.formats import FORMATS, PARQUET
from rollq.spark.pipeline.manifest import Book, TableManifest
from rollq.spark.pipeline.tables import paths

SPEED_EVENTS = 5_000_000
KILL_EVENTS = 20_000
LEAST_CPU_S = 0.5  # of a stage that is told
LEAST_SHUFFLE_MB = 1.0


def main() -> int:
    """Run what the arguments ask for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, help=f"{SPEED_EVENTS}, or {KILL_EVENTS} with --kills")
    parser.add_argument("--kills", type=int, default=0)
    parser.add_argument("--format", choices=FORMATS, default=PARQUET, help="with --kills")
    parser.add_argument("--state", type=Path, help="a history that was made before")
    parser.add_argument(
        "--groups", type=int, default=1, help="read the history as that of so many groups (1)"
    )
    parser.add_argument("--folder", type=Path, help="where to work; kept if it is given")
    parser.add_argument("--stages", action="store_true", help="tell what each stage of Spark did")
    parser.add_argument("--master", default="local[2]")
    given = parser.parse_args()
    folder = given.folder or Path(tempfile.mkdtemp(prefix="rollq-pipeline-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        if given.kills:
            events = given.events or KILL_EVENTS
            return _report(kills(folder, given.kills, events, given.format))
        bench = Bench(folder, given.master, given.groups, given.stages)
        bench.measure(given.state, given.events or SPEED_EVENTS)
        return 0
    finally:
        if given.folder is None:
            shutil.rmtree(folder, ignore_errors=True)


def _report(found: list[str]) -> int:
    print("\n".join(found) or "no difference")
    return 1 if found else 0


@dataclass(frozen=True, slots=True)
class Bench:
    """The first run, the second over the last hundredth, each in processes of its own, and DuckDB
    on the same files."""

    folder: Path
    master: str
    groups: int
    tells_stages: bool

    def measure(self, state: Path | None, events: int) -> None:
        """Of a history that was made before, or is made with so many events."""
        if state is None:
            state = self.folder / "made"
            made = make(state, events)
            print(f"made {made.events} events in {made.seconds:.0f} s")
        most, rest = _halves(state / "history")
        source, tables = self.folder / "source", self.folder / "tables"
        _link(most, source / "history")
        first = self._run(source, tables, "first run")
        before = Book(tables).expect()
        _sizes(before)
        _duck(tables, self.folder / "duck")
        _link(rest, source / "history")
        second = self._run(source, tables, "second run")
        newest = Book(tables).expect()
        print(
            f"second run: {100 * (newest.events - before.events) / before.events:.2f} % of the "
            f"events, {100 * second.took_s / first.took_s:.1f} % of the time, "
            f"{100 * second.cpu_s / first.cpu_s:.1f} % of the CPU time"
        )
        _sizes(newest)

    def _run(self, source: Path, tables: Path, name: str) -> ProcessRun:
        log = self.folder / f"log of the {name}"
        more = log_settings(log) if self.tells_stages else []
        made = run_pipeline([source] * self.groups, tables, self.master, more)
        events = Book(tables).expect().events
        load = f"load {os.getloadavg()[0]:.1f}"
        print(f"{name}, to {events} events: {made.told()}; {load}", flush=True)
        if self.tells_stages:
            stages = stages_of(log)
            for stage in stages:
                if stage.cpu_s >= LEAST_CPU_S or stage.shuffle_written_mb >= LEAST_SHUFFLE_MB:
                    print(stage.told(stages[0].begun_ms))
            written = sum(stage.shuffle_written_mb for stage in stages)
            print(f"  shuffles of all stages: {written:.1f} MB", flush=True)
        return made


def _duck(tables: Path, out: Path) -> None:
    """Silver and gold by DuckDB, and whether gold is the same."""
    begun, cpu_begun = time.perf_counter(), time.process_time()
    seconds = duck.run(paths(tables, "bronze_events"), out)
    took_s, cpu_s = time.perf_counter() - begun, time.process_time() - cpu_begun
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print("DuckDB: " + json.dumps({name: round(each, 2) for name, each in seconds.items()}))
    print(
        f"DuckDB, silver and gold from the same bronze files: {took_s:.1f} s, CPU {cpu_s:.1f} s, "
        f"{peak} MiB"
    )
    for name in duck.GOLD:
        print(f"  {name}: {duck.unlike(paths(tables, name), out / f'{name}.parquet')} rows differ")


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


def _sizes(manifest: TableManifest) -> None:
    print(f"batch {manifest.number}:")
    for name, files in manifest.tables.items():
        rows, size = sum(file.rows for file in files), sum(file.bytes for file in files)
        print(f"  {name}: {rows} rows in {len(files)} files, {size / 1e6:.1f} MB")


if __name__ == "__main__":
    sys.exit(main())
