"""Kills a pipeline at random points, starts it again, and holds its tables against those of a run
that nobody disturbed.

A kill comes at a random moment after a run has begun its first batch: what is before that is the
start of Spark, which writes nothing. Batches are small, so that most kills are in the midst of one.
"""

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
from rollq.spark.pipeline.manifest import DATA, Book
from rollq.spark.pipeline.tables import paths

ROOT = Path(__file__).parents[2]
TURN_MS = 4_000
BATCHES = 40  # of the history as it is at first
CALM_BATCHES = 3
KILLED_WITHIN = 2.0  # of the time that a batch of the calm run takes
START_S_MAX = 120.0


def kills(folder: Path, count: int, events: int, seed: int = 1) -> list[str]:
    """Kill so many times; every kill comes at another moment of a run.

    Returns:
        What differs, by table; nothing if all is well.
    """
    chance = random.Random(seed)
    lives = Lives(seed, turn_ms=TURN_MS)
    state, killed = folder / "state", folder / "killed"
    _, indexes = seal_lives(state, lives, events)
    batch_s = _calm(state, folder / "first", indexes)
    done = 0
    while done < count:
        wait_s = chance.uniform(0.0, KILLED_WITHIN * batch_s)
        if _is_killed(state, killed, indexes // BATCHES, wait_s):
            done += 1
            print(f"kill {done} after {wait_s:.1f} s {_left(killed)}", flush=True)
        else:  # all is read: some more happens, so that the next kills have something to disturb
            more, _ = seal_lives(state, lives, events // 4)
            print(f"a run came to its end; {more} more events", flush=True)
    with _started(state, killed, indexes) as process:
        _check(process)
    _calm(state, folder / "calm", indexes)
    return differences(folder / "calm", killed)


def _calm(state: Path, tables: Path, indexes: int) -> float:
    """An undisturbed run, and how long a batch of it took."""
    with _started(state, tables, -(-indexes // CALM_BATCHES)) as process:
        _wait_for_work(process, tables, set())
        begun = time.monotonic()
        _check(process)
    manifest = Book(tables).expect()
    batch_s = (time.monotonic() - begun) / manifest.number
    print(f"undisturbed: {manifest.events} events, {manifest.number} batches of {batch_s:.1f} s")
    return batch_s


def _is_killed(state: Path, tables: Path, batch: int, wait_s: float) -> bool:
    """Start a run, and kill it so long after it began to work; False if it came to its end."""
    before = _folders(tables)
    with _started(state, tables, batch) as process:
        if _wait_for_work(process, tables, before):
            try:
                process.wait(wait_s)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                return True
        _check(process)
    return False


def _wait_for_work(process: subprocess.Popen[str], tables: Path, before: set[Path]) -> bool:
    """Until a run writes its first file; False if it ends without."""
    deadline = time.monotonic() + START_S_MAX
    while not _folders(tables) - before:
        if process.poll() is not None:
            return False
        if time.monotonic() > deadline:
            raise RuntimeError("the pipeline does not begin to work")
        time.sleep(0.02)
    return True


def _folders(tables: Path) -> set[Path]:
    return set((tables / DATA).glob("*/*"))


def _left(tables: Path) -> str:
    """What a killed run had done, and what it left half done."""
    manifest = Book(tables).newest()
    number = manifest.number if manifest else 0
    begun = sorted(path.parent.name for path in _folders(tables) if _number(path) == number + 1)
    return f"with {number} batches; half done: {', '.join(begun) or 'nothing'}"


def _number(folder: Path) -> int:
    """Of the batch that a folder is of."""
    return int(folder.name.partition("-")[0])


def differences(left: Path, right: Path) -> list[str]:
    """Tables of two folders that do not have the same rows."""
    found = []
    connection = duckdb.connect()
    for table in TABLES.values():
        if table.is_internal:
            continue  # how these are cut into batches is their own business; gold tells
        name = table.name
        if not all(paths(out, name) for out in (left, right)):
            if paths(left, name) or paths(right, name):
                found.append(f"{name}: only one has rows")
            continue
        rows = [f"SELECT * FROM read_parquet({_listed(out, name)})" for out in (left, right)]
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
    environ = os.environ | {
        "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT))),
        # It is over before a better compiler has paid for itself.
        "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1",
    }
    return subprocess.Popen(
        command, env=environ, text=True, stderr=subprocess.PIPE, start_new_session=True
    )


def _check(process: subprocess.Popen[str]) -> None:
    _, said = process.communicate()
    if process.returncode:
        raise RuntimeError(f"the pipeline ended with {process.returncode}: {said[-2000:]}")
