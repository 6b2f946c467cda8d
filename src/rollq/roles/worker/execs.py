"""The file that a worker runs for an exec name. Names are looked up in a listing, never joined."""

from __future__ import annotations

import contextlib
import errno
import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Final, NamedTuple

from msgspec import UNSET

from rollq.base.errors import ErrorCode, StateError
from rollq.base.names import is_exec_name
from rollq.roles.worker.inputs import EXECUTABLE
from rollq.wire.models import InputFile

FIRST_LINE_BYTES: Final = 256  # as Linux reads


class NoProgramError(StateError):
    """This worker has no such program, or may not run it; another worker may."""


class ExecDir:
    """The programs in a worker's exec directory. Listed again when the directory changes."""

    def __init__(self, directory: Path | None) -> None:
        self._directory = None if directory is None else os.path.abspath(directory)
        self._stamp_ns = -1
        self._found: dict[str, str] = {}

    def find(self, name: str) -> str:
        """The path for an exec name: `NAME`, else `NAME.exe`, else the only `NAME.<suffix>`.

        Raises:
            NoProgramError: NO_PROGRAM with the cause.
        """
        if self._directory is None:
            raise _missing(name, "this worker has no exec directory")
        if not is_exec_name(name):
            raise _missing(name, "not a valid program name")
        stamp_ns = self._stamp()
        if stamp_ns != self._stamp_ns or (path := self._lookup(name)) is None:
            self._list(self._directory)  # on a miss too: permissions may change without a new stamp
            self._stamp_ns = stamp_ns
            path = self._lookup(name)
        if path is None and (file_name := self._without_permission(name)):
            raise StateError(
                ErrorCode.NO_PROGRAM,
                f"cannot run {name!a}: {file_name!a} is in the exec directory, but not executable",
                f"chmod +x {file_name}",
            )
        if path is None:
            raise _missing(name, "no executable file has this name in the exec directory")
        return path

    def names(self) -> set[str]:
        """All names that `find` accepts. Reads the directory; an unreadable one is empty."""
        found: list[str] = []
        with contextlib.suppress(OSError):
            if self._directory is not None:
                found = list(_executables(self._directory))
        stems = Counter(name.rpartition(".")[0] for name in found)
        fits = {stem for stem, count in stems.items() if count == 1 or f"{stem}.exe" in found}
        return {name for name in fits.union(found) if is_exec_name(name)}

    def listing(self) -> tuple[list[str], list[str]]:
        """The files of the directory that are programs, and those that lack only the permission to
        execute. Reads the directory; an unreadable one is empty."""
        found: list[str] = []
        programs: dict[str, str] = {}
        with contextlib.suppress(OSError):
            if self._directory is not None:
                programs = _executables(self._directory)
                with os.scandir(self._directory) as entries:
                    found = sorted(entry.name for entry in entries if entry.is_file())
        return sorted(programs), [one for one in found if one not in programs and is_exec_name(one)]

    def _stamp(self) -> int:
        try:
            return os.stat(self._directory or "").st_mtime_ns
        except OSError as error:
            raise _missing("", f"the exec directory cannot be read: {error.strerror}") from None

    def _list(self, directory: str) -> None:
        self._found = _executables(directory)

    def _without_permission(self, name: str) -> str:
        """The file that lacks only the permission to execute."""
        with os.scandir(self._directory) as entries:
            fits = [
                entry.name
                for entry in entries
                if entry.is_file() and name in (entry.name, entry.name.rpartition(".")[0])
            ]
        return min(fits, key=len, default="")

    def _lookup(self, name: str) -> str | None:
        return self._found.get(name) or self._found.get(name + ".exe") or self._suffixed(name)

    def _suffixed(self, name: str) -> str | None:
        fits = [known for known in self._found if known.rpartition(".")[0] == name]
        if len(fits) > 1:
            raise _missing(name, f"several programs fit: {', '.join(sorted(fits)[:5])}")
        return self._found[fits[0]] if fits else None


def _executables(directory: str) -> dict[str, str]:
    """The paths of a directory's programs, by name."""
    with os.scandir(directory) as entries:
        return {
            entry.name: entry.path
            for entry in entries
            if entry.is_file() and os.access(entry.path, os.X_OK)
        }


class NotStarted(NamedTuple):
    """Why the system could not start a program."""

    text: str
    is_of_file: bool  # the file itself is the cause, so it starts on no worker


def why_not_started(program: bytes, directory_fd: int, error: OSError) -> NotStarted:
    """Explain a failed start. If the interpreter of a script is missing, the system reports the
    *script* as missing. A relative path is below the directory."""
    if error.errno == errno.ENOEXEC:
        return NotStarted("neither a program nor a script with a first line #!", is_of_file=True)
    if error.errno == errno.ENOENT:
        interpreter = _interpreter(program, directory_fd)
        if interpreter:
            text = f"its first line asks for {interpreter[:64]!a}, which is not on this worker"
            return NotStarted(text, is_of_file=True)
    return NotStarted(error.strerror or str(error), is_of_file=False)


def _interpreter(program: bytes, directory_fd: int) -> str:
    try:
        fd = os.open(program, os.O_RDONLY | os.O_CLOEXEC, dir_fd=directory_fd)
    except OSError:
        return ""
    try:
        return interpreter_in(os.read(fd, FIRST_LINE_BYTES))
    finally:
        os.close(fd)


def interpreter_in(first: bytes) -> str:
    """The interpreter in the first line of a script; empty if it is no script.

    Args:
        first: The start of the file, as much as Linux reads.
    """
    line = first.split(b"\n")[0]
    words = line[2:].strip(b" \t").replace(b"\t", b" ").split(b" ")
    return os.fsdecode(words[0]) if line.startswith(b"#!") else ""


def is_shipped(name: str, files: Iterable[InputFile]) -> bool:
    """Whether the program of a job is among its files: one with its name, and executable."""
    return is_exec_name(name) and any(
        file.name == name and file.mode is not UNSET and file.mode & EXECUTABLE for file in files
    )


def not_allowed(name: str) -> NoProgramError:
    """The error for a shipped program on a worker that runs none."""
    return NoProgramError(
        ErrorCode.NO_PROGRAM,
        f"{name[:64]!a} is shipped with its job, and this worker does not run shipped programs",
        "start a worker with --allow-shipped-execs, or put the program into its exec directory",
    )


def no_function(name: str) -> NoProgramError:
    """The error for a call with Python values that names a program."""
    return NoProgramError(
        ErrorCode.NO_PROGRAM,
        f"{name!a} is a program of this worker, and the job calls a function of this name",
        "start a worker with its module as --app, and give one of the two another name",
    )


def _missing(name: str, why: str) -> NoProgramError:
    return NoProgramError(
        ErrorCode.NO_PROGRAM,
        f"cannot run {name[:64]!a}: {why}",
        "put the program into its exec directory, or narrow the worker's patterns",
    )
