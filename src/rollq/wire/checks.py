"""The door: what a message must keep to whatever dialect it came in.

Bounds of single fields are the table in `bounds`; here is only what looks at several at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar

import msgspec

from rollq.base.errors import ErrorCode
from rollq.base.ids import NIL_ID
from rollq.wire import output_messages as o
from rollq.wire.bounds import CHECKS
from rollq.wire.messages import MessageId, SubmitJob
from rollq.wire.registry import REQUEST_ID_OF
from rollq.wire.rules import OutOfBoundsError

M = TypeVar("M", bound=msgspec.Struct)


def check_message(message: M) -> M:
    """The message, with numbers that somebody measured cut to their bounds.

    Raises:
        OutOfBoundsError: a field is out of its bounds.
        RemoteError: BAD_ID, for an id that cannot be one.
    """
    kind = type(message)
    try:
        checked: M = CHECKS[kind](message)
        if kind in TOGETHER:
            TOGETHER[kind](checked)
    except OutOfBoundsError as error:
        error.request_id = request_id_of(message)
        error.is_job = kind is SubmitJob
        raise
    return checked


def request_id_of(message: msgspec.Struct) -> MessageId:
    """The id under which whoever sent this waits for an answer; nil if it waits for none."""
    name = REQUEST_ID_OF.get(type(message))
    request_id: MessageId = NIL_ID if name is None else getattr(message, name)
    return request_id


def _check_watch(message: o.WatchOutput | o.TellOutput) -> None:
    if max(message.offsets) == o.UNWANTED:
        raise OutOfBoundsError(
            ErrorCode.BAD_PAYLOAD,
            f"{type(message).__name__}.offsets: neither stream is wanted",
            "name an offset of one of them",
        )


TOGETHER: Final[dict[type, Callable[[Any], None]]] = {
    o.WatchOutput: _check_watch,
    o.TellOutput: _check_watch,
}
