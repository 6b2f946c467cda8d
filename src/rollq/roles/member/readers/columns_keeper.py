"""Sees to it that sealed segments have Arrow copies: starts a process now and then.

Nothing depends on it: without pyarrow, without memory, without room on the disk there are none,
and readers get lines.
"""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from rollq.base.errors import RollqError
from rollq.base.limits import COLUMNS_AGAIN_MS_MAX, COLUMNS_CHECK_MS
from rollq.history import arrow_cache
from rollq.history.segments import FOLDER
from rollq.roles.member.readers import columns_maker
from rollq.roles.service import end_tasks
from rollq.store.look import LookDisk

log = logging.getLogger("rollq.readers")

TOLD_BYTES: Final = 500  # of what a maker said before it failed


class ColumnsKeeper:
    """Of one member. `start` and `stop` on the loop; twice is no error."""

    def __init__(self, state_dir: Path, group: str, niceness: int | None) -> None:
        self._state_dir = state_dir
        self._group = group
        self._niceness = niceness
        self._task: asyncio.Task[None] | None = None
        self._maker: subprocess.Popen[bytes] | None = None
        self._ending = False
        self._seen: tuple[int, int] | None = None  # how the folders were when nothing could be done

    def start(self) -> None:
        """Look after copies from now on, if Arrow is there at all."""
        if self._task is not None or self._niceness is None:
            return
        if importlib.util.find_spec("pyarrow") is None:
            log.debug("no Arrow columns for readers: pyarrow is not installed")
            return
        self._task = asyncio.get_running_loop().create_task(self._look_after())

    async def stop(self) -> None:
        """End the process that is at it; what it had begun is begun anew."""
        task, self._task = self._task, None
        if task is None:
            return
        self._ending = True
        if self._maker is not None:
            self._maker.kill()
        await end_tasks([task])

    async def _look_after(self) -> None:
        pause_ms = COLUMNS_CHECK_MS
        while True:
            await asyncio.sleep(pause_ms / 1000)
            try:
                complaint = await asyncio.to_thread(self._maybe_make)
            except (OSError, RollqError) as error:
                complaint = str(error)
            if complaint:
                pause_ms = min(2 * pause_ms, COLUMNS_AGAIN_MS_MAX)
                log.warning("Arrow columns cannot be written, will retry: %s", complaint)
            else:
                pause_ms = COLUMNS_CHECK_MS

    def _maybe_make(self) -> str:
        """Have made what is missing, if anything is; why that did not succeed. On a thread."""
        seen = (self._changed_ns(FOLDER), self._changed_ns(arrow_cache.FOLDER))
        if seen == self._seen:
            return ""
        disk = LookDisk(self._state_dir)
        missing = columns_maker.missing(disk, self._group)
        if not missing and not columns_maker.stale(disk):
            self._seen = seen
            return ""
        words = (str(self._state_dir), self._group, str(self._niceness))
        self._maker = maker = subprocess.Popen(
            [sys.executable, "-m", columns_maker.__name__, *words],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        if self._ending:
            maker.kill()
        with maker:
            assert maker.stderr is not None
            said = maker.stderr.read()[-TOLD_BYTES:].decode(errors="replace").strip()
        if maker.returncode:
            return "" if self._ending else f"exit code {maker.returncode}: {said}"
        if columns_maker.missing(disk, self._group) == missing:
            self._seen = (
                seen[0],
                self._changed_ns(arrow_cache.FOLDER),
            )  # damaged, until they are replaced
        return ""

    def _changed_ns(self, folder: str) -> int:
        """When a name came to a folder or went; 0: there is no folder."""
        try:
            return os.stat(self._state_dir / folder).st_mtime_ns
        except FileNotFoundError:
            return 0
