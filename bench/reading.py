"""How fast a member's history is read, and what jobs feel of it: `python -m bench.reading`.

A member is started on a long history (`bench.histories`, made if it is not there). A process of its
own, at a lower priority as analytics should be, reads all of it again and again as Arrow, from the
socket to tables in memory. Meanwhile, and before, one small job after the other goes through the
member: submitted, assigned, acknowledged, its result received. No Spark is involved.

    python -m bench.reading --events 5000000 --state DIR --seconds 10
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path

import psutil

from bench.figures import percentile
from bench.histories import make
from rollq.history.arrow import from_lines, from_stream
from rollq.history.columns import EVENTS
from rollq.net.dialer import split_address
from rollq.roles.member.readers.columns import make_all
from rollq.roles.reader.channel import Channel
from rollq.roles.reader.models import ARROW, LINES
from rollq.roles.reader.reader import Reader
from rollq.wire import messages as m
from rollq.wire.features import ACCEPTED, COMPACT, LEASE

GROUP = "default"
READER_NICENESS = 10
PROBES_PER_S = 200
STARTED_S_MAX = 120.0


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=5_000_000)
    parser.add_argument("--state", type=Path, help="kept, and used again if it is there")
    parser.add_argument("--address", default="127.0.0.1:47711", help="of the member on it")
    parser.add_argument("--seconds", type=float, default=10.0, help="of each phase")
    parser.add_argument("--lines", action="store_true", help="read JSON lines, not Arrow")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        state = given.state or Path(scratch) / "state"
        if not state.exists():
            print(make(state, given.events, given.address))
        made = make_all(state, GROUP)
        print(f"{made} columnar twins made", flush=True)
        figures = measure(state, given.address, given.seconds, LINES if given.lines else ARROW)
    print(json.dumps(figures, indent=2))


def measure(state: Path, address: str, seconds: float, form: str) -> dict[str, float]:
    """Latency of jobs alone and beside a reader, and how fast that reads."""
    command = [sys.executable, "-m", "rollq", "leader", str(split_address(address)[1])]
    options = ["--role", "leader", "--state", str(state), "--no-columns", "--log-level", "warning"]
    options += ["--history-days", "0"]  # the day that was made is long ago
    member = subprocess.Popen([*command, *options])
    try:
        with contextlib.closing(Probe(address)) as probe:
            probe.run(1.0)
            idle = probe.run(seconds)
            with reading(address, form) as control:
                before_s = _cpu_s(member.pid)
                busy = probe.run(seconds)
                control.send(None)
                rows, took_s, cpu_s = control.recv()
                member_s = _cpu_s(member.pid) - before_s
    finally:
        member.terminate()
        member.wait()
    return {
        "rows_per_s": round(rows / took_s),
        "rows_per_reader_cpu_s": round(rows / cpu_s),
        "rows_per_member_cpu_s": round(rows / member_s),  # the probes' jobs are in it
        "idle_p50_ms": round(percentile(idle, 0.5), 2),
        "idle_p99_ms": round(percentile(idle, 0.99), 2),
        "reading_p50_ms": round(percentile(busy, 0.5), 2),
        "reading_p99_ms": round(percentile(busy, 0.99), 2),
        "p99_ratio": round(percentile(busy, 0.99) / percentile(idle, 0.99), 2),
        "probes": len(busy),
    }


@contextlib.contextmanager
def reading(address: str, form: str) -> Iterator[Connection]:
    """A process that reads, from when it has everything imported; it is told to stop by a word."""
    ours, theirs = multiprocessing.Pipe()
    reader = multiprocessing.get_context("spawn").Process(
        target=read_on, args=(address, form, theirs), daemon=True
    )
    with ours, theirs:
        reader.start()
        ours.recv()
        yield ours
        reader.join()
    reader.close()


class Probe:
    """A client and a worker in one: the time from a submit to its result, through the member."""

    def __init__(self, address: str) -> None:
        deadline = time.monotonic() + STARTED_S_MAX
        while True:
            try:
                self._client = Channel(address, m.HelloClient("probe", 0, (COMPACT, ACCEPTED)), 30)
                break
            except Exception:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.2)
        hello = m.HelloWorker(
            secrets.token_bytes(16), ("probe",), "probe", 1, 1, (), (COMPACT, LEASE)
        )
        self._worker = Channel(address, hello, 30)
        self._worker.send(m.Credit(1))

    def close(self) -> None:
        """Hang up."""
        self._client.close()
        self._worker.close()

    def run(self, seconds: float) -> list[float]:
        """Latencies in milliseconds, sorted."""
        found = []
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            begun = time.perf_counter()
            self._one()
            took = time.perf_counter() - begun
            found.append(took * 1000)
            time.sleep(max(0.0, 1 / PROBES_PER_S - took))
        return sorted(found)

    def _one(self) -> None:
        job_id = secrets.token_bytes(16)
        self._client.send(m.SubmitJob(job_id, "probe", "probe", "probe", b"{}"))
        while not isinstance(assigned := self._worker.receive(object), m.AssignJob):
            pass
        self._worker.send(m.AckJob(job_id, assigned.attempt, assigned.fence))
        self._worker.send(m.Credit(1))
        while not isinstance(self._client.receive(object), m.Result):
            pass
        self._client.send(m.Confirm((job_id,)))


def read_on(address: str, form: str, control: Connection) -> None:
    """Read all of the history again and again until told to stop."""
    os.nice(READER_NICENESS)
    with Reader(address) as reader:
        span = reader.span()
        control.send(None)
        rows, begun, begun_cpu = 0, time.perf_counter(), time.process_time()
        while not rows or not control.poll():
            for piece in reader.pieces(span.floor + 1, span.applied, forms=(form,)):
                if piece.form == ARROW:
                    rows += from_stream(piece.data, EVENTS).num_rows
                else:
                    rows += from_lines(piece.lines(), EVENTS, GROUP).num_rows
                if rows and control.poll():
                    break
        control.send((rows, time.perf_counter() - begun, time.process_time() - begun_cpu))


def _cpu_s(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return float(times.user + times.system)


if __name__ == "__main__":
    main()
