"""A large input by path and a large output through three members: memory, log, every byte."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

from bench.files.grid import MIB, Grid, digest_of, memory_bytes, running, write_noise

MEMBERS = 3
JOB_S_MAX = 600.0
RESET_PEAK = "5"  # told to a process's clear_refs: what it has at most counts anew


def measure_through(folder: Path, size: int) -> dict[str, float]:
    """What the members had more of, the most of any; and whether the bytes are the same."""
    file, back, wanted = folder / "in.bin", folder / "out.bin", folder / "wanted.bin"
    write_noise(file, size)
    with running(folder / "through", MEMBERS, workers=1) as grid:
        asyncio.run(run_job(grid, write_small(folder / "small.bin"), folder / "small.out"))
        for member in grid.members.values():
            Path(f"/proc/{member.pid}/clear_refs").write_text(RESET_PEAK)
        before = levels(grid)
        began = time.perf_counter()
        asyncio.run(run_job(grid, file, back))
        seconds = time.perf_counter() - began
        after = levels(grid)
    # Other content than the input: none of it was in the grid before.
    wanted.write_bytes(b"x" + file.read_bytes())
    return {
        "through_wrong": float(digest_of(back) != digest_of(wanted)),
        "through_rss_mib": max(b[1] - a[0] for a, b in zip(before, after, strict=True)) / MIB,
        "through_log_kib": max(b[2] - a[2] for a, b in zip(before, after, strict=True)) / 1024,
        "through_s": seconds,
    }


def write_small(file: Path) -> Path:
    """For a first job, by which everybody meets everybody."""
    write_noise(file, MIB)
    return file


async def run_job(grid: Grid, file: Path, back: Path) -> None:
    """There and back."""
    async with grid.client("through") as client:
        job = await client.submit("other", files={"in.bin": file})
        result = await job.result(JOB_S_MAX)
        result.raise_for_status()
        await result.outputs["out.bin"].asave(back)


def levels(grid: Grid) -> list[tuple[int, int, int]]:
    """Memory now, memory at most, and bytes of the log, of each member."""
    return [
        (
            memory_bytes(process.pid, "VmRSS"),
            memory_bytes(process.pid, "VmHWM"),
            log_bytes(grid.state_of(address)),
        )
        for address, process in grid.members.items()
    ]


def log_bytes(state: Path) -> int:
    """What is on disk beside the blobs; a log is as long as what was written to it."""
    files = (path for path in state.rglob("*") if "blobs" not in path.parts)
    return sum(len(path.read_bytes().rstrip(bytes(1))) for path in files if path.is_file())
