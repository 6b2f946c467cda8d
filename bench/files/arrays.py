"""A large array that one function returns and a second one takes: how often its bytes move, and
what the client has in memory meanwhile."""

from __future__ import annotations

import os
import time
from pathlib import Path

from bench.files.grid import MIB, Grid, memory_bytes, running
from bench.files.through import RESET_PEAK
from bench.rollq_app import noise_array, sum_of
from rollq import connect

NUMBER_BYTES = 8
SMALL_BYTES = MIB
RESULT_S_MAX = 600.0


def measure_array(folder: Path, size: int) -> dict[str, float]:
    """One member, one worker; the array is too large for a result and goes as a blob."""
    with running(folder / "array", 1, workers=0) as grid:
        grid.add_functions("worker1")
        with connect(grid.servers):
            check(SMALL_BYTES)  # everybody has met everybody
            Path("/proc/self/clear_refs").write_text(RESET_PEAK)
            before_bytes = memory_bytes(os.getpid(), "VmRSS")
            began = time.perf_counter()
            wrong = check(size)
            seconds = time.perf_counter() - began
            grown_bytes = memory_bytes(os.getpid(), "VmHWM") - before_bytes
        grid.stop()  # they leave their counts when they end
        return {
            "array_wrong": float(wrong),
            "array_moves": moves(grid, size),
            "array_client_mib": grown_bytes / MIB,
            "array_s": seconds,
        }


def check(size: int) -> bool:
    """Whether the second function finds another sum than the array was made with."""
    made = noise_array.delay(size // NUMBER_BYTES)
    return bool(sum_of.delay(made).get(RESULT_S_MAX) != size // NUMBER_BYTES)


def moves(grid: Grid, size: int) -> float:
    """How often the bytes went over a connection: what came to anybody, the small array apart."""
    counts = (*grid.counts_of_members(), *grid.counts_of_workers())
    return (sum(one.written for one in counts) - SMALL_BYTES) / size
