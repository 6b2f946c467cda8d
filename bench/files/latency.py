"""From a submit to the assignment, for small jobs one at a time, with and without an upload."""

from __future__ import annotations

import os
import re
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Final

from bench.figures import percentile
from bench.files.grid import Grid, running
from bench.peers.rollq_wire import FEATURES, RawClient
from bench.procs import NotReadyError, Process, python
from rollq.wire import messages as m
from rollq.wire.features import LEASE, PATTERNS

PAYLOAD: Final = bytes(200)
PAUSE_S: Final = 0.002  # between jobs
UPLOAD_S_MAX: Final = 1_800.0
WARM_JOBS: Final = 200


def measure_latency(
    folder: Path, file: Path, members: int, rounds: int, idle_s: float
) -> dict[str, float]:
    """Rounds of both by turns; medians of the rounds."""
    idle: list[list[float]] = []
    loaded: list[list[float]] = []
    rates = []
    with running(folder / "latency", members, workers=0) as grid, Probe(grid.leader()) as probe:
        for _ in range(WARM_JOBS):
            probe.job_ms()
        for _ in range(rounds):
            os.sync()
            before = probe.jobs_while(Countdown(idle_s / 2))
            times, upload_s = during_upload(grid, probe, file)
            loaded.append(sorted(times))
            # The machine may be another one by now: so once before and once after.
            os.sync()
            after = probe.jobs_while(Countdown(idle_s / 2))
            idle.append(sorted((*before.values(), *after.values())))
            rates.append(file.stat().st_size / 1e6 / upload_s)
    p99 = {"idle": p99_of(idle), "upload": p99_of(loaded)}
    return {
        "assign_p50_ms": median(percentile(one, 0.5) for one in idle),
        "assign_p50_upload_ms": median(percentile(one, 0.5) for one in loaded),
        "assign_p99_ms": p99["idle"],
        "assign_p99_upload_ms": p99["upload"],
        "assign_p99_vs_idle": p99["upload"] / p99["idle"],
        "assign_upload_mb_per_s": median(rates),
        "assign_jobs": sum(map(len, idle)) + sum(map(len, loaded)),
    }


def p99_of(rounds: list[list[float]]) -> float:
    """The middle one of the rounds."""
    return median(percentile(one, 0.99) for one in rounds)


def during_upload(grid: Grid, probe: Probe, file: Path) -> tuple[list[float], float]:
    """Latencies of the jobs that were submitted while the upload moved, and its seconds."""
    with file.open("r+b") as content:
        content.write(secrets.token_bytes(16))  # other content: nothing of it is there
    log = grid.folder / f"upload-{secrets.token_hex(4)}.log"
    upload = Process(python("bench.files.upload", grid.servers, str(file)), log)
    countdown = Countdown(UPLOAD_S_MAX)
    try:
        times = probe.jobs_while(lambda: upload.is_running and countdown())
    finally:
        upload.stop()
    marks = dict(re.findall(r"^(begun|ended) ([\d.]+)$", log.read_text(), re.MULTILINE))
    if len(marks) != 2:
        raise NotReadyError(f"the upload failed: {log.read_text().strip()[-1500:]}")
    begun, ended = float(marks["begun"]), float(marks["ended"])
    return [ms for at, ms in times.items() if begun <= at <= ended], ended - begun


class Countdown:
    """Says whether there is time left."""

    def __init__(self, seconds: float) -> None:
        self._end = time.monotonic() + seconds

    def __call__(self) -> bool:
        """Yes until then."""
        return time.monotonic() < self._end


class Probe:
    """A client and a worker in one thread, so that one clock times both ends."""

    def __init__(self, address: str) -> None:
        hello = m.HelloWorker(
            secrets.token_bytes(16),
            ("job.assign.>",),
            "probe",
            1,
            1,
            (),
            (*FEATURES, LEASE, PATTERNS),
        )
        self._client = RawClient(address, "probe")
        self._worker = RawClient(address, "", hello)
        self._worker.send(m.Credit(1))
        self._worker.flush()

    def __enter__(self) -> Probe:
        return self

    def __exit__(self, *_: object) -> None:
        self._client.close()
        self._worker.close()

    def jobs_while(self, goes_on: Callable[[], bool]) -> dict[float, float]:
        """One job after the other: when it was submitted, and its latency in milliseconds."""
        times = {}
        while goes_on():
            at = time.monotonic()
            times[at] = self.job_ms()
            time.sleep(PAUSE_S)
        return times

    def job_ms(self) -> float:
        """From the submit to the assignment; returns when the member has heard of its end."""
        began = time.perf_counter()
        self._client.submit(PAYLOAD)
        self._client.flush()
        job = self._assigned()
        took_ms = (time.perf_counter() - began) * 1e3
        self._worker.send(m.AckJob(job.job_id, job.attempt, job.fence))
        self._worker.send(m.Credit(1))
        self._worker.flush()
        while not any(isinstance(one, m.Result) for one in self._client.receive()):
            pass
        return took_ms

    def _assigned(self) -> m.AssignJob:
        while True:
            for message in self._worker.receive():
                if isinstance(message, m.AssignJob):
                    return message
