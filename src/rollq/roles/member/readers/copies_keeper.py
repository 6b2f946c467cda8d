"""Sees to it that sealed segments have their copies: starts a process now and then.

When nothing happens it starts at once; a member that is never idle has it start when something has
been missing for a while, so that lines are there within a minute of their seal. Nothing depends on
it: without memory or room on the disk there are no copies, and readers get what was sealed.
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

TOLD_BYTES: Final = 500  # of what a maker said before it failed
LINES_SHARE: Final = 4  # lines may take this part of the bound of the history


class CopiesKeeper:
    """Of one member. `start` and `stop` on the loop; twice is no error."""

    def __init__(
        self, state_dir: Path, setup: MemberSetup, applied_index: Callable[[], int]
    ) -> None:
        """Look at a member's directory.

        Args:
            state_dir: of the member.
            setup: of the member.
            applied_index: how far it has come: idle is one whose index stays.
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
        self._seen: tuple[int, int] | None = None  # how the folders were when nothing could be done

    def start(self) -> None:
        """Look after copies from now on."""
        if self._task is None and self._niceness is not None:
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
        pause_ms = COPIES_CHECK_MS
        while True:
            await asyncio.sleep(pause_ms / 1000)
            try:
                complaint = await asyncio.to_thread(self._maybe_make)
            except (OSError, RollqError) as error:
                complaint = str(error)
            if complaint:
                pause_ms = min(2 * pause_ms, COPIES_AGAIN_MS_MAX)
                log.warning("copies of history cannot be written, will retry: %s", complaint)
            else:
                pause_ms = COPIES_CHECK_MS

    def _maybe_make(self) -> str:
        """Have made what is missing, if it is time; why that did not succeed. On a thread."""
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
        complaint = self._make()
        self._due_since = None
        if not complaint and self._is_due():
            self._seen = self._changed()  # damaged, until they are replaced
        return complaint

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
            said = maker.stderr.read()[-TOLD_BYTES:].decode(errors="replace").strip()
        if maker.returncode and not self._ending:
            return f"exit code {maker.returncode}: {said}"
        return ""

    def _changed(self) -> tuple[int, int]:
        """When names came to the folders or went."""
        return self._changed_ns(FOLDER), self._changed_ns(COLUMNS_FOLDER)

    def _changed_ns(self, folder: str) -> int:
        """When a name came to a folder or went; 0: there is no folder."""
        try:
            return os.stat(self._state_dir / folder).st_mtime_ns
        except FileNotFoundError:
            return 0
