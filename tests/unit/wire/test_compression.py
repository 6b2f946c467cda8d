from __future__ import annotations

import hashlib
import zlib

import brotli
import pytest
import zstandard

from rollq.base.errors import ErrorCode, RemoteError
from rollq.base.limits import INFLATED_BYTES_MAX
from rollq.wire.compression import COMPRESS_BYTES_MIN, METHODS, inflate, shrink

TEXT = b"rollq " * 1_000
LARGEST = bytes(INFLATED_BYTES_MAX)
TOO_LARGE = bytes(INFLATED_BYTES_MAX + 1)
BOMB = bytes(64 * 1024 * 1024)


def _refusal(payload: bytes, method: str) -> RemoteError:
    with pytest.raises(RemoteError) as caught:
        inflate(payload, method)
    return caught.value


def _pack(method: str, payload: bytes) -> bytes:
    if method == "zstd":
        return zstandard.ZstdCompressor().compress(payload)
    if method == "gzip":
        return zlib.compress(payload, 9, 31)
    packed: bytes = brotli.compress(payload, quality=5)
    return packed


@pytest.mark.parametrize("method", METHODS)
def test_what_was_shrunk_inflates_again(method: str) -> None:
    small = shrink(TEXT, method)
    assert small is not None
    assert len(small) < len(TEXT)
    assert inflate(small, method) == TEXT


@pytest.mark.parametrize("method", METHODS)
def test_only_if_smaller(method: str) -> None:
    noise = hashlib.shake_128(b"noise").digest(4 * COMPRESS_BYTES_MIN)
    assert shrink(noise, method) is None
    assert shrink(TEXT[: COMPRESS_BYTES_MIN - 1], method) is None


@pytest.mark.parametrize("method", METHODS)
def test_bounds_are_exact(method: str) -> None:
    assert inflate(_pack(method, LARGEST), method) == LARGEST
    assert _refusal(_pack(method, TOO_LARGE), method).code == ErrorCode.DECOMPRESSION_BOMB


@pytest.mark.parametrize("method", METHODS)
def test_bomb_is_an_error(method: str) -> None:
    bomb = _pack(method, BOMB)
    assert len(bomb) < 100_000
    assert _refusal(bomb, method).code == ErrorCode.DECOMPRESSION_BOMB


@pytest.mark.parametrize("method", METHODS)
def test_garbage_and_cut_payloads_are_errors(method: str) -> None:
    packed = _pack(method, TEXT)
    for bad in (b"", b"garbage", packed[:-1], packed[:5], packed + b"x", packed + packed):
        assert _refusal(bad, method).code == ErrorCode.BAD_COMPRESSION, bad[:20]


def test_zstd_must_state_its_size() -> None:
    streaming = zstandard.ZstdCompressor().compressobj()
    packed = streaming.compress(TEXT) + streaming.flush()
    error = _refusal(packed, "zstd")
    assert error.code == ErrorCode.BAD_COMPRESSION
    assert "content size" in error.message


def test_unknown_method_is_an_error() -> None:
    error = _refusal(b"", "lzma")
    assert error.code == ErrorCode.BAD_COMPRESSION
    assert "zstd, brotli, gzip" in error.hint
