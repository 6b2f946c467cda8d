"""Keeps copies of sealed segments up to date: starts a process now and then.

On an idle member it starts at once; on one that is never idle, when something has been missing for
a while, so that lines exist within a minute of their seal. Nothing depends on it: without memory or
disk space there are no copies, and readers get the sealed form.
"""

from __future__ import annotations

import asyncio
import importlib.util
import logging
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

from rollq.base.errors import RollqError
from rollq.base.limits import COPIES_AGAIN_MS_MAX, COPIES_CHECK_MS, COPIES_WAIT_MS_MAX
from rollq.history.segments import COLUMNS_FOLDER, FOLDER
from rollq.roles.member.readers import copies_maker
from rollq.roles.member.setup import MemberSetup
from rollq.roles.service import end_tasks

log = logging.getLogger("rollq.readers")

STDERR_BYTES: Final = 500  # of a failed maker, for the log
LINES_SHARE: Final = 4  # lines may take 1/4 of the bound of the history


class CopiesKeeper:
    """Keeps the copies of one member. `start` and `stop` run on the loop, and are idempotent."""

    def __init__(
        self, state_dir: Path, setup: MemberSetup, applied_index: Callable[[], int]
    ) -> None:
        """Take the options of a member.

        Args:
            state_dir: Of the member.
            setup: Of the member.
            applied_index: Of the member; if it does not change, the member is idle.
        """
        self._state_dir = state_dir
        self._niceness = setup.copies_niceness
        self._words = (setup.group, setup.retention.bytes_max // LINES_SHARE)
        self._with_columns = setup.columns and importlib.util.find_spec("pyarrow") is not None
        self._applied_index = applied_index
        self._index_seen = -1
        self._due_since: float | None = None
        self._task: asyncio.Task[None] | None = None
        self._maker: subprocess.Popen[bytes] | None = None
        self._ending = False
        self._seen: tuple[int, int] | None = None  # state of the folders when nothing was due

    def start(self) -> None:
        """Keep copies up to date from now on."""
        if self._task is None and self._niceness is not None:
            self._task = asyncio.get_running_loop().create_task(self._look_after())

    async def stop(self) -> None:
        """Kill the process under way; its partial files are made again."""
        task, self._task = self._task, None
        if task is None:
            return
        self._ending = True
        if self._maker is not None:
            self._maker.kill()
        await end_tasks([task])

    async def _look_after(self) -> None:
        pause_ms = COPIES_CHECK_MS
        while True:
            await asyncio.sleep(pause_ms / 1000)
            try:
                problem = await asyncio.to_thread(self._maybe_make)
            except (OSError, RollqError) as error:
                problem = str(error)
            if problem:
                pause_ms = min(2 * pause_ms, COPIES_AGAIN_MS_MAX)
                log.warning("copies of history cannot be written, will retry: %s", problem)
            else:
                pause_ms = COPIES_CHECK_MS

    def _maybe_make(self) -> str:
        """Make missing copies if it is time; returns the error, or nothing. On a thread."""
        index, before = self._applied_index(), self._index_seen
        self._index_seen = index
        seen = self._changed()
        if seen == self._seen:
            return ""
        now = time.monotonic()
        if self._due_since is None:
            if not self._is_due():
                self._seen = seen
                return ""
            self._due_since = now
        if index != before and now - self._due_since < COPIES_WAIT_MS_MAX / 1000:
            return ""
        problem = self._make()
        self._due_since = None
        if not problem and self._is_due():
            self._seen = self._changed()  # damaged segments, until they are replaced
        return problem

    def _is_due(self) -> bool:
        return copies_maker.is_due(self._state_dir, *self._words, with_columns=self._with_columns)

    def _make(self) -> str:
        group, lines_bytes_max = self._words
        words = (str(self._state_dir), group, str(self._niceness), str(lines_bytes_max))
        self._maker = maker = subprocess.Popen(
            [sys.executable, "-m", copies_maker.__name__, *words, str(int(self._with_columns))],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        if self._ending:
            maker.kill()
        with maker:
            assert maker.stderr is not None
            stderr = maker.stderr.read()[-STDERR_BYTES:].decode(errors="replace").strip()
        if maker.returncode and not self._ending:
            return f"exit code {maker.returncode}: {stderr}"
        return ""

    def _changed(self) -> tuple[int, int]:
        """When the contents of the folders last changed."""
        return self._changed_ns(FOLDER), self._changed_ns(COLUMNS_FOLDER)

    def _changed_ns(self, folder: str) -> int:
        """When the contents of a folder last changed; 0: no such folder."""
        try:
            return os.stat(self._state_dir / folder).st_mtime_ns
        except FileNotFoundError:
            return 0
