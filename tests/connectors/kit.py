"""What the tests of connectors share."""

from __future__ import annotations

import json
import os
import select
import subprocess
import sys
from pathlib import Path
from typing import Any

from rollq.local_grid import LocalGrid
from tests.integration.patience import DEADLINE_S

# Each of these programs takes seconds to start, and starts itself once more for every job.
RUN_S = 5 * DEADLINE_S


def read_line(pipe: Path) -> str:
    """What a program writes to a named pipe, which may be some time from now."""
    # Open for both: a reader alone would see an end before there is a writer.
    opened = os.open(pipe, os.O_RDWR | os.O_NONBLOCK)
    try:
        ready, _, _ = select.select([opened], [], [], RUN_S)
        assert ready, f"nothing was written to {pipe}"
        return os.read(opened, 4096).decode()
    finally:
        os.close(opened)


def jobs_of(grid: LocalGrid) -> list[dict[str, Any]]:
    """All jobs that a grid knows, the oldest first."""
    command = [sys.executable, "-m", "rollq", "jobs", "--oldest", "--json"]
    told = subprocess.check_output([*command, "--servers", grid.address], timeout=RUN_S, text=True)
    return [json.loads(line) for line in told.splitlines()]
