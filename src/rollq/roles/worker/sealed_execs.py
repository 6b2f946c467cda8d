"""Programs that are checked against a list of digests, as sealed copies in memory.

The path of a checked file may lead to another file a moment later, so the checked bytes themselves
are executed: the file is copied into memory, the memory is sealed against changes, its digest is
checked, and the program is started through its descriptor.
"""

from __future__ import annotations

import fcntl
import os
import stat
import sys
from collections.abc import Iterable
from typing import Final, NamedTuple

from rollq.base.errors import ErrorCode, LocalError, StateError
from rollq.base.limits import SEALED_EXECS_BYTES_MAX, SEALED_EXECS_MAX
from rollq.roles.worker.execs import NoProgramError, interpreter_in
from rollq.roles.worker.spawn import ProgramFd
from rollq.security.exec_digests import ALGORITHMS, ExecDigests

MFD_EXEC: Final = 0x10  # required by kernels from 6.3 on, unknown to older ones
SEALS: Final = (
    fcntl.F_SEAL_SEAL | fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_WRITE
    if sys.platform == "linux"
    else 0
)
COPY_BYTES: Final = 1024 * 1024
FIRST_LINE_BYTES: Final = 256


class SealedExec(NamedTuple):
    """A sealed copy of a program.

    Attributes:
        fd: Open for reading; not inherited.
        size: In bytes.
        digests: By all algorithms.
        interpreter: From its first line; empty: it is no script.
    """

    fd: int
    size: int
    digests: frozenset[str]
    interpreter: str

    @property
    def program(self) -> ProgramFd:
        """The descriptor to start it by."""
        return ProgramFd(self.fd, is_read=bool(self.interpreter))


class SealedExecs:
    """Sealed copies, cached by the status of the file. A forged status can only make a listed copy
    run: the list is checked at every start.

    Args:
        digests: The list.

    Raises:
        LocalError: BAD_SETUP on a system without sealed memory.
    """

    def __init__(self, digests: ExecDigests) -> None:
        self._digests = digests
        self._kept: dict[tuple[int, ...], SealedExec] = {}  # least recently used first
        self._size = 0
        try:
            os.close(_make_memory())
        except (OSError, AttributeError) as error:
            raise LocalError(
                ErrorCode.BAD_SETUP,
                f"this system has no memory that can be sealed and executed: {error}",
                "leave out --exec-digests, or allow it (sysctl vm.memfd_noexec=0)",
            ) from None

    def listed(self, names: Iterable[str]) -> set[str]:
        """The names that are listed."""
        return {name for name in names if self._digests.can_run(name)}

    def get(self, name: str, program: bytes, directory_fd: int) -> SealedExec:
        """A sealed copy of a program that is listed for a name, valid until the next call.

        Args:
            name: The exec name of the job.
            program: Its path; a relative one is below the directory, and must not be a link.
            directory_fd: The directory of the job.

        Raises:
            NoProgramError: NO_PROGRAM: it is not listed.
            StateError: NO_PROGRAM: it cannot be read.
        """
        wanted = self._digests.of(name, os.path.basename(os.fsdecode(program)))
        if not wanted:
            raise _refused(name, "no digest is listed for it")
        links = 0 if os.path.isabs(program) else os.O_NOFOLLOW
        try:
            fd = os.open(
                program, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | links, dir_fd=directory_fd
            )
            try:
                copy = self._copy_of(fd)
            finally:
                os.close(fd)
        except OSError as error:
            why = error.strerror or str(error)
            raise StateError(ErrorCode.NO_PROGRAM, f"cannot read {name[:64]!a}: {why}") from None
        if not wanted & copy.digests:
            shown = next(one for one in sorted(copy.digests) if one.startswith("sha256"))
            raise _refused(name, f"its file has another digest than those listed, {shown}")
        if copy.interpreter and not os.path.isabs(copy.interpreter):
            raise _refused(name, "its interpreter is no absolute path, and may be anything")
        return copy

    def close(self) -> None:
        """Close all copies. Running programs keep theirs."""
        for copy in self._kept.values():
            os.close(copy.fd)
        self._kept.clear()
        self._size = 0

    def _copy_of(self, fd: int) -> SealedExec:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise OSError("not a file")
        times = status.st_mtime_ns, status.st_ctime_ns
        identity = (status.st_dev, status.st_ino, status.st_size, *times)
        copy = self._kept.pop(identity, None)
        if copy is None:
            copy = seal(fd)
            self._size += copy.size
        self._kept[identity] = copy
        while len(self._kept) > 1 and (
            len(self._kept) > SEALED_EXECS_MAX or self._size > SEALED_EXECS_BYTES_MAX
        ):
            oldest = self._kept.pop(next(iter(self._kept)))
            self._size -= oldest.size
            os.close(oldest.fd)
        return copy


def seal(fd: int) -> SealedExec:
    """A sealed copy of an open file. The digest is computed from the copy, after sealing. Raises
    OSError."""
    memory = _make_memory()
    try:
        while data := os.read(fd, COPY_BYTES):
            view = memoryview(data)
            while view:
                view = view[os.write(memory, view) :]
        os.fchmod(memory, 0o555)
        fcntl.fcntl(memory, fcntl.F_ADD_SEALS, SEALS)
        # A file that is open for writing cannot be executed.
        reading = os.open(f"/proc/self/fd/{memory}", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        os.close(memory)
    hashes = {name: make() for name, make in ALGORITHMS.items()}
    size, first = 0, b""
    while data := os.pread(reading, COPY_BYTES, size):
        first = first or data[:FIRST_LINE_BYTES]
        size += len(data)
        for one in hashes.values():
            one.update(data)
    digests = frozenset(f"{name}:{one.hexdigest()}" for name, one in hashes.items())
    return SealedExec(reading, size, digests, interpreter_in(first))


def _make_memory() -> int:
    flags = os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING
    try:
        return os.memfd_create("rollq-exec", flags | MFD_EXEC)
    except OSError:
        return os.memfd_create("rollq-exec", flags)


def _refused(name: str, why: str) -> NoProgramError:
    return NoProgramError(
        ErrorCode.NO_PROGRAM,
        f"{name[:64]!a} may not run on this worker: {why}",
        "if it is the right one, add the line of `rollq exec digest FILE` to the worker's list",
    )
