"""What every benchmark program does around its work: a folder, processes that end with it, and a
report at a fitting width."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import psutil
from rich.console import Console

from bench.procs import adopt_orphans, end_politely, kill_descendants

REPORT_WIDTH: Final = 160  # where nobody says how wide


@contextmanager
def workplace(folder: str) -> Iterator[Path]:
    """A fresh folder below this one; it and all processes that were started go at the end."""
    prepare(folder)
    place = Path(tempfile.mkdtemp(prefix="rollq-bench-", dir=folder))
    try:
        yield place
    finally:
        kill_descendants(os.getpid())
        shutil.rmtree(place, ignore_errors=True)


def prepare(folder: str) -> None:
    """Have whatever is started end with this process, and say if the folder is not worth much."""
    adopt_orphans()
    end_politely()
    at = Path(folder).resolve()
    mounts = [one for one in psutil.disk_partitions(all=True) if at.is_relative_to(one.mountpoint)]
    mount = max(mounts, key=lambda one: len(one.mountpoint), default=None)
    if mount is not None and mount.fstype in ("tmpfs", "ramfs"):  # where fsync costs nothing
        text = f"{folder} is memory, not a disk: name another with --dir"
        Console(stderr=True).print(text, style="red")


def paper() -> Console:
    """Where a report is printed."""
    return Console(width=None if sys.stdout.isatty() else REPORT_WIDTH)
