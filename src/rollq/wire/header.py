"""The header area: metadata of a payload that is not part of the message.

A frame has one if the highest bit of its type is set, which is legal only between peers that agreed
on the feature `header2`. Then its payload begins so:

    [version:1][headerLen:2 LE][header][body]

The header is a msgpack map of short names. A field may be added to it at any time, since unknown
names are skipped. Another version is refused. A frame without the bit is as it would be without the
feature, so bytes that were encoded once can be sent on any link.
"""

from __future__ import annotations

import struct
from typing import Final

import msgspec

from rollq.base.errors import ErrorCode, RemoteError
from rollq.base.limits import HEADER_BYTES_MAX, INFLATED_BYTES_MAX, INFLATED_RATIO_MAX
from rollq.wire.compression import METHODS, inflate, shrink
from rollq.wire.frame import Frame

HAS_HEADER: Final = 0x80  # of the type of a frame
VERSION: Final = 1
HEAD: Final = struct.Struct("<BH")


class Header(msgspec.Struct, frozen=True, omit_defaults=True):
    """How the body is written."""

    compression: str = ""  # how the body was compressed; empty: not at all


def pack(frame: Frame, method: str) -> Frame:
    """The frame with its payload compressed by a method of `METHODS`; unchanged if that is not
    smaller, or the ratio exceeds the peer's bound."""
    size, area = len(frame.payload), AREAS[method]
    small = shrink(frame.payload, method)
    if small is None or not len(small) + len(area) < size <= len(small) * INFLATED_RATIO_MAX:
        return frame
    payload = area + small
    return Frame(frame.type | HAS_HEADER, frame.msg_id, frame.corr_id, frame.subject, payload)


def unpack(frame: Frame) -> Frame:
    """A frame with header area, decoded and decompressed.

    Raises:
        RemoteError: BAD_FRAME, UNSUPPORTED_VERSION, or as `inflate`.
    """
    header, body = decode_header(frame.payload)
    if header.compression:
        bytes_max = min(INFLATED_BYTES_MAX, len(body) * INFLATED_RATIO_MAX)
        body = inflate(body, header.compression, bytes_max)
    return Frame(frame.type & ~HAS_HEADER, frame.msg_id, frame.corr_id, frame.subject, body)


def encode_header(header: Header) -> bytes:
    """The header area; the body follows it."""
    raw = msgspec.msgpack.encode(header)
    return HEAD.pack(VERSION, len(raw)) + raw


def decode_header(payload: bytes) -> tuple[Header, bytes]:
    """A payload taken apart into header and body.

    Raises:
        RemoteError: BAD_FRAME or UNSUPPORTED_VERSION.
    """
    if len(payload) < HEAD.size:
        raise RemoteError(ErrorCode.BAD_FRAME, "the payload ends within its header")
    version, size = HEAD.unpack_from(payload)
    if version != VERSION:
        raise RemoteError(
            ErrorCode.UNSUPPORTED_VERSION,
            f"a header of version {version}; we know {VERSION}",
            "offer the feature `header2` only for that version",
        )
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
AREAS: Final = {method: encode_header(Header(method)) for method in METHODS}
