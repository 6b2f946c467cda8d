"""Commands as bytes of a raft entry: one version byte, then a msgpack array.

Compatibility: appending a field or adding a command raises VERSION, and every older version stays
readable for ever. An entry that this code cannot read must stop the member: to skip it would make
its state differ from that of the members that can.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from rollq.base.errors import ErrorCode, LocalError
from rollq.grid.commands import Command, CommandBatch

VERSION: Final = 14
VERSIONS: Final = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14)  # that can be read

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(CommandBatch)
_PREFIX: Final = bytes([VERSION])
_UPGRADE_HINT: Final = "upgrade this member before it takes part again"


def encode_batch(stamp_ms: int, commands: Sequence[Command]) -> bytes:
    """The data of one raft entry."""
    return _PREFIX + _encoder.encode((stamp_ms, commands))


def encoded_bytes(command: Command) -> int:
    """The encoded size of a command."""
    return len(_encoder.encode(command))


def decode_batch(data: bytes) -> CommandBatch:
    """The inverse of `encode_batch`; raises LocalError on anything this version cannot read."""
    if not data or data[0] not in VERSIONS:
        raise LocalError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"command batch of version {data[0] if data else None}, not up to {VERSION}",
            _UPGRADE_HINT,
        )
    try:
        return _decoder.decode(memoryview(data)[1:])
    except msgspec.ValidationError as error:
        raise LocalError(
            ErrorCode.UNSUPPORTED_VERSION, f"unknown command: {error}", _UPGRADE_HINT
        ) from error
    except msgspec.DecodeError as error:
        raise LocalError(ErrorCode.BUG, f"not a command batch: {error}") from error
