"""The data of a CONFIG entry as bytes: a msgpack array, like all other stored data."""

from __future__ import annotations

import msgspec

from rollq.base.errors import ErrorCode, StateError
from rollq.raft.types import ConfigChange

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(ConfigChange)


def encode_change(change: ConfigChange) -> bytes:
    """The data of a CONFIG entry."""
    return _encoder.encode(change)


def decode_change(data: bytes) -> ConfigChange:
    """The change that a CONFIG entry holds.

    Raises:
        StateError: BAD_CONFIG_CHANGE, if the bytes are none.
    """
    try:
        return _decoder.decode(data)
    except msgspec.MsgspecError as error:
        raise StateError(
            ErrorCode.BAD_CONFIG_CHANGE, f"a CONFIG entry cannot be read: {error}"
        ) from error
