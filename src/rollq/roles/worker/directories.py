"""Directories for jobs: one each, empty at first, used again where that is safe.

A directory that a program left empty of all but plain files is emptied and used again: making
and removing one costs as much as starting a program does. One that was not touched is not even
looked into.
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
from rollq.roles.worker.outputs import TERMS, Ending, Left, Terms, collect_outputs
from rollq.store.safe_dir import READ, SafeDir

log = logging.getLogger("rollq.worker")

TMP: Final = ".tmp"
JOB_TMP: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\.tmp")
BLOCK_BYTES: Final = 512  # of `st_blocks`, whatever the file system's own are
ENTRY_BYTES: Final = 256  # of a name and an inode, about: empty files count, too
LONG_AGO_NS: Final = 1_000_000_000 * 1_000_000_000  # in 2001: whatever is added now is later


class Parent(NamedTuple):
    """Where directories of jobs are made: held open, and its path to tell people."""

    files: SafeDir
    path: str

    @classmethod
    def at(cls, path: str) -> Parent:
        """Hold this one open."""
        return cls(SafeDir(path), path)

    @property
    def fd(self) -> int:
        """Its descriptor."""
        return self.files.fd


class Directory:
    """One directory, held open, and how to know it again."""

    __slots__ = (
        *(
            "_aside",
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

    def __init__(self, parent: Parent, entry: str, tmp_parent: Parent) -> None:
        self._parent = parent
        self._entry = entry
        self.path = f"{parent.path}/{entry}"  # to tell people
        # For temporary files: not in it, because what is left there is no output. While it is
        # there the directory is ours: made after it, removed before it (see `make_empty`).
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
        self._aside: list[str] = []  # files in the directory for temporary files

    def put_aside(self, name: str, content: bytes) -> str:
        """Make a file for the job that is no input and no output, and that nobody else may read;
        returns its path. It is gone with `clear_aside`, or with all the rest. Raises OSError."""
        with SafeDir(self._tmp, self._tmp_parent.files) as tmp:
            made = os.open(name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600, dir_fd=tmp.fd)
            with open(made, "wb") as file:
                file.write(content)
        self._aside.append(name)
        return self.path_of_tmp(name)

    def clear_aside(self) -> None:
        """Remove the files that were put aside; what cannot be removed goes with all the rest."""
        names, self._aside = self._aside, []
        if not names:
            return
        with contextlib.suppress(OSError), SafeDir(self._tmp, self._tmp_parent.files) as tmp:
            for name in names:
                os.unlink(name, dir_fd=tmp.fd)

    def path_of_tmp(self, name: str) -> str:
        """Where a file in the directory for temporary files is."""
        return f"{self._tmp_parent.path}/{self._tmp}/{name}"

    def read_tmp(self, name: str, bytes_max: int) -> bytes:
        """The end of a plain file that the job has made in the directory for temporary files;
        empty: there is none. May be called while a program runs in it."""
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
        """Remove a file from there, so that the directory can be used again."""
        with contextlib.suppress(OSError), SafeDir(self._tmp, self._tmp_parent.files) as tmp:
            os.unlink(name, dir_fd=tmp.fd)

    def is_tmp_touched(self) -> bool:
        """Whether a file was added to or removed from there, by one look."""
        try:
            return self._look_at_tmp() != self._tmp_untouched
        except OSError:
            return True

    @property
    def folders(self) -> tuple[str, str]:
        """The paths of itself and of the directory for temporary files."""
        return self.path, os.fsdecode(self.tmp_env.partition(b"=")[2])

    def hand_over(self, user: int) -> None:
        """Give it to another user, with the inputs in it; nothing has run in it yet. Raises
        OSError."""
        os.fchown(self.files.fd, user, user)
        for one in self.files.walk():
            os.chown(one.name, user, user, dir_fd=self.files.fd, follow_symlinks=False)
        for name in ("", *self._aside):
            path = os.path.join(self._tmp, name)
            os.chown(path, user, user, dir_fd=self._tmp_parent.fd, follow_symlinks=False)
        self._tmp_untouched = self._remember_tmp_empty()
        if self._untouched is not None:
            self._untouched = self.look()

    def used_bytes(self, enough: int) -> int:
        """What lies in it and in the directory for temporary files takes on the disk; the sum stops
        when it is more than `enough`. May be called while a program runs in it, on any thread."""
        total = 0
        seen: set[int] = set()
        for entry, fd in ((".", self.files.fd), (self._tmp, self._tmp_parent.fd)):
            with contextlib.suppress(OSError):  # it is gone, or something else has its name
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
        """It is empty now: see `is_untouched`."""
        if self._untouched is None:
            # A clock tick is long enough to add a file, so the time must be one of the past.
            os.utime(self.files.fd, ns=(LONG_AGO_NS, LONG_AGO_NS))
            self._untouched = self.look()

    def forget_empty(self) -> None:
        """Something will be, or was, in it."""
        self._untouched = None

    def look(self) -> os.stat_result:
        """What has its name now; raises OSError."""
        return os.stat(self._entry, dir_fd=self._parent.fd, follow_symlinks=False)

    def is_untouched(self, now: os.stat_result) -> bool:
        """Whether no file was added or removed since it was known to be empty.

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

    def is_tmp_empty(self) -> bool:
        """Whether nothing is left in the directory for temporary files; raises OSError."""
        now = self._look_at_tmp()
        if now == self._tmp_untouched:
            return True
        if now[:2] != self._tmp_untouched[:2]:
            return False  # something else has its name
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
        times = (LONG_AGO_NS, LONG_AGO_NS)  # for the same reason as in `remember_empty`
        os.utime(self._tmp, ns=times, dir_fd=self._tmp_parent.fd, follow_symlinks=False)
        return self._look_at_tmp()

    def _look_at_tmp(self) -> tuple[int, int, int, int]:
        status = os.stat(self._tmp, dir_fd=self._tmp_parent.fd, follow_symlinks=False)
        return status.st_ino, status.st_mode, status.st_mtime_ns, status.st_ctime_ns

    def is_same(self, now: os.stat_result) -> bool:
        """Whether this is the directory that was made."""
        return (now.st_dev, now.st_ino) == self._identity[:2] and stat.S_ISDIR(now.st_mode)

    def has_same_mode(self, now: os.stat_result) -> bool:
        """Whether it still has the permissions that it was made with."""
        return now.st_mode == self._identity[2]

    def unlock(self) -> None:
        """Give it the permissions that it was made with."""
        os.fchmod(self.files.fd, stat.S_IMODE(self._identity[2]))

    def remove(self) -> None:
        """Remove what has its name now, with all that is in it; raises OSError."""
        self.files.close()
        self._tmp_parent.files.remove(self._tmp)
        self._parent.files.remove(self._entry)


class Directories:
    """Hands directories out and takes them back.

    Their parent is held open from the start: whatever programs do to the path that leads to it,
    what is made, read and removed lies in this one.

    Args:
        thread: For what may take long, one after the other.
        parent: This worker's own, which is empty.
        by_job: As a legacy worker does: directories lie beside `parent`, named by their jobs, and
            are not used again. Other workers of the machine may do the same there.
        reuse: Whether a directory that is clean again may be another job's. Not if jobs have users
            of their own: rights that one gave on it would hold.
    """

    def __init__(
        self, thread: Executor, parent: str, *, by_job: bool = False, reuse: bool = True
    ) -> None:
        self._thread = thread
        self._by_job = by_job
        self._reuses = reuse and not by_job
        self.path = parent
        self._parent = Parent.at(parent)
        self._shared = Parent.at(os.path.dirname(parent)) if by_job else self._parent
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
        except FileExistsError:  # of another worker here, or of an earlier attempt
            directory = Directory(self._parent, f"{job}-{name}", self._parent)
            log.info("%s/%s is in use: the job has %s", self._shared.path, job, directory.path)
            return directory

    def give(
        self, directory: Directory, inputs: Stamps, ending: Ending, terms: Terms = TERMS
    ) -> Left | None:
        """Take it back from a job that is over, with its small outputs into `ending`, unless the
        program put something else in its place. If there are large ones, they are returned, and
        `settle` is to follow."""
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
        """Its outputs are not needed any more."""
        self._clear(directory, left.files)

    def drop(self, directory: Directory) -> None:
        """Take back one in which nothing ever ran."""
        try:
            directory.remove()
        except OSError as error:
            _left_behind(directory, error)

    def discard(self, directory: Directory) -> None:
        """Take back one that is to be removed, whatever is in it."""
        self._clear(directory, None)

    def close(self) -> None:
        """Let all of them go, after what is still being removed."""
        for directory in self._clean:
            directory.files.close()
        self._clean.clear()
        for parent in dict.fromkeys((self._shared, self._parent)):
            self._thread.submit(parent.files.close)

    def _clear(self, directory: Directory, files: list[str] | None) -> None:
        """Empty it, if only these files are in it; None: who knows what is there."""
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
    """Make a directory, without what an earlier life of this worker left in it, or beside it by
    the names of jobs; returns its absolute path."""
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
    """The directories of jobs beside this one that its worker made and did not remove."""
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
