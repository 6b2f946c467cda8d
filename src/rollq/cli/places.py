"""Default directories of a worker: programs, caches and working directories of jobs.

Existing legacy directories take precedence, so that workers on legacy machines find their programs
with the legacy command lines.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

ROOT: Final = Path("/")
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


def find_dirs(exec_dir: Path | None, jobs_dir: Path | None, root: Path = ROOT) -> WorkerDirs:
    """The given directories, else the legacy ones below `root` if they exist, else the
    defaults."""
    legacy_exec, legacy_jobs, legacy_cache = (
        root / each.relative_to(ROOT)
        for each in (LEGACY_EXEC_DIR, LEGACY_JOBS_DIR, LEGACY_CACHE_DIR)
    )
    is_legacy = exec_dir is None and legacy_exec.is_dir()
    if is_legacy:
        exec_dir = legacy_exec
    elif exec_dir is None and EXEC_DIR.is_dir():
        exec_dir = EXEC_DIR
    if jobs_dir is None:
        jobs_dir = legacy_jobs if is_legacy and legacy_jobs.is_dir() else JOBS_DIR
    cache_dir = legacy_cache if is_legacy and legacy_cache.is_dir() else None
    return WorkerDirs(exec_dir, jobs_dir, is_legacy, cache_dir)
