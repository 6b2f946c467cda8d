"""Many jobs that read the same cached file: it comes to each worker once."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Final

from bench.files.grid import Grid, running, write_noise
from rollq.roles.client.jobs.specs import CacheFile, JobSpec

WORKERS: Final = 2
CACHE: Final = "shared"
NAME: Final = "in.bin"
WINDOW: Final = 64


def measure_shared(folder: Path, size: int, jobs: int, members: int) -> dict[str, float]:
    """Bytes that came to the workers' stores, as parts of the file, and jobs a second."""
    file = folder / NAME
    write_noise(file, size)
    with running(folder / "shared", members, WORKERS) as grid:
        seconds = asyncio.run(run_jobs(grid, file, size, jobs))
        grid.stop()
        taken = [counts.written for counts in grid.counts_of_workers()]
        member_reads = max(counts.read for counts in grid.counts_of_members())
    file.unlink()
    return {
        "shared_worker_most": max(taken) / size,
        "shared_worker_least": min(taken) / size,
        "shared_member_reads": member_reads / size,
        "shared_jobs_per_s": jobs / seconds,
    }


async def run_jobs(grid: Grid, file: Path, size: int, jobs: int) -> float:
    """All of them; seconds from the first submit to the last result."""
    async with grid.client("shared") as client:
        (await client.cache_put(CACHE, {NAME: file})).raise_for_status()
        began = time.perf_counter()
        spec = JobSpec("count", files={NAME: CacheFile(CACHE)})
        async for result in client.map([spec] * jobs, window=WINDOW):
            if not result.ok or int(result.stdout) != size:
                raise RuntimeError(f"a job failed: {result.status} {result.stderr!r}")
        return time.perf_counter() - began
