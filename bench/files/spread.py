"""One large file to four workers of this machine by `cache_put`, beside four plain copies."""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from pathlib import Path
from typing import Final

from bench.files.copy import copy
from bench.files.grid import Grid, digest_of, running
from bench.procs import Process, python

WORKERS: Final = 4
CACHE: Final = "large"
COPY_S_MAX: Final = 1_800.0


def measure_spread(folder: Path, file: Path, digest: str, members: int) -> dict[str, float]:
    """Seconds of both, and what the stores were read for it."""
    size = file.stat().st_size
    before_s = seconds_of_copies(folder / "copies", file)
    with running(folder / "spread", members, WORKERS) as grid:
        os.sync()
        began = time.perf_counter()
        uploaded_s = asyncio.run(put(grid, file)) - began
        put_s = time.perf_counter() - began
        copies = [digest_of(grid.blob_of(worker, digest)) for worker in grid.workers]
        grid.stop()
        member_reads = max(counts.read for counts in grid.counts_of_members())
        worker_reads = sum(counts.read for counts in grid.counts_of_workers())
        taken = sum(counts.written for counts in grid.counts_of_workers())
    # The machine may be another one by now: so once before and once after.
    copies_s = (before_s + seconds_of_copies(folder / "copies", file)) / 2
    at_once_s = seconds_of_copies_at_once(folder / "at-once", file)
    return {
        "spread_s": put_s,
        "spread_upload_s": uploaded_s,
        "spread_copies_s": copies_s,
        "spread_copies_at_once_s": at_once_s,
        "spread_vs_copies": put_s / copies_s,
        "spread_vs_copies_at_once": put_s / at_once_s,
        "spread_member_reads": member_reads / size,
        "spread_worker_reads": worker_reads / size,
        "spread_worker_writes": taken / size,
        "spread_wrong_copies": sum(1 for one in copies if one != digest),
    }


async def put(grid: Grid, file: Path) -> float:
    """Until all workers have it; when the group had it."""
    uploaded_at = 0.0

    def moved(_done: int, _total: int) -> None:
        nonlocal uploaded_at
        uploaded_at = time.perf_counter()

    async with grid.client("spread") as client:
        report = await client.cache_put(
            CACHE, {file.name: file}, timeout=COPY_S_MAX, on_upload=moved
        )
        report.raise_for_status()
        if report.held != WORKERS:
            raise RuntimeError(f"{report.held} of {WORKERS} workers hold the cache")
    return uploaded_at


def seconds_of_copies(folder: Path, file: Path) -> float:
    """Four copies with their digests, synced, one after the other."""
    folder.mkdir()
    os.sync()
    try:
        began = time.perf_counter()
        for number in range(WORKERS):
            copy(file, folder / str(number))
        return time.perf_counter() - began
    finally:
        shutil.rmtree(folder)


def seconds_of_copies_at_once(folder: Path, file: Path) -> float:
    """The same by four processes at the same time."""
    folder.mkdir()
    os.sync()
    copies: list[Process] = []
    try:
        began = time.perf_counter()
        for number in range(WORKERS):
            argv = python("bench.files.copy", str(file), str(folder / str(number)))
            copies.append(Process(argv, folder / f"{number}.log"))
        for one in copies:
            one.wait(COPY_S_MAX)
        return time.perf_counter() - began
    finally:
        for one in copies:
            one.stop()
        shutil.rmtree(folder)
