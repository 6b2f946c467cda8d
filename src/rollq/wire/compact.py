"""The compact dialect: a message as a msgpack array of its fields, without a tag.

The type byte of the frame identifies the struct, so msgspec's tag is omitted. Each struct has an
untagged copy for decoding, made here from its fields. A batch is one array of tagged arrays. An
array may be longer than we know (a newer peer) or shorter by fields with defaults (an older one).

Messages between members name their group in the subject: `cluster.<group>.<area>`.
"""

from __future__ import annotations

import operator
import re
import types
import typing
from collections.abc import Callable, Sequence
from functools import reduce
from typing import Any, Final, TypeAlias

import msgspec

from rollq.base.errors import ErrorCode, RemoteError
from rollq.base.limits import BATCH_BYTES_MAX
from rollq.raft import types as raft
from rollq.wire import blob_messages as b
from rollq.wire import login_messages as g
from rollq.wire import messages as m
from rollq.wire import reader_messages as r
from rollq.wire.checks import COMPACT_BYTES_MAX
from rollq.wire.frame import Frame
from rollq.wire.registry import AREA_OF, BATCH_NUMBER, NUMBER_OF, ROWS

Message: TypeAlias = (
    g.LoginMessage
    | m.SessionMessage
    | m.PeerMessage
    | raft.RaftMessage
    | b.BlobMessage
    | r.ReaderMessage
)


def encode_compact(message: Message, group: str = "") -> Frame:
    """The frame of a message in the compact dialect; `group` is for messages between members."""
    kind = NUMBER_OF[type(message)]
    payload = ENCODE(msgspec.structs.astuple(message))
    area = AREA_OF.get(kind)
    return Frame(kind, subject=f"cluster.{group}.{area}" if area else "", payload=payload)


def decode_compact(frame: Frame) -> Message:
    """The message that a frame in the compact dialect holds.

    Raises:
        RemoteError: UNKNOWN_MESSAGE, FRAME_TOO_LARGE, BAD_PAYLOAD or BAD_ID.
    """
    try:
        decode, build = DECODERS[frame.type]
    except KeyError:
        raise RemoteError(
            ErrorCode.UNKNOWN_MESSAGE, f"no message has the type {frame.type}"
        ) from None
    if len(frame.payload) > COMPACT_BYTES_MAX[frame.type]:
        raise RemoteError(
            ErrorCode.FRAME_TOO_LARGE,
            f"{build.__name__} has {len(frame.payload)} bytes",
            f"send at most {COMPACT_BYTES_MAX[frame.type]}",
        )
    try:
        message: Message = build(*msgspec.structs.astuple(decode(frame.payload)))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _bad_payload(build, error) from None
    return message


def encode_batch(messages: Sequence[Message]) -> list[Frame]:
    """Frames that carry many messages each: one array of [type, field, …] arrays."""
    payload = ENCODE(messages)
    if len(payload) <= BATCH_BYTES_MAX or len(messages) == 1:
        return [Frame(BATCH_NUMBER, payload=payload)]
    half = len(messages) // 2
    return encode_batch(messages[:half]) + encode_batch(messages[half:])


def decode_batch(frame: Frame) -> list[m.SessionMessage]:
    """The messages that a batch holds.

    Raises:
        RemoteError: BAD_PAYLOAD or BAD_ID.
    """
    try:
        return BATCH_DECODER.decode(frame.payload)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        code = ErrorCode.BAD_ID if ID_REFUSED in str(error) else ErrorCode.BAD_PAYLOAD
        raise RemoteError(code, f"batch: {error}") from None


def _bad_payload(build: type[msgspec.Struct], error: Exception) -> RemoteError:
    """Report the field by its name instead of its position in the array."""
    names = build.__struct_fields__

    def name_slot(found: re.Match[str]) -> str:
        slot = int(found[1])
        return f"`{names[slot]}" if slot < len(names) else found[0]

    text = re.sub(r"`\$\[(\d+)\]", name_slot, str(error))
    code = ErrorCode.BAD_ID if ID_REFUSED in text else ErrorCode.BAD_PAYLOAD
    return RemoteError(code, f"{build.__name__}: {text}")


# msgspec's message for a violation of `Id`, the only such bound
ID_REFUSED: Final = "`bytes` of length"


def _untagged(struct: type[msgspec.Struct]) -> type[msgspec.Struct]:
    """A struct with the same fields and no tag."""
    hints = typing.get_type_hints(struct, include_extras=True)
    fields: list[Any] = []
    for field in msgspec.structs.fields(struct):
        hint = hints[field.name]
        fields.append((field.name, hint) if field.required else (field.name, hint, field.default))
    return msgspec.defstruct(
        f"{struct.__name__}Fields", fields, array_like=True, frozen=True, gc=False
    )


ENCODE: Final = msgspec.msgpack.Encoder().encode
# Only messages of sessions are batched.
_SESSION: Final = [row.struct for row in ROWS if issubclass(row.struct, m.SessionMessage)]
BATCH_DECODER: Final[msgspec.msgpack.Decoder[list[m.SessionMessage]]] = msgspec.msgpack.Decoder(
    types.GenericAlias(list, (reduce(operator.or_, _SESSION),))
)
DECODERS: Final[dict[int, tuple[Callable[[bytes], Any], type[Any]]]] = {
    row.number: (msgspec.msgpack.Decoder(_untagged(row.struct)).decode, row.struct) for row in ROWS
}
