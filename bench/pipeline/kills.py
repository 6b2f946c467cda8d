"""Kills a pipeline at random points, starts it again, and holds its tables against those of a run
that nobody disturbed."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import duckdb

from bench.pipeline.lives import Lives, seal_lives
from rollq.spark.pipeline.catalog import TABLES
from rollq.spark.pipeline.manifest import Book
from rollq.spark.pipeline.tables import paths

ROOT = Path(__file__).parents[2]
TURN_MS = 4_000
BATCHES = 6


def kills(folder: Path, count: int, events: int, seed: int = 1) -> list[str]:
    """Kill so many times; every kill comes at another moment of a run.

    Returns:
        What differs, by table; nothing if all is well.
    """
    chance = random.Random(seed)
    state, calm, killed = folder / "state", folder / "calm", folder / "killed"
    _, indexes = seal_lives(state, Lives(seed, turn_ms=TURN_MS), events)
    batch = indexes // BATCHES
    begun = time.monotonic()
    with _started(state, calm, batch) as process:
        _check(process)
    whole_s = time.monotonic() - begun
    print(f"undisturbed: {whole_s:.1f} s, {Book(calm).expect().number} batches")
    done = 0
    while done < count:
        wait_s = chance.uniform(0.1, 1.0) * whole_s
        with _started(state, killed, batch) as process:
            try:
                process.wait(wait_s)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                done += 1
            else:
                _check(process)
        manifest = Book(killed).newest()
        number = manifest.number if manifest else 0
        print(f"kill {done} after {wait_s:.1f} s: {number} batches are there", flush=True)
        if number >= BATCHES and done < count:
            # All is read: some more happens, so that the next kills have something to disturb.
            return [
                *differences(calm, killed),
                *kills(folder / "next", count - done, events, seed + 1),
            ]
    with _started(state, killed, batch) as process:
        _check(process)
    return differences(calm, killed)


def differences(left: Path, right: Path) -> list[str]:
    """Tables of two folders that do not have the same rows."""
    found = []
    connection = duckdb.connect()
    for name in TABLES:
        if name == "state_counts":
            continue  # how it is cut into batches is its own business; gold_execs tells
        rows = [f"SELECT * FROM read_parquet({_listed(out, name)})" for out in (left, right)]
        if not all(paths(out, name) for out in (left, right)):
            if paths(left, name) or paths(right, name):
                found.append(f"{name}: only one has rows")
            continue
        for first, second in (rows, rows[::-1]):
            query = f"SELECT count(*) FROM ({first} EXCEPT ALL {second})"
            answer = connection.execute(query).fetchone()
            if answer is None or answer[0]:
                found.append(f"{name}: {answer} rows differ")
    connection.close()
    return found


def _listed(out: Path, name: str) -> str:
    return "[" + ", ".join(f"'{path}'" for path in paths(out, name)) + "]"


def _started(state: Path, tables: Path, batch: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "rollq", "pipeline", "run", "--once", "--master", "local[2]"]
    command += ["--path", str(state), "--tables", str(tables), "--batch", str(batch)]
    environ = os.environ | {"PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT)))}
    return subprocess.Popen(
        command, env=environ, text=True, stderr=subprocess.PIPE, start_new_session=True
    )


def _check(process: subprocess.Popen[str]) -> None:
    _, said = process.communicate()
    if process.returncode:
        raise RuntimeError(f"the pipeline ended with {process.returncode}: {said[-2000:]}")
