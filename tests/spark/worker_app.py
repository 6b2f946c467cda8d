"""Functions for workers in tasks of Spark."""

from __future__ import annotations

import os
import time
from pathlib import Path

from rollq import task


@task("double")
def double(number: str) -> int:
    return 2 * int(number)


@task("hold")
def hold(folder: str) -> str:
    """Says that it has begun, and goes on until it may end."""
    at = Path(folder)
    (at / f"begun-{os.getpid()}").touch()
    deadline = time.monotonic() + 60
    while not (at / "end").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    return "held"
