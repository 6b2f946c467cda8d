"""Where a worker finds its programs and makes the directories of jobs, if nobody says.

The directories of the seeds come first where they are there: whoever has peers of the first system
has their programs there, and starts workers by the command lines of the seeds.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

SEEDS_EXEC_DIR: Final = Path("/opt/grid/exe")
SEEDS_JOBS_DIR: Final = Path("/tmp/jobs")
EXEC_DIR: Final = Path("exec")
JOBS_DIR: Final = Path("jobs")


class Places(NamedTuple):
    """The directories of a worker."""

    exec_dir: Path | None
    jobs_dir: Path
    own_execs: bool  # the program is copied into the directory of its job, as in the seeds


def find_places(exec_dir: Path | None, jobs_dir: Path | None) -> Places:
    """What was given, else the directory of the seeds if it is there, else ours."""
    is_of_seeds = exec_dir is None and SEEDS_EXEC_DIR.is_dir()
    if is_of_seeds:
        exec_dir = SEEDS_EXEC_DIR
    elif exec_dir is None and EXEC_DIR.is_dir():
        exec_dir = EXEC_DIR
    if jobs_dir is None:
        jobs_dir = SEEDS_JOBS_DIR if is_of_seeds and SEEDS_JOBS_DIR.is_dir() else JOBS_DIR
    return Places(exec_dir, jobs_dir, is_of_seeds)
