"""Measures the disk of this member: what its state directory takes, and what is free there.

On a thread, every few seconds: the loop reads no directory. The sizes of files are added up by
folder, but for blobs, which may be many and are counted where they are stored.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Final

from rollq.base.disk_use import DiskUse
from rollq.history import segments
from rollq.roles.member.reports import Reports
from rollq.roles.service import end_tasks
from rollq.store import body_files, places, snapshots, synced
from rollq.store.blobs import local

log = logging.getLogger("rollq.member")

PAUSE_S: Final = 5.0
PAUSE_TIMES: Final = 100  # and at least so many times as long as the last look took
PARTS: Final = {
    places.FOLDER: "log",
    synced.FOLDER: "log",
    snapshots.FOLDER: "snapshots",
    body_files.FOLDER: "snapshots",
    segments.FOLDER: "history",
    segments.COLUMNS_FOLDER: "history",
}
OTHER: Final = "other"


class DiskMeter:
    """Measures until it is stopped. `start` and `stop` run on the loop."""

    def __init__(self, state_dir: Path, blob_bytes: Callable[[], int], reports: Reports) -> None:
        """Take what to measure, and who is told.

        Args:
            state_dir: Of the member.
            blob_bytes: Returns the bytes of the blobs in it; called on a thread.
            reports: Of the member.
        """
        self._state_dir = state_dir
        self._blob_bytes = blob_bytes
        self._reports = reports
        self._task: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Measure once, and from now on."""
        took_s = await self._measure()
        self._task = asyncio.get_running_loop().create_task(self._go_on(took_s))

    async def stop(self) -> None:
        """Measure no more. Idempotent."""
        task, self._task = self._task, None
        if task is not None:
            await end_tasks([task])

    async def _go_on(self, took_s: float) -> None:
        while True:
            await asyncio.sleep(max(PAUSE_S, PAUSE_TIMES * took_s))
            took_s = await self._measure()

    async def _measure(self) -> float:
        """Measure; returns how long it took, in seconds."""
        began_s = time.monotonic()
        try:
            found = await asyncio.to_thread(measure, self._state_dir, self._blob_bytes)
            self._reports.disk = found
        except OSError as error:
            self._reports.disk = None
            log.debug("the disk of %s cannot be measured: %s", self._state_dir, error)
        return time.monotonic() - began_s


def measure(state_dir: Path, blob_bytes: Callable[[], int]) -> DiskUse:
    """What a state directory takes, and what is free on its file system. Raises OSError."""
    parts: Counter[str] = Counter()
    with os.scandir(state_dir) as entries:
        for entry in entries:
            if entry.name != local.FOLDER:
                parts[PARTS.get(entry.name, OTHER)] += _size_of(entry)
    disk = shutil.disk_usage(state_dir)
    return DiskUse(
        log_bytes=parts["log"],
        snapshot_bytes=parts["snapshots"],
        history_bytes=parts["history"],
        blob_bytes=blob_bytes(),
        other_bytes=parts[OTHER],
        free_bytes=disk.free,
        total_bytes=disk.total,
    )


def _size_of(entry: os.DirEntry[str]) -> int:
    """The bytes of a file, or of all files in a folder; 0 if it is gone meanwhile."""
    try:
        if not entry.is_dir(follow_symlinks=False):
            return entry.stat(follow_symlinks=False).st_size
        with os.scandir(entry) as entries:
            return sum(map(_size_of, entries))
    except FileNotFoundError:
        return 0
