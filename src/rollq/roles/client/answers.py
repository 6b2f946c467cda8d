"""Decodes responses of a member, to views or exceptions, and checks requests before they are sent.
No IO."""

from __future__ import annotations

from typing import Final, TypeVar

import msgspec

from rollq.base.errors import (
    DialError,
    DiskError,
    ErrorCode,
    LocalError,
    RemoteError,
    RollqError,
    StateError,
)
from rollq.base.texts import not_utf8
from rollq.grid.views import RawArrayView
from rollq.wire import messages as wire
from rollq.wire.checks import check_message
from rollq.wire.compact import ENCODE

Kind = TypeVar("Kind")


class ArgumentTypeError(LocalError, TypeError):
    """An argument has a wrong type."""


def error_of(answer: wire.Error) -> RollqError:
    """The exception for an error response. A request error is raised as LocalError."""
    try:
        code = ErrorCode(answer.code)
    except ValueError:
        # A newer member has codes that this client does not know; its message is still useful.
        text = f"refused with code {answer.code}: {answer.message}"
        return StateError(ErrorCode.WRONG_STATE, text, answer.hint)
    kind = KINDS.get(code // 100, StateError)
    if code is ErrorCode.DISK_FULL:
        kind = StateError  # the disk is a member's: a file of ours is only read for a request
    return kind(code, answer.message, answer.hint)


def check_bounds(request: msgspec.Struct) -> None:
    """Raises LocalError for a request that every leader would refuse, or that cannot be sent."""
    try:
        check_message(request)
        ENCODE(request)
    except UnicodeEncodeError as error:
        raise not_utf8(type(request).__name__, error.object) from None
    except RemoteError as error:
        raise LocalError(error.code, error.message, error.hint) from None


def decode_as(value: bytes, kind: type[Kind]) -> Kind:
    """Decode a view from msgpack.

    Raises:
        RemoteError: BAD_PAYLOAD, if it has another type.
    """
    try:
        return msgspec.msgpack.decode(value, type=kind)
    except msgspec.DecodeError as error:
        raise RemoteError(
            ErrorCode.BAD_PAYLOAD,
            f"the member's answer: {error}",
            "use the same rollq on both sides",
        ) from None


def decode_known(value: bytes, kind: type[Kind]) -> Kind | None:
    """Decode a view from msgpack; None if the member does not know the object."""
    return None if value == MSGPACK_NIL else decode_as(value, kind)


def is_array_over(value: bytes) -> bool:
    """Whether an array has no waiting or running tasks, from its encoded view."""
    view = decode_known(value, RawArrayView)
    return view is None or not (view.waiting or view.open)


MSGPACK_NIL: Final = b"\xc0"
KINDS: Final[dict[int, type[RollqError]]] = {
    1: LocalError,
    2: StateError,
    3: StateError,
    4: DiskError,
    6: DialError,
}
