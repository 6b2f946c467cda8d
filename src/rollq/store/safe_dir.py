"""Access to files below one directory, and nowhere else.

A directory is held open, and everything is reached from its descriptor one name at a time. No
step follows a link, so a name means what lies below the directory even if a program replaced a
folder by a link just before. Names from outside pass `rollq.base.names` first; what is found on
the disk may have any name. Nothing here locks: two that use one `SafeDir` at a time must not list
the same folder.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from collections import Counter
from collections.abc import Container, Iterator
from typing import Final, NamedTuple

from rollq.base.errors import ErrorCode, RemoteError
from rollq.base.limits import FILE_NAME_PARTS_MAX
from rollq.base.names import Parts
from rollq.store.descriptors import write_all
from rollq.store.removal import open_folder, remove_entry

CREATE: Final = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
# Without O_NONBLOCK, opening a FIFO that took the place of a file would wait for ever.
READ: Final = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK
COPY_BYTES: Final = 1024 * 1024
IN_THE_WAY: Final = frozenset((errno.EEXIST, errno.ENOTDIR, errno.ELOOP, errno.EISDIR))
NO_LINKS_HERE: Final = frozenset(
    (errno.EXDEV, errno.EMLINK, errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)
)


class Found(NamedTuple):
    """An entry below the directory."""

    name: str
    status: os.stat_result
    problem: str  # why it must not be used; empty: a plain file or a folder

    @property
    def is_file(self) -> bool:
        """Whether it is a plain file."""
        return stat.S_ISREG(self.status.st_mode)


class SafeDir:
    """One directory, held open until `close`.

    Args:
        root: Its path, which is ours and may lead through links.
        parent: If given, `root` is one name in it, and no link.

    Raises:
        OSError: it cannot be opened, or is no directory.
    """

    __slots__ = ("fd",)

    def __init__(self, root: str, parent: SafeDir | None = None) -> None:
        if parent is None:
            self.fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
        else:
            self.fd = open_folder(parent.fd, root)

    @classmethod
    def of(cls, fd: int) -> SafeDir:
        """One for a descriptor that is open already, which it will close."""
        made = cls.__new__(cls)
        made.fd = fd
        return made

    def close(self) -> None:
        """Close it; safe to call twice."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def __enter__(self) -> SafeDir:
        return self

    def __exit__(self, *_exc: object) -> None:
        self.close()

    # --- writing

    def make_folders(self, parts: Parts) -> None:
        """Make a folder and those above it, as far as they are missing.

        Raises:
            RemoteError: BAD_PAYLOAD, if a file or a link is in the way.
            OSError: the disk's own reasons.
        """
        try:
            with self._folder(parts, make=True):
                pass
        except OSError as error:
            raise _refusal(parts, error) from None

    def open_new(self, parts: Parts, mode: int = 0o644) -> int:
        """Create a file, with the folders above it; returns a descriptor to write to.

        Raises:
            RemoteError: BAD_PAYLOAD, if something is in the way.
            OSError: the disk's own reasons.
        """
        try:
            if len(parts) == 1:
                return os.open(parts[0], CREATE, mode, dir_fd=self.fd)
            with self._folder(parts[:-1], make=True) as folder:
                return os.open(parts[-1], CREATE, mode, dir_fd=folder)
        except OSError as error:
            raise _refusal(parts, error) from None

    def replace(self, parts: Parts, content: bytes, mode: int = 0o644) -> None:
        """Put a file in place atomically, instead of the file or link of its name.

        Raises:
            OSError: the disk's own reasons; a folder has its name; a file or link is on the way.
        """
        with self._folder(parts[:-1], make=True) as folder:
            _replace(folder, parts[-1], content, mode)

    def move_in(self, parts: Parts, name: str) -> None:
        """Give a file that lies directly here its place, instead of the file or link that has it.

        Raises:
            OSError: the disk's own reasons; a folder has the place; a file or link is on the way.
        """
        with self._folder(parts[:-1], make=True) as folder:
            os.rename(name, parts[-1], src_dir_fd=self.fd, dst_dir_fd=folder)

    def link(self, parts: Parts, source: str) -> bool:
        """Give a file of ours one more name here; False if the file system cannot.

        The two are one: whoever may write to one changes both, and so does a change of its times.

        Raises:
            RemoteError: BAD_PAYLOAD, if something is in the way.
            OSError: the disk's own reasons.
        """
        try:
            with self._folder(parts[:-1], make=True) as folder:
                os.link(source, parts[-1], dst_dir_fd=folder, follow_symlinks=False)
        except OSError as error:
            if error.errno in NO_LINKS_HERE:
                return False
            raise _refusal(parts, error) from None
        return True

    def copy(
        self, parts: Parts, source_fd: int, mode: int = 0o644, mtime_ns: int | None = None
    ) -> None:
        """Copy an open file of ours; its blocks are shared where the file system can do that. It
        looks as if it was written at `mtime_ns`, if given.

        Raises:
            RemoteError: BAD_PAYLOAD, if something is in the way.
            OSError: the disk's own reasons.
        """
        fd = self.open_new(parts, mode)
        try:
            _copy(source_fd, fd)
            if mtime_ns is not None:
                os.utime(fd, ns=(mtime_ns, mtime_ns))
        finally:
            os.close(fd)

    # --- reading

    def open_read(self, parts: Parts) -> int:
        """Open a plain file; returns a descriptor to read from.

        Raises:
            OSError: it is not there, or is not a plain file, or a link is on the way.
        """
        with self._folder(parts[:-1], make=False) as folder:
            fd = os.open(parts[-1], READ, dir_fd=folder)
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            raise OSError(errno.EINVAL, "not a plain file", parts[-1])
        return fd

    def read(self, found: Found) -> bytes:
        """The content of a plain file that `walk` found, as long as it was then.

        Raises:
            OSError: it cannot be read, or another file has its name now.
        """
        fd = self.open_found(found)
        try:
            size = found.status.st_size
            content = os.read(fd, size) if size else b""
            while len(content) < size and (more := os.read(fd, size - len(content))):
                content += more
            return content
        finally:
            os.close(fd)

    def open_found(self, found: Found) -> int:
        """Open a plain file that `walk` found; returns a descriptor to read from.

        Raises:
            OSError: it cannot be opened, or another file has its name now.
        """
        folder, _, name = found.name.rpartition("/")
        if folder:
            with self._folder(tuple(folder.split("/")), make=False) as below:
                fd = os.open(name, READ, dir_fd=below)
        else:
            fd = os.open(name, READ, dir_fd=self.fd)
        if _is_same(os.fstat(fd), found.status):
            return fd
        os.close(fd)
        raise OSError(errno.EINVAL, "another file has this name now", found.name)

    def walk(self) -> Iterator[Found]:
        """All entries, a folder before its content; only folders are opened. The caller bounds the
        number."""
        return _walk(self.fd, "", 1)

    # --- removing

    def unlink(self, name: str) -> None:
        """Remove a file directly in it; raises OSError."""
        os.unlink(name, dir_fd=self.fd)

    def remove(self, name: str) -> None:
        """Remove what has this name directly here, with all that is in it, however deep.

        Raises:
            OSError: something is left: what cannot be removed, or a mounted file system.
        """
        remove_entry(self.fd, name)

    @contextlib.contextmanager
    def _folder(self, parts: Parts, *, make: bool) -> Iterator[int]:
        """The descriptor of a folder, step by step, while the block runs."""
        fd = self.fd
        try:
            for part in parts:
                if make:
                    with contextlib.suppress(FileExistsError):
                        os.mkdir(part, dir_fd=fd)
                below = open_folder(fd, part)
                if fd != self.fd:
                    os.close(fd)
                fd = below
            yield fd
        finally:
            if fd != self.fd:
                os.close(fd)


def settle_links(found: list[Found], ours: Container[int] = ()) -> list[Found]:
    """All that `walk` found, with a problem for each file that has a name elsewhere, too.

    Its content may be anybody's: a link needs no right to read. Not so that of the inodes in
    `ours`, which we linked to ourselves.
    """
    here = Counter(one.status.st_ino for one in found if one.status.st_nlink > 1)
    if not here:
        return found
    return [
        one._replace(problem="is also a file outside of the directory")
        if not one.problem
        and one.is_file
        and one.status.st_nlink > max(here[one.status.st_ino], 1)
        and one.status.st_ino not in ours
        else one
        for one in found
    ]


def _is_same(now: os.stat_result, then: os.stat_result) -> bool:
    """Whether it is the same plain file; numbers of removed files are used again."""
    same = (now.st_ino, now.st_dev, now.st_nlink) == (then.st_ino, then.st_dev, then.st_nlink)
    return same and stat.S_ISREG(now.st_mode)


def _replace(folder: int, name: str, content: bytes, mode: int) -> None:
    beside = f".rollq-{os.urandom(8).hex()}"
    fd = os.open(beside, CREATE, mode, dir_fd=folder)
    try:
        try:
            write_all(fd, content)
        finally:
            os.close(fd)
        os.rename(beside, name, src_dir_fd=folder, dst_dir_fd=folder)
    except OSError:
        with contextlib.suppress(OSError):
            os.unlink(beside, dir_fd=folder)
        raise


def _copy(source_fd: int, fd: int) -> None:
    offset = 0
    with contextlib.suppress(OSError):  # not between these file systems: by hand from here on
        while count := os.copy_file_range(source_fd, fd, COPY_BYTES, offset):
            offset += count
    while data := os.pread(source_fd, COPY_BYTES, offset):
        write_all(fd, data)
        offset += len(data)


def _walk(fd: int, above: str, depth: int) -> Iterator[Found]:
    with os.scandir(fd) as entries:
        for entry in entries:
            name = above + entry.name
            try:
                status = entry.stat(follow_symlinks=False)
            except FileNotFoundError:
                continue  # removed by a process that outlived the program
            if stat.S_ISREG(status.st_mode):
                yield Found(name, status, "")
            elif not stat.S_ISDIR(status.st_mode):
                is_link = stat.S_ISLNK(status.st_mode)
                yield Found(name, status, "is a link" if is_link else "is not a plain file")
            elif depth >= FILE_NAME_PARTS_MAX:
                yield Found(name, status, "lies too deep")
            elif status.st_dev != os.fstat(fd).st_dev:
                yield Found(name, status, "is another file system")
            else:
                yield from _walk_folder(fd, entry.name, Found(name, status, ""), depth)


def _walk_folder(fd: int, name: str, found: Found, depth: int) -> Iterator[Found]:
    try:
        below = open_folder(fd, name)
    except OSError as error:
        yield found._replace(problem=f"cannot be looked into: {error.strerror}")
        return
    try:
        yield found
        yield from _walk(below, f"{found.name}/", depth + 1)
    finally:
        os.close(below)


def _refusal(parts: Parts, error: OSError) -> RemoteError | OSError:
    """The error if a name could not be created: about the name, or the disk."""
    if error.errno not in IN_THE_WAY:
        return error
    return RemoteError(
        ErrorCode.BAD_PAYLOAD,
        f"the file {'/'.join(parts)!a} cannot be put in place: "
        "something else is there, or on the way: a file, a folder or a link",
        "choose another name, or an empty folder",
    )
