"""The header area: what rides with a payload without being part of the message.

It is there only between peers that agreed on the feature `header`; then every payload begins so:

    [0]                                  no header: the body follows
    [1][headerLen:2 LE][header][body]    version 1: the header is a msgpack map of short names

A field may be added to the map at any time, since unknown names are skipped. Another first byte
is another version, and is refused.
"""

from __future__ import annotations

import struct
from typing import Final

import msgspec

from rollq.base.errors import ErrorCode, LocalError, RemoteError
from rollq.base.limits import HEADER_BYTES_MAX

NO_HEADER: Final = 0
VERSION: Final = 1
HEAD: Final = struct.Struct("<BH")


class Header(msgspec.Struct, frozen=True, omit_defaults=True):
    """How the body is written, and what relays and observers may want to know."""

    compression: str = ""  # how the body was compressed; empty: not at all
    trace: str = ""  # W3C traceparent
    priority: int = 0  # a hint for relays; a job's own priority is in its options
    metadata: dict[str, str] = {}


EMPTY_HEADER: Final = Header()


def encode_header(header: Header, body: bytes) -> bytes:
    """The body with its header before it.

    Raises:
        LocalError: BAD_FRAME, if the header is too large.
    """
    if header == EMPTY_HEADER:
        return b"\x00" + body
    raw = msgspec.msgpack.encode(header)
    if len(raw) > HEADER_BYTES_MAX:
        raise LocalError(
            ErrorCode.BAD_FRAME, f"a header of {len(raw)} bytes; at most {HEADER_BYTES_MAX}"
        )
    return b"".join((HEAD.pack(VERSION, len(raw)), raw, body))


def decode_header(payload: bytes) -> tuple[Header, bytes]:
    """A payload taken apart into header and body.

    Raises:
        RemoteError: BAD_FRAME or UNSUPPORTED_VERSION.
    """
    if not payload:
        raise RemoteError(ErrorCode.BAD_FRAME, "a payload without its header byte")
    if payload[0] == NO_HEADER:
        return EMPTY_HEADER, payload[1:]
    if payload[0] != VERSION:
        raise RemoteError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"a header of version {payload[0]}; we know {VERSION}",
            "offer the feature `header` only for that version",
        )
    if len(payload) < HEAD.size:
        raise RemoteError(ErrorCode.BAD_FRAME, "the payload ends within its header")
    size: int = HEAD.unpack_from(payload)[1]
    end = HEAD.size + size
    if size > HEADER_BYTES_MAX or end > len(payload):
        raise RemoteError(
            ErrorCode.BAD_FRAME, f"a header of {size} bytes in a payload of {len(payload)}"
        )
    try:
        return DECODER.decode(payload[HEAD.size : end]), payload[end:]
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise RemoteError(ErrorCode.BAD_FRAME, f"Header: {error}") from None


DECODER: Final = msgspec.msgpack.Decoder(Header)
