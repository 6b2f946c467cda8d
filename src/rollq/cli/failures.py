"""Converts errors to messages and exit codes. A message has the cause and a hint; a traceback is
shown for bugs only."""

from __future__ import annotations

import errno
import io
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, BinaryIO, Final

import typer
from typer.core import TyperGroup

from rollq.base.errors import ErrorCode, Fault, LocalError, RollqError

EXIT_OK: Final = 0
EXIT_FOUND: Final = 1  # the job failed, or a check found something
EXIT_USAGE: Final = 2
EXIT_UNREACHABLE: Final = 3
EXIT_REFUSED: Final = 4
EXIT_INTERRUPTED: Final = 130
EXIT_PIPE: Final = 141  # 128 + SIGPIPE

_USAGE: Final = (
    ErrorCode.BAD_ADDRESS,
    ErrorCode.BAD_SETUP,
    ErrorCode.BAD_OPTIONS,
    ErrorCode.BAD_CREDENTIALS,
    ErrorCode.NO_SANDBOX,
    ErrorCode.BAD_CERTIFICATE,
    ErrorCode.UNPROTECTED,
)
_UNREACHABLE: Final = (
    ErrorCode.UNREACHABLE,
    ErrorCode.DISCONNECTED,
    ErrorCode.TIMED_OUT,
    ErrorCode.NOT_LEADER,
    ErrorCode.NOT_READY,
)
_FOUND: Final = (
    *(ErrorCode.JOB_FAILED, ErrorCode.JOB_DEAD, ErrorCode.CANCELLED, ErrorCode.BUG),
    ErrorCode.CHECK_FAILED,
)
_JSON: Final = "rollq.json"
_OF_POSIX: Final = ("fcntl", "grp", "pwd", "resource", "termios")
_OF_SPARK: Final = ("numpy", "pandas", "prompt_toolkit", "pyarrow", "pyspark")


class Commands(TyperGroup):
    """The root command, which handles errors."""

    def make_context(self, *args: Any, **kwargs: Any) -> Any:
        """Parse the options of the root. `--help` writes here, and completion installs itself."""
        with _as_messages({}):
            return super().make_context(*args, **kwargs)

    def invoke(self, ctx: Any) -> Any:
        """Run a command; an error becomes a message on stderr and an exit code."""
        with _as_messages(ctx.meta):
            return super().invoke(ctx)


@contextmanager
def _as_messages(meta: Mapping[str, Any]) -> Iterator[None]:
    """Convert errors to messages on stderr and exit codes."""
    try:
        with _import_errors(), _path_errors():
            yield
    except RollqError as error:
        report(error, as_json=bool(meta.get(_JSON)))
        raise typer.Exit(exit_code_of(error)) from None
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        raise typer.Exit(EXIT_INTERRUPTED) from None
    except BrokenPipeError:
        # The reader of our output has closed it; nothing more may be flushed. How the command
        # would have ended is not known, so this is no success.
        sys.stdout = None
        raise typer.Exit(EXIT_PIPE) from None


@contextmanager
def _import_errors() -> Iterator[None]:
    """Convert import errors: name the extra that has the missing package, or the platform that the
    command requires."""
    try:
        yield
    except ModuleNotFoundError as error:
        if error.name in _OF_POSIX:
            raise LocalError(
                ErrorCode.BAD_SETUP,
                f"this command requires a POSIX system: Python has no {error.name} here",
                "run it on Linux; on Windows in WSL 2 or in a container",
            ) from error
        if (error.name or "").partition(".")[0] not in _OF_SPARK:
            raise
        raise LocalError(
            ErrorCode.BAD_SETUP,
            f"this command requires Spark: {error.name} is not installed",
            "pip install 'rollq[spark]'",
        ) from error


@contextmanager
def _path_errors() -> Iterator[None]:
    """Convert errors of the file system: a bad path, or a full disk for stdout. OS errors without a
    file name are passed on."""
    try:
        yield
    except OSError as error:
        if error.errno == errno.ENOSPC:
            sys.stdout = None  # the rest of the buffer cannot be flushed either
            hint = "make room, or write elsewhere"
            what = f"cannot write {error.filename or 'the output'}: {error.strerror}"
            raise LocalError(ErrorCode.DISK_FULL, what, hint) from error
        if error.filename is None:
            raise
        raise LocalError(
            ErrorCode.BAD_SETUP,
            f"{error.filename}: {error.strerror}",
            "check that the path is right, and that you may read or write there",
        ) from error


class ClosedStdout(io.TextIOBase):
    """In place of a stdout that was closed at the start: nothing may be lost there unsaid."""

    @property
    def buffer(self) -> BinaryIO:
        """What takes bytes: nothing does."""
        raise self._closed()

    def write(self, _text: str) -> int:
        """Refuse output."""
        raise self._closed()

    def _closed(self) -> LocalError:
        return LocalError(
            ErrorCode.DISK_FAILED,
            "cannot write the output: stdout is closed",
            "redirect it, to /dev/null if nobody reads it",
        )


def remember_json(ctx: typer.Context, value: bool) -> bool:
    """Callback of `--json`: errors are written as JSON too."""
    if value:
        ctx.meta[_JSON] = True
    return value


def exit_code_of(error: RollqError) -> int:
    """The exit code for an error."""
    code = error.code
    if code in _USAGE:
        return EXIT_USAGE
    if code in _UNREACHABLE:
        return EXIT_UNREACHABLE
    is_ours = error.fault is not Fault.STATE  # and not of a member, whose disk is full
    if code in _FOUND or (is_ours and 400 <= code < 600):
        return EXIT_FOUND
    return EXIT_REFUSED


def report(error: RollqError, *, as_json: bool) -> None:
    """Write an error to stderr."""
    notes = list(getattr(error, "__notes__", ()))
    if as_json:
        from rollq.cli.output import json_text

        document = {
            "error": {
                "code": int(error.code),
                "name": error.code.name.lower(),
                "fault": str(error.fault),
                "message": error.message,
                "hint": error.hint,
                "notes": notes,
                "retryable": error.retryable,
            }
        }
        text = json_text(document, sys.stderr)
    else:
        hint = "".join(f"\n  {line}" for line in (*notes, error.hint) if line)
        where = " (a bug in rollq: please report it)" if error.code is ErrorCode.BUG else ""
        text = f"rollq: {error.message} [{error.code.name.lower()}]{where}{hint}"
        if error.fault is Fault.PEER and not hint:
            text += "\n  repeating the same request will not help"
    sys.stderr.write(text + "\n")
