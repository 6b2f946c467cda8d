"""Loading the modules of an application, and calling its functions."""

from __future__ import annotations

import importlib
import os
import sys
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Final

import msgspec
from msgspec import UNSET

from rollq.base.errors import ErrorCode, LocalError
from rollq.base.jobs import Status
from rollq.base.limits import INLINE_BYTES_MAX, STREAM_BYTES_MAX, STREAM_WHOLE_BYTES_MAX
from rollq.roles.worker.outputs import Ending
from rollq.tasks import TASKS, Task

BYTES_LIKE: Final = (bytes, bytearray, memoryview)
PACKAGE: Final = os.path.join(Path(__file__).parents[2], "")  # where our own code is
_encode_json = msgspec.json.Encoder().encode


def load_apps(modules: Iterable[str]) -> dict[str, Task]:
    """Import modules that register functions; returns all that are registered.

    Raises:
        LocalError: BAD_SETUP, saying which module and why.
    """
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    for name in modules:
        try:
            importlib.import_module(name)
        except LocalError:
            raise
        except Exception as error:
            raise LocalError(
                ErrorCode.BAD_SETUP,
                f"the app {name[:128]!r} cannot be imported: {type(error).__name__}: {error}",
                "name a module as in `import`, from the current directory or installed",
            ) from error
    return TASKS


def returned(value: Any) -> Ending:
    """The ending of a call that returned: text as it is, bytes apart, anything else as JSON. One
    that cannot be told as a whole has failed."""
    if value is None:
        return Ending()
    try:
        if isinstance(value, BYTES_LIKE):
            data = bytes(value)
            _check_size(len(data))
            return Ending(data=data)
        text = value if type(value) is str else _encode_json(value).decode()
        if len(text) > INLINE_BYTES_MAX or not text.isascii():
            _check_size(len(text.encode()))  # raises if it is no text, too
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        return raised(error)
    return Ending(stdout=text, is_value=True)


def _check_size(size: int) -> None:
    if size > STREAM_WHOLE_BYTES_MAX:
        raise ValueError(
            f"a value of {size} bytes was returned, at most {STREAM_WHOLE_BYTES_MAX} are kept"
        )


def raised(error: BaseException) -> Ending:
    """The ending of a call that raised."""
    # The frames of rollq itself tell the author of the function nothing: those that called it, and
    # all of them if its arguments did not fit.
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(PACKAGE):
        trace = trace.tb_next
    text = "".join(traceback.format_exception(type(error), error, trace))[-STREAM_BYTES_MAX:]
    if not text.isascii():
        text = text.encode(errors="backslashreplace").decode()  # what is no text is told in ASCII
    return Ending(Status.FAILED, stderr=text, exit_code=1, data=UNSET)
