"""Where a worker finds its programs and caches and makes the directories of jobs, if nobody says.

The legacy directories come first where they are there: whoever has peers of the first system
has their programs there, and starts workers by the legacy command lines.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final, NamedTuple

LEGACY_EXEC_DIR: Final = Path("/opt/grid/exe")
LEGACY_JOBS_DIR: Final = Path("/tmp/jobs")
LEGACY_CACHE_DIR: Final = Path("/opt/grid/cache")
EXEC_DIR: Final = Path("exec")
JOBS_DIR: Final = Path("jobs")


class Places(NamedTuple):
    """The directories of a worker."""

    exec_dir: Path | None
    jobs_dir: Path
    own_execs: bool  # the program is copied into the directory of its job, as by a legacy worker
    cache_dir: Path | None = None  # has caches as files


def find_places(exec_dir: Path | None, jobs_dir: Path | None) -> Places:
    """What was given, else the legacy directory if it is there, else ours."""
    is_legacy = exec_dir is None and LEGACY_EXEC_DIR.is_dir()
    if is_legacy:
        exec_dir = LEGACY_EXEC_DIR
    elif exec_dir is None and EXEC_DIR.is_dir():
        exec_dir = EXEC_DIR
    if jobs_dir is None:
        jobs_dir = LEGACY_JOBS_DIR if is_legacy and LEGACY_JOBS_DIR.is_dir() else JOBS_DIR
    cache_dir = LEGACY_CACHE_DIR if is_legacy and LEGACY_CACHE_DIR.is_dir() else None
    return Places(exec_dir, jobs_dir, is_legacy, cache_dir)
