"""Default directories of a worker: programs, caches and working directories of jobs.

Existing legacy directories take precedence, so that workers on legacy machines find their programs
with the legacy command lines.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

LEGACY_EXEC_DIR: Final = Path("/opt/grid/exe")
LEGACY_JOBS_DIR: Final = Path("/tmp/jobs")
LEGACY_CACHE_DIR: Final = Path("/opt/grid/cache")
EXEC_DIR: Final = Path("exec")
JOBS_DIR: Final = Path("jobs")


class WorkerDirs(NamedTuple):
    """The directories of a worker."""

    exec_dir: Path | None
    jobs_dir: Path
    own_execs: bool  # copy the program into the job's directory, like a legacy worker
    cache_dir: Path | None = None  # a directory with caches as files


def find_dirs(exec_dir: Path | None, jobs_dir: Path | None) -> WorkerDirs:
    """The given directories, else the legacy ones if they exist, else the defaults."""
    is_legacy = exec_dir is None and LEGACY_EXEC_DIR.is_dir()
    if is_legacy:
        exec_dir = LEGACY_EXEC_DIR
    elif exec_dir is None and EXEC_DIR.is_dir():
        exec_dir = EXEC_DIR
    if jobs_dir is None:
        jobs_dir = LEGACY_JOBS_DIR if is_legacy and LEGACY_JOBS_DIR.is_dir() else JOBS_DIR
    cache_dir = LEGACY_CACHE_DIR if is_legacy and LEGACY_CACHE_DIR.is_dir() else None
    return WorkerDirs(exec_dir, jobs_dir, is_legacy, cache_dir)
