"""Messages to frames and back, in either dialect.

Only the choice of dialect lives here; what each dialect looks like is in its own file.
"""

from __future__ import annotations

import enum

from rollq.wire.compact import Message, decode_compact, encode_compact
from rollq.wire.frame import Frame


class Dialect(enum.Enum):
    """How the payload of a message is written."""

    COMPACT = "compact"  # msgpack arrays, between peers that both offered it


def encode_message(message: Message, dialect: Dialect, group: str = "") -> Frame:
    """The frame that says `message`; `group` is for messages between members.

    Raises:
        LocalError: if the dialect has no words for the message.
    """
    return encode_compact(message, group)


def decode_message(frame: Frame, dialect: Dialect) -> Message:
    """What a frame says.

    Raises:
        RemoteError: UNKNOWN_MESSAGE, BAD_PAYLOAD, BAD_ID, BAD_CREDIT or BAD_HANDSHAKE.
    """
    return decode_compact(frame)
