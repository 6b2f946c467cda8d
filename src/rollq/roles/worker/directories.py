"""Directories for jobs: one each, empty at first, used again where that is safe.

A directory that a program left empty of all but plain files is emptied and used again: making
and removing one costs as much as starting a program does. One that nobody touched is not even
looked into.
"""

from __future__ import annotations

import logging
import os
import stat
from concurrent.futures import Executor, Future
from functools import partial
from typing import Final

from rollq.roles.worker.outputs import Ending, Stamps, collect_outputs
from rollq.roles.worker.paths import remove_tree

log = logging.getLogger("rollq.worker")

LONG_AGO_NS: Final = 1_000_000_000 * 1_000_000_000  # in 2001: whatever is added now is later


class Directory:
    """One directory, and how to know it again."""

    __slots__ = ("_identity", "_untouched", "name", "path")

    def __init__(self, path: str) -> None:
        self.path = path
        self.name = os.fsencode(path)
        os.mkdir(path, 0o700)
        status = os.lstat(path)
        self._identity = (status.st_dev, status.st_ino, status.st_mode)
        self._untouched: os.stat_result | None = None

    def remember_empty(self) -> None:
        """It is empty now: see `is_untouched`."""
        if self._untouched is None:
            # A clock tick is long enough to add a file, so the time must be one of the past.
            os.utime(self.path, ns=(LONG_AGO_NS, LONG_AGO_NS))
            self._untouched = os.lstat(self.path)

    def forget_empty(self) -> None:
        """Something will be, or was, in it."""
        self._untouched = None

    def look(self) -> os.stat_result:
        """What is at its path now; raises OSError."""
        return os.lstat(self.path)

    def is_untouched(self, now: os.stat_result) -> bool:
        """Whether nobody added or removed a file since it was known to be empty.

        The time of change cannot be set by a program, and that of modification does not come
        back by itself: a tick of the clock in which both happen would have to be the same.
        """
        then = self._untouched
        return (
            then is not None
            and now.st_ctime_ns == then.st_ctime_ns
            and now.st_mtime_ns == then.st_mtime_ns
            and self.is_same(now)
            and self.has_same_mode(now)
        )

    def is_same(self, now: os.stat_result) -> bool:
        """Whether this is the directory that was made."""
        return (now.st_dev, now.st_ino) == self._identity[:2] and stat.S_ISDIR(now.st_mode)

    def has_same_mode(self, now: os.stat_result) -> bool:
        """Whether it still has the permissions that it was made with."""
        return now.st_mode == self._identity[2]


class Directories:
    """Hands directories out and takes them back."""

    def __init__(self, thread: Executor, parent: str) -> None:
        self._thread = thread  # for what may take long
        self._parent = parent
        self._made_count = 0
        self._clean: list[Directory] = []  # bounded by the slots

    def take(self) -> Directory:
        """An empty directory."""
        if self._clean:
            return self._clean.pop()
        self._made_count += 1
        return Directory(f"{self._parent}/{self._made_count}")

    def give(self, directory: Directory, inputs: Stamps, ending: Ending) -> None:
        """Take it back from a job that is over, with its outputs into `ending`, unless the program
        put something else in its place."""
        files: list[str] | None = None
        try:
            now = directory.look()
            if not inputs and directory.is_untouched(now):
                self._clean.append(directory)
                return
            directory.forget_empty()
            if not directory.is_same(now):
                ending.notes.append("the job's directory was replaced: no outputs returned")
                return
            files = collect_outputs(directory.path, inputs, ending)
            if not directory.has_same_mode(now):
                files = None
        except OSError as error:
            ending.notes.append(f"the outputs cannot be read: {error.strerror}")
        self._clear(directory, files)

    def _clear(self, directory: Directory, files: list[str] | None) -> None:
        """Empty it, if only these files are in it; None: who knows what is there."""
        if files is not None:
            try:
                for file in files:
                    os.unlink(file)
                self._clean.append(directory)
                return
            except OSError:
                pass
        removal = self._thread.submit(remove_tree, directory.path)
        removal.add_done_callback(partial(_removed, directory.path))


def _removed(path: str, removal: Future[None]) -> None:
    if not removal.cancelled() and (error := removal.exception()) is not None:
        log.warning("the job directory %s is left behind: %s", path, error)
