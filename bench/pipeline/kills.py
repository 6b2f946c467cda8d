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
from bench.pipeline.readers import half_done, newest, rows_of
from rollq.spark.pipeline.catalog import CHECKS, TABLES

ROOT = Path(__file__).parents[2]
TURN_MS = 4_000
BATCHES = 40  # of the history as it is at first
CALM_BATCHES = 3
KILLED_WITHIN = 1.2  # of the time that a batch of the calm run takes
START_S_MAX = 600.0


def kills(folder: Path, count: int, events: int, form: str, seed: int = 1) -> list[str]:
    """Kill so many times; every kill comes at another moment of a run.

    Returns:
        What differs, by table; nothing if all is well.
    """
    chance = random.Random(seed)
    lives = Lives(seed, turn_ms=TURN_MS)
    state, killed = folder / "state", folder / "killed"
    _, indexes = seal_lives(state, lives, events)
    batch_s = _calm(state, folder / "first", form, indexes)
    done = 0
    while done < count:
        wait_s = chance.uniform(0.0, KILLED_WITHIN * batch_s)
        if _is_killed(state, killed, form, indexes // BATCHES, wait_s):
            done += 1
            print(f"kill {done} after {wait_s:.1f} s {_left(killed, form)}", flush=True)
        else:  # all is read: some more happens, so that the next kills have something to disturb
            more, _ = seal_lives(state, lives, events // 4)
            print(f"a run came to its end; {more} more events", flush=True)
    with _started(state, killed, form, indexes) as process:
        _check(process, killed)
    _calm(state, folder / "calm", form, indexes)
    return differences(folder / "calm", killed, form)


def _calm(state: Path, tables: Path, form: str, indexes: int) -> float:
    """An undisturbed run, and how long a batch of it took."""
    with _started(state, tables, form, -(-indexes // CALM_BATCHES)) as process:
        _wait_for_work(process, tables)
        begun = time.monotonic()
        _check(process, tables)
    manifest = newest(tables, form)
    if manifest is None:
        raise RuntimeError("the pipeline made nothing")
    batch_s = (time.monotonic() - begun) / manifest.number
    told = f"{manifest.events} events, {manifest.number} batches of {batch_s:.1f} s"
    print(f"undisturbed: {told}", flush=True)
    return batch_s


def _is_killed(state: Path, tables: Path, form: str, batch: int, wait_s: float) -> bool:
    """Start a run, and kill it so long after it began to work; False if it came to its end."""
    with _started(state, tables, form, batch) as process:
        if _wait_for_work(process, tables):
            try:
                process.wait(wait_s)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                return True
        _check(process, tables)
    return False


def _wait_for_work(process: subprocess.Popen[bytes], tables: Path) -> bool:
    """Until a run says that it makes a batch; False if it ends without."""
    deadline = time.monotonic() + START_S_MAX
    while "batch " not in _said(tables):
        if process.poll() is not None:
            return False
        if time.monotonic() > deadline:
            raise RuntimeError("the pipeline does not begin to work")
        time.sleep(0.02)
    return True


def _left(tables: Path, form: str) -> str:
    """What a killed run had done, and what it left half done."""
    manifest = newest(tables, form)
    begun = ", ".join(half_done(tables, form, manifest)) or "nothing"
    return f"with {manifest.number if manifest else 0} batches; half done: {begun}"


def differences(left: Path, right: Path, form: str) -> list[str]:
    """Tables of two folders that do not have the same rows."""
    found = []
    connection = duckdb.connect()
    batches = [(out, newest(out, form)) for out in (left, right)]
    for table in TABLES.values():
        if table.is_internal or table is CHECKS:
            continue  # these are of single batches, and how they are cut differs
        names = []
        for side, (out, manifest) in enumerate(batches):
            rows = rows_of(out, form, manifest, table.name) if manifest else None
            if rows:
                connection.register(f"side{side}", rows)
                names.append(f"SELECT * FROM side{side}")
        if len(names) == 1:
            found.append(f"{table.name}: only one has rows")
        for first, second in (names, names[::-1]) if len(names) == 2 else ():
            query = f"SELECT count(*) FROM ({first} EXCEPT ALL {second})"
            [(apart,)] = connection.execute(query).fetchall()
            if apart:
                found.append(f"{table.name}: {apart} rows differ")
        if len(names) == 2:
            [(count,)] = connection.execute("SELECT count(*) FROM side0").fetchall()
            print(f"compared {table.name}: {count} rows")
    connection.close()
    return found


def _started(state: Path, tables: Path, form: str, batch: int) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "rollq", "pipeline", "run", "--once", "--master", "local[2]"]
    command += ["--path", str(state), "--tables", str(tables), "--format", form]
    command += ["--batch", str(batch)]
    environ = os.environ | {
        "PYTHONPATH": os.pathsep.join((str(ROOT / "src"), str(ROOT))),
        # It is over before a better compiler has paid for itself.
        "JDK_JAVA_OPTIONS": "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m",
    }
    with _log(tables).open("wb") as log:
        return subprocess.Popen(command, env=environ, stderr=log, start_new_session=True)


def _check(process: subprocess.Popen[bytes], tables: Path) -> None:
    if process.wait():
        said = _said(tables)[-2000:]
        raise RuntimeError(f"the pipeline ended with {process.returncode}: {said}")


def _said(tables: Path) -> str:
    """What the last run told about its work."""
    return _log(tables).read_text(encoding="utf-8", errors="replace")


def _log(tables: Path) -> Path:
    return tables.with_name(f"{tables.name}.log")
