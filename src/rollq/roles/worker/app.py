"""Loading the modules of an application, and calling its functions."""

from __future__ import annotations

import importlib
import os
import reprlib
import sys
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import UNSET

from rollq.base.errors import ErrorCode, LocalError
from rollq.base.jobs import Status
from rollq.base.limits import (
    INLINE_BYTES_MAX,
    STREAM_BYTES_MAX,
    STREAM_WHOLE_BYTES_MAX,
    VALUE_BYTES_MAX,
)
from rollq.base.outcomes import ERROR_DATA, VALUE_DATA
from rollq.roles.worker.outputs import ExecutionEnd
from rollq.tasks import TASKS, Task
from rollq.values.codec import Buffer, CannotTravelError, pack, size_of

BYTES_LIKE: Final = (bytes, bytearray, memoryview)
PACKAGE: Final = os.path.join(Path(__file__).parents[2], "")  # the code of rollq itself
OF_IMPORTS: Final = (PACKAGE, importlib.__file__, "<frozen ")  # frames that are not of the app
SHOWN: Final = reprlib.Repr()
SHOWN.maxstring = SHOWN.maxother = SHOWN.maxlong = 200  # characters
SHOWN.maxlist = SHOWN.maxtuple = SHOWN.maxdict = SHOWN.maxset = 20  # elements
_encode_json = msgspec.json.Encoder().encode


def load_apps(modules: Iterable[str]) -> dict[str, Task[..., Any]]:
    """Import modules that register functions; returns all registered functions.

    Raises:
        LocalError: BAD_SETUP with the module and the cause.
    """
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    for name in modules:
        try:
            importlib.import_module(name)
        except LocalError:
            raise
        except (Exception, SystemExit) as error:
            raise _not_imported(name, error) from error
    return TASKS


def _not_imported(name: str, error: BaseException) -> LocalError:
    """The error for a module that is missing, or fails on import: then with the place of the
    failure."""
    hint = "name a module as in `import`, from the current directory or installed"
    location = ""
    if all(part.isidentifier() for part in name.split(".")) and not _lacks(name, error):
        hint = f"correct it; the whole traceback: python -c 'import {name[:128]}'"
        for frame in traceback.extract_tb(error.__traceback__):
            if not frame.filename.startswith(OF_IMPORTS):
                location = f" ({frame.filename}, line {frame.lineno})"
    return LocalError(
        ErrorCode.BAD_SETUP,
        f"the app {name[:128]!r} cannot be imported: {type(error).__name__}: {error}{location}",
        hint,
    )


def _lacks(name: str, error: BaseException) -> bool:
    """Whether the module itself is missing, and not one that it imports."""
    lacking = error.name if isinstance(error, ModuleNotFoundError) else None
    return lacking is not None and f"{name}.".startswith(f"{lacking}.")


def returned(value: Any) -> ExecutionEnd:
    """The end of a call that returned: text as it is, bytes as data, anything else as JSON. A value
    that cannot be encoded, or is too large, makes the call fail."""
    if value is None:
        return ExecutionEnd()
    try:
        if isinstance(value, BYTES_LIKE):
            data = bytes(value)
            _check_size(len(data))
            return ExecutionEnd(data=data)
        text = value if type(value) is str else _encode_json(value).decode()
        if len(text) > INLINE_BYTES_MAX or not text.isascii():
            _check_size(len(text.encode()))  # also raises for unpaired surrogates
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        return raised(error)
    return ExecutionEnd(stdout=text, is_value=True)


def returned_value(value: Any) -> tuple[ExecutionEnd, list[Buffer]]:
    """The end of a call with values that returned, and the parts of its data. Its output is a short
    form of the value for people."""
    try:
        parts = pack(value)
    except CannotTravelError as error:
        return raised_value(TypeError(f"what was returned: {error}")), []
    except Exception as error:  # raised by the class or the library of the value
        return raised_value(error), []
    size = size_of(parts)
    if size > VALUE_BYTES_MAX:
        return raised_value(ValueError(_too_large(size, VALUE_BYTES_MAX))), []
    return ExecutionEnd(stdout=_shown(value), data_kind=VALUE_DATA), parts


def raised_value(error: BaseException, exit_code: int = 1) -> ExecutionEnd:
    """The end of a call with values that raised: the exception is its data."""
    ending = raised(error, exit_code)
    if isinstance(error, Exception):
        ending.data = b"".join(pack(error))
        ending.data_kind = ERROR_DATA
    return ending


def _shown(value: Any) -> str:
    try:
        text = SHOWN.repr(value)
    except Exception as error:  # raised by the class of the value
        text = f"<{type(value).__name__}: {type(error).__name__} in its repr>"
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


def _check_size(size: int) -> None:
    if size > STREAM_WHOLE_BYTES_MAX:
        raise ValueError(_too_large(size, STREAM_WHOLE_BYTES_MAX))


def _too_large(size: int, size_max: int) -> str:
    return f"a value of {size} bytes was returned, at most {size_max} are kept"


def raised(error: BaseException, exit_code: int = 1) -> ExecutionEnd:
    """The end of a call that raised."""
    # Leave out the frames of rollq: the ones that called the function, or all of them if its
    # arguments did not fit.
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(PACKAGE):
        trace = trace.tb_next
    text = "".join(traceback.format_exception(type(error), error, trace))[-STREAM_BYTES_MAX:]
    if not text.isascii():
        text = text.encode(errors="backslashreplace").decode()  # unpaired surrogates as ASCII
    return ExecutionEnd(Status.FAILED, stderr=text, exit_code=exit_code, data=UNSET)
