"""Directories for jobs: each gets an empty one, which is reused if that is safe.

A directory in which a program left at most plain files is emptied and reused: creating and removing
one costs as much as starting a program. An untouched one is not even listed.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import re
import stat
from concurrent.futures import Executor, Future
from functools import partial
from typing import Final, NamedTuple

from rollq.base.errors import ErrorCode, LocalError
from rollq.base.ids import JobId, guid_to_text
from rollq.roles.worker.inputs import Stamps
from rollq.roles.worker.outputs import TERMS, ExecutionEnd, Left, Terms, collect_outputs
from rollq.store.safe_dir import READ, SafeDir

log = logging.getLogger("rollq.worker")

TMP: Final = ".tmp"
JOB_TMP: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.tmp")
BLOCK_BYTES: Final = 512  # the unit of `st_blocks` on every file system
ENTRY_BYTES: Final = 256  # approximate bytes of a name and an inode, for empty files
LONG_AGO_NS: Final = 1_000_000_000 * 1_000_000_000  # in 2001: any later change has a later time


class ParentDirectory(NamedTuple):
    """A directory for directories of jobs: held open, with its path for messages."""

    files: SafeDir
    path: str

    @classmethod
    def at(cls, path: str) -> ParentDirectory:
        """Open a directory and hold it."""
        return cls(SafeDir(path), path)

    @property
    def fd(self) -> int:
        """Its descriptor."""
        return self.files.fd


class Directory:
    """One directory of a job, held open, with its identity."""

    __slots__ = (
        *(
            "_private",
            "_entry",
            "_identity",
            "_parent",
            "_tmp",
            "_tmp_parent",
            "_tmp_untouched",
            "_untouched",
        ),
        *("files", "path", "tmp_env"),
    )

    def __init__(self, parent: ParentDirectory, entry: str, tmp_parent: ParentDirectory) -> None:
        self._parent = parent
        self._entry = entry
        self.path = f"{parent.path}/{entry}"  # for messages
        # For temporary files: outside of it, because they are no outputs. As long as it exists the
        # directory is ours: created after it, removed before it (see `make_empty`).
        self._tmp_parent = tmp_parent
        self._tmp = f"{entry}{TMP}"
        self.tmp_env = os.fsencode(f"TMPDIR={tmp_parent.path}/{self._tmp}")
        os.mkdir(entry, 0o700, dir_fd=parent.fd)
        try:
            os.mkdir(self._tmp, 0o700, dir_fd=tmp_parent.fd)
        except OSError:
            os.rmdir(entry, dir_fd=parent.fd)
            raise
        self._tmp_untouched = self._remember_tmp_empty()
        self.files = SafeDir(entry, parent.files)
        status = os.fstat(self.files.fd)
        self._identity = (status.st_dev, status.st_ino, status.st_mode)
        self._untouched: os.stat_result | None = None
        self._private: list[str] = []  # our files in the temporary directory

    def create_private(self, name: str, content: bytes) -> str:
        """Create a file for the job that is neither input nor output, readable only by its owner;
        returns its path. Removed by `clear_private`, or with the directory. Raises OSError."""
        with SafeDir(self._tmp, self._tmp_parent.files) as tmp:
            made = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=tmp.fd)
            with open(made, "wb") as file:
                file.write(content)
        self._private.append(name)
        return self.path_of_tmp(name)

    def clear_private(self) -> None:
        """Remove the files of `create_private`; the rest goes with the directory."""
        names, self._private = self._private, []
        if not names:
            return
        with contextlib.suppress(OSError), SafeDir(self._tmp, self._tmp_parent.files) as tmp:
            for name in names:
                os.unlink(name, dir_fd=tmp.fd)

    def path_of_tmp(self, name: str) -> str:
        """The path of a file in the temporary directory."""
        return f"{self._tmp_parent.path}/{self._tmp}/{name}"

    def read_tmp(self, name: str, bytes_max: int) -> bytes:
        """The end of a plain file that the job wrote to the temporary directory; empty if there is
        none. May be called while a program runs."""
        with contextlib.suppress(OSError), SafeDir(self._tmp, self._tmp_parent.files) as tmp:
            fd = os.open(name, READ, dir_fd=tmp.fd)
            try:
                status = os.fstat(fd)
                if stat.S_ISREG(status.st_mode):
                    return os.pread(fd, bytes_max, max(0, status.st_size - bytes_max))
            finally:
                os.close(fd)
        return b""

    def remove_tmp(self, name: str) -> None:
        """Remove a file from the temporary directory, so that the directory can be reused."""
        with contextlib.suppress(OSError), SafeDir(self._tmp, self._tmp_parent.files) as tmp:
            os.unlink(name, dir_fd=tmp.fd)

    def is_tmp_touched(self) -> bool:
        """Whether a file was added to or removed from the temporary directory, by one stat."""
        try:
            return self._look_at_tmp() != self._tmp_untouched
        except OSError:
            return True

    @property
    def folders(self) -> tuple[str, str]:
        """The paths of the directory and of the temporary directory."""
        return self.path, os.fsdecode(self.tmp_env.partition(b"=")[2])

    def hand_over(self, user: int) -> None:
        """Change the owner of the directory and its inputs to another user, before anything runs in
        it. Raises OSError."""
        os.fchown(self.files.fd, user, user)
        for one in self.files.walk():
            os.chown(one.name, user, user, dir_fd=self.files.fd, follow_symlinks=False)
        for name in ("", *self._private):
            path = os.path.join(self._tmp, name)
            os.chown(path, user, user, dir_fd=self._tmp_parent.fd, follow_symlinks=False)
        self._tmp_untouched = self._remember_tmp_empty()
        if self._untouched is not None:
            self._untouched = self.look()

    def used_bytes(self, enough: int) -> int:
        """Disk usage of the directory and the temporary directory; counting stops beyond `enough`.
        May be called while a program runs, on any thread."""
        total = 0
        seen: set[int] = set()
        for entry, fd in ((".", self.files.fd), (self._tmp, self._tmp_parent.fd)):
            with contextlib.suppress(OSError):  # it was removed or replaced
                below = os.open(entry, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=fd)
                with SafeDir.of(below) as files:
                    for one in files.walk():
                        if one.status.st_nlink > 1 and one.is_file:
                            if one.status.st_ino in seen:
                                continue
                            seen.add(one.status.st_ino)
                        total += ENTRY_BYTES + one.status.st_blocks * BLOCK_BYTES
                        if total > enough:
                            return total
        return total

    def remember_empty(self) -> None:
        """Note that it is empty now; see `is_untouched`."""
        if self._untouched is None:
            # A file may be added within one clock tick, so the time must be in the past.
            os.utime(self.files.fd, ns=(LONG_AGO_NS, LONG_AGO_NS))
            self._untouched = self.look()

    def forget_empty(self) -> None:
        """Files will be, or were, added to it."""
        self._untouched = None

    def look(self) -> os.stat_result:
        """Stat its path; raises OSError."""
        return os.stat(self._entry, dir_fd=self._parent.fd, follow_symlinks=False)

    def is_untouched(self, now: os.stat_result) -> bool:
        """Whether no file was added or removed since it was known to be empty.

        A program cannot set the time of change, and the time of modification never returns by
        itself: both would have to happen in the same clock tick.
        """
        then = self._untouched
        return (
            then is not None
            and now.st_ctime_ns == then.st_ctime_ns
            and now.st_mtime_ns == then.st_mtime_ns
            and self.is_same(now)
            and self.has_same_mode(now)
        )

    def is_tmp_empty(self) -> bool:
        """Whether the temporary directory is empty; raises OSError."""
        now = self._look_at_tmp()
        if now == self._tmp_untouched:
            return True
        if now[:2] != self._tmp_untouched[:2]:
            return False  # it was replaced
        fd = os.open(
            self._tmp, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=self._tmp_parent.fd
        )
        try:
            is_empty = not os.listdir(fd)
        finally:
            os.close(fd)
        if is_empty:
            self._tmp_untouched = self._remember_tmp_empty()
        return is_empty

    def _remember_tmp_empty(self) -> tuple[int, int, int, int]:
        times = (LONG_AGO_NS, LONG_AGO_NS)  # see `remember_empty`
        os.utime(self._tmp, ns=times, dir_fd=self._tmp_parent.fd, follow_symlinks=False)
        return self._look_at_tmp()

    def _look_at_tmp(self) -> tuple[int, int, int, int]:
        status = os.stat(self._tmp, dir_fd=self._tmp_parent.fd, follow_symlinks=False)
        return status.st_ino, status.st_mode, status.st_mtime_ns, status.st_ctime_ns

    def is_same(self, now: os.stat_result) -> bool:
        """Whether this is the directory that was created."""
        return (now.st_dev, now.st_ino) == self._identity[:2] and stat.S_ISDIR(now.st_mode)

    def has_same_mode(self, now: os.stat_result) -> bool:
        """Whether it has the permissions of its creation."""
        return now.st_mode == self._identity[2]

    def unlock(self) -> None:
        """Restore the permissions of its creation."""
        os.fchmod(self.files.fd, stat.S_IMODE(self._identity[2]))

    def remove(self) -> None:
        """Remove whatever has its path now, with all contents; raises OSError."""
        self.files.close()
        self._tmp_parent.files.remove(self._tmp)
        self._parent.files.remove(self._entry)


class Directories:
    """Hands out directories and takes them back.

    Their parent is held open from the start: whatever programs do to its path, directories are
    created, read and removed in this one.

    Args:
        thread: For slow removals, one after the other.
        parent: This worker's own, which is empty.
        by_job: As a legacy worker does: directories are beside `parent`, named by job, and are not
            reused. Other workers of the host may use the same folder.
        reuse: Whether a clean directory may be used for another job. Not if jobs have users of
            their own: permissions granted by one would persist."""

    def __init__(
        self, thread: Executor, parent: str, *, by_job: bool = False, reuse: bool = True
    ) -> None:
        self._thread = thread
        self._by_job = by_job
        self._reuses = reuse and not by_job
        self.path = parent
        self._parent = ParentDirectory.at(parent)
        self._shared = ParentDirectory.at(os.path.dirname(parent)) if by_job else self._parent
        self._made_count = 0
        self._clean: list[Directory] = []  # bounded by the slots

    def take(self, job_id: JobId) -> Directory:
        """An empty directory."""
        if self._clean:
            return self._clean.pop()
        self._made_count += 1
        name = str(self._made_count)
        if not self._by_job:
            return Directory(self._parent, name, self._parent)
        job = guid_to_text(job_id)
        try:
            return Directory(self._shared, job, self._parent)
        except FileExistsError:  # of another worker of this host, or of an earlier attempt
            directory = Directory(self._parent, f"{job}-{name}", self._parent)
            log.info("%s/%s is in use: the job has %s", self._shared.path, job, directory.path)
            return directory

    def give(
        self, directory: Directory, inputs: Stamps, ending: ExecutionEnd, terms: Terms = TERMS
    ) -> Left | None:
        """Take it back after a job, with its small outputs in `ending`, unless the program replaced
        it. If there are large outputs, they are returned, and `settle` must follow."""
        left = Left(None, [])
        try:
            now = directory.look()
            is_untouched = not inputs and self._reuses and directory.is_untouched(now)
            if is_untouched and directory.is_tmp_empty():
                self._clean.append(directory)
                return None
            directory.forget_empty()
            if not directory.is_same(now):
                ending.notes.append("the job's directory was replaced: no outputs returned")
                directory.files.close()
                return None
            is_locked = not directory.has_same_mode(now)
            if is_locked:
                directory.unlock()
            left = collect_outputs(directory.files, inputs, ending, terms)
            if is_locked:
                left = left._replace(files=None)
            if left.large:
                return left
        except OSError as error:
            ending.notes.append(f"the outputs cannot be read: {error.strerror}")
        self._clear(directory, left.files)
        return None

    def settle(self, directory: Directory, left: Left) -> None:
        """Its large outputs are uploaded: clear the directory."""
        self._clear(directory, left.files)

    def drop(self, directory: Directory) -> None:
        """Take back a directory in which nothing ran."""
        try:
            directory.remove()
        except OSError as error:
            _left_behind(directory, error)

    def discard(self, directory: Directory) -> None:
        """Remove a directory with whatever is in it."""
        self._clear(directory, None)

    def close(self) -> None:
        """Close all clean directories and, after pending removals, the parents."""
        for directory in self._clean:
            directory.files.close()
        self._clean.clear()
        for parent in dict.fromkeys((self._shared, self._parent)):
            self._thread.submit(parent.files.close)

    def _clear(self, directory: Directory, files: list[str] | None) -> None:
        """Reuse it if it has only these files; None: unknown contents, so remove it."""
        if files is not None and self._reuses:
            try:
                if not directory.is_tmp_empty():
                    raise OSError(errno.ENOTEMPTY, "temporary files are left")
                for file in files:
                    directory.files.unlink(file)
                self._clean.append(directory)
                return
            except OSError:
                pass
        removal = self._thread.submit(directory.remove)
        removal.add_done_callback(partial(_removed, directory))


def make_empty(directory: str, mode: int = 0o700) -> str:
    """Create an empty directory, removing the leftovers of an earlier run of this worker in it and
    beside it; returns its absolute path."""
    path = os.path.abspath(directory)
    above, name = os.path.split(path)
    try:
        os.makedirs(above, mode=mode, exist_ok=True)
        with SafeDir(above) as parent:
            for left in _left_beside(path):
                parent.remove(left)
            parent.remove(name)
        os.mkdir(path, mode=mode)
    except OSError as error:
        raise LocalError(
            ErrorCode.BAD_SETUP,
            f"the jobs directory {directory} cannot be made: {error.strerror or error}",
            "give the user that runs rollq the right to write there, or name another",
        ) from None
    return path


def _left_beside(path: str) -> list[str]:
    """Leftover directories of jobs beside this one, made by the same worker."""
    try:
        names = os.listdir(path)
    except OSError:
        return []
    return [name.removesuffix(TMP) for name in names if JOB_TMP.fullmatch(name)]


def _removed(directory: Directory, removal: Future[None]) -> None:
    if not removal.cancelled() and (error := removal.exception()) is not None:
        _left_behind(directory, error)


def _left_behind(directory: Directory, error: BaseException) -> None:
    log.warning("job directory %s cannot be removed: %s", directory.path, error)
