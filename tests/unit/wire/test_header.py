from __future__ import annotations

import os

import msgspec
import pytest

from rollq.base.errors import ErrorCode, RemoteError
from rollq.base.limits import FRAME_BYTES_MAX, HEADER_BYTES_MAX, INFLATED_RATIO_MAX
from rollq.wire.compression import METHODS, shrink
from rollq.wire.frame import Frame
from rollq.wire.header import (
    AREAS,
    HAS_HEADER,
    Header,
    decode_header,
    encode_header,
    pack,
    unpack,
)
from rollq.wire.registry import BATCH_NUMBER, ROWS

TEXT = b"".join(b"line %d of a text, " % n for n in range(2_000))


def _refusal(payload: bytes) -> ErrorCode:
    with pytest.raises(RemoteError) as caught:
        unpack(Frame(7 | HAS_HEADER, payload=payload))
    return caught.value.code


def test_no_type_has_the_bit_of_a_header() -> None:
    assert max(BATCH_NUMBER, *(row.number for row in ROWS)) < HAS_HEADER


@pytest.mark.parametrize("method", METHODS)
def test_a_packed_frame_is_smaller_and_comes_back(method: str) -> None:
    frame = Frame(7, b"a" * 16, b"b" * 16, "a.subject", TEXT)
    packed = pack(frame, method)
    assert packed.type == 7 | HAS_HEADER
    assert len(packed.payload) < len(TEXT) // 2
    assert decode_header(packed.payload)[0] == Header(method)
    assert unpack(packed) == frame


@pytest.mark.parametrize("method", METHODS)
def test_what_does_not_get_smaller_stays_as_it_is(method: str) -> None:
    noise = Frame(7, payload=os.urandom(100_000))
    assert pack(noise, method) is noise
    assert pack(Frame(7, payload=TEXT[:900]), method).payload == TEXT[:900]


@pytest.mark.parametrize("method", METHODS)
def test_what_would_inflate_too_far_is_not_packed_and_refused(method: str) -> None:
    zeros = Frame(7, payload=bytes(FRAME_BYTES_MAX // 2))
    assert pack(zeros, method) is zeros
    small = shrink(zeros.payload, method)
    assert small is not None
    assert len(small) * INFLATED_RATIO_MAX < len(zeros.payload)
    assert _refusal(AREAS[method] + small) == ErrorCode.DECOMPRESSION_BOMB


def test_layout() -> None:
    assert encode_header(Header()) == b"\x01\x01\x00\x80"
    assert encode_header(Header("gzip")) == b"\x01\x12\x00" + b"\x81\xabcompression\xa4gzip"
    assert unpack(Frame(7 | HAS_HEADER, payload=b"\x01\x01\x00\x80body")).payload == b"body"


def test_unknown_names_are_skipped() -> None:
    raw = msgspec.msgpack.encode({"tomorrow": [1, 2]})
    payload = b"\x01" + len(raw).to_bytes(2, "little") + raw + b"body"
    assert decode_header(payload) == (Header(), b"body")


def test_broken_headers_are_refused() -> None:
    assert _refusal(b"") == ErrorCode.BAD_FRAME
    assert _refusal(b"\x01\x00") == ErrorCode.BAD_FRAME
    assert _refusal(b"\x01\x05\x00\x80") == ErrorCode.BAD_FRAME
    assert _refusal(b"\x01\x01\x00\xc1") == ErrorCode.BAD_FRAME
    assert _refusal(b"\x01\x0d\x00\x81\xabcompression") == ErrorCode.BAD_FRAME
    assert _refusal(b"\x02\x00\x00") == ErrorCode.UNSUPPORTED_VERSION
    assert _refusal(encode_header(Header("lzw")) + b"body") == ErrorCode.BAD_COMPRESSION


def test_headers_are_bounded() -> None:
    raw = msgspec.msgpack.encode({"a": "x" * HEADER_BYTES_MAX})
    assert _refusal(b"\x01" + len(raw).to_bytes(2, "little") + raw) == ErrorCode.BAD_FRAME
