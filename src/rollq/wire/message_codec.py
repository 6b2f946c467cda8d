"""Messages to frames and back, in either dialect.

Only the choice of dialect is here; the dialects are in `legacy_codec` and `compact`, and the
validation for both in `checks`.
"""

from __future__ import annotations

import enum

from rollq.wire.checks import check_message
from rollq.wire.compact import Message, decode_compact, encode_compact
from rollq.wire.frame import Frame
from rollq.wire.legacy_codec import decode_legacy, encode_legacy


class Dialect(enum.Enum):
    """How the payloads of the legacy message types are written; ours are msgpack in both."""

    LEGACY = "legacy"  # JSON, as a legacy peer expects it
    COMPACT = "compact"  # msgpack arrays, between peers that both offered it


def encode_message(message: Message, dialect: Dialect, group: str = "") -> Frame:
    """The frame of a message; `group` is for messages between members."""
    if dialect is Dialect.COMPACT:
        return encode_compact(message, group)
    return encode_legacy(message, group)


def decode_message(frame: Frame, dialect: Dialect) -> Message:
    """The message of a frame.

    Raises:
        RemoteError: UNKNOWN_MESSAGE, BAD_PAYLOAD or BAD_ID; OutOfBoundsError, as `check_message`.
    """
    return check_message(
        decode_compact(frame) if dialect is Dialect.COMPACT else decode_legacy(frame)
    )
