from __future__ import annotations

import msgspec
import pytest

from rollq.base.errors import ErrorCode, LocalError, RemoteError
from rollq.base.limits import HEADER_BYTES_MAX
from rollq.wire.header import EMPTY_HEADER, Header, decode_header, encode_header

FULL = Header("zstd", "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", 3, {"a": "b"})


def _refusal(payload: bytes) -> ErrorCode:
    with pytest.raises(RemoteError) as caught:
        decode_header(payload)
    return caught.value.code


def test_headers_come_back_with_their_body() -> None:
    for header in (EMPTY_HEADER, FULL, Header(priority=1)):
        assert decode_header(encode_header(header, b"body")) == (header, b"body")


def test_layout() -> None:
    assert encode_header(EMPTY_HEADER, b"body") == b"\x00body"
    assert encode_header(Header("gzip"), b"body") == (
        b"\x01\x12\x00" + b"\x81\xabcompression\xa4gzip" + b"body"
    )


def test_unknown_names_are_skipped() -> None:
    raw = msgspec.msgpack.encode({"priority": 2, "tomorrow": [1, 2]})
    payload = b"\x01" + len(raw).to_bytes(2, "little") + raw + b"body"
    assert decode_header(payload) == (Header(priority=2), b"body")


def test_broken_headers_are_refused() -> None:
    assert _refusal(b"") == ErrorCode.BAD_FRAME
    assert _refusal(b"\x01\x00") == ErrorCode.BAD_FRAME
    assert _refusal(b"\x01\x05\x00\x80") == ErrorCode.BAD_FRAME
    assert _refusal(b"\x01\x01\x00\xc1") == ErrorCode.BAD_FRAME
    assert _refusal(b"\x01\x0a\x00\x81\xa8priority") == ErrorCode.BAD_FRAME
    assert _refusal(b"\x02\x00\x00") == ErrorCode.UNSUPPORTED_VERSION


def test_headers_are_bounded() -> None:
    too_large = Header(metadata={"a": "x" * HEADER_BYTES_MAX})
    with pytest.raises(LocalError):
        encode_header(too_large, b"")
    raw = msgspec.msgpack.encode(too_large)
    assert _refusal(b"\x01" + len(raw).to_bytes(2, "little") + raw) == ErrorCode.BAD_FRAME
