"""Payload compression: only if it makes the payload smaller, and bounded on the way in.

A compressor or decompressor is made for each call. Its working memory is large, so one for each
of many thousand connections would cost gigabytes; payloads too small to be worth making one are
not compressed at all.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Final

import brotli
import zstandard

from rollq.base.errors import ErrorCode, RemoteError
from rollq.base.limits import INFLATED_BYTES_MAX

ZSTD: Final = "zstd"
BROTLI: Final = "brotli"
GZIP: Final = "gzip"

GZIP_WINDOW_BITS: Final = 31  # zlib: the largest window, in a gzip wrapper
BROTLI_QUALITY: Final = 4  # from 5 on it is slower than what the network saves
ZSTD_LEVEL: Final = 3
COMPRESS_BYTES_MIN: Final = 1024  # below, a compressor costs more than the bytes it saves
SAMPLE_BYTES: Final = 2048


def shrink(payload: bytes, method: str) -> bytes | None:
    """The payload compressed by a method of `METHODS`, or None if that does not make it smaller."""
    size = len(payload)
    if size < COMPRESS_BYTES_MIN or (method in SLOW and not _is_promising(payload)):
        return None
    small = SHRINKERS[method](payload)
    return small if len(small) < size else None


def _is_promising(payload: bytes) -> bool:
    """Whether samples of its beginning and its middle compress."""
    middle = len(payload) // 2
    sample = payload[:SAMPLE_BYTES] + payload[middle : middle + SAMPLE_BYTES]
    return len(zstandard.ZstdCompressor(level=ZSTD_LEVEL).compress(sample)) < len(sample)


def inflate(payload: bytes, method: str, bytes_max: int = INFLATED_BYTES_MAX) -> bytes:
    """The payload as it was before `shrink`.

    Raises:
        RemoteError: DECOMPRESSION_BOMB if it would grow beyond `bytes_max`, BAD_COMPRESSION if it
            is not what it claims to be.
    """
    inflater = INFLATERS.get(method)
    if inflater is None:
        raise _garbage(method, "no such method", f"use one of {', '.join(METHODS)}")
    return inflater(payload, bytes_max)


def _inflate_zstd(payload: bytes, bytes_max: int) -> bytes:
    try:
        size = zstandard.get_frame_parameters(payload).content_size
        if size == zstandard.CONTENTSIZE_UNKNOWN:
            # Without it a truncated frame cannot be detected, nor the buffer sized.
            raise _garbage(ZSTD, "no content size", "write the content size into the zstd frame")
        if size > bytes_max:
            raise _bomb(ZSTD, bytes_max)
        # The size is a bound here, not a promise: a frame that holds more or less is an error.
        return zstandard.ZstdDecompressor().decompress(payload, allow_extra_data=False)
    except zstandard.ZstdError as error:
        raise _garbage(ZSTD, str(error)) from None


def _inflate_brotli(payload: bytes, bytes_max: int) -> bytes:
    inflater = brotli.Decompressor()
    pieces: list[bytes] = []
    room, rest = bytes_max, payload
    try:
        while not inflater.is_finished():
            # The limit is soft: another block may come, so the output is counted as well.
            piece: bytes = inflater.process(rest, output_buffer_limit=room + 1)
            room -= len(piece)
            if room < 0:
                raise _bomb(BROTLI, bytes_max)
            if not piece and inflater.can_accept_more_data():
                raise _garbage(BROTLI, "it ends too early")
            pieces.append(piece)
            rest = b""
    except brotli.error as error:
        raise _garbage(BROTLI, str(error)) from None
    return b"".join(pieces)


def _inflate_gzip(payload: bytes, bytes_max: int) -> bytes:
    inflater = zlib.decompressobj(GZIP_WINDOW_BITS)
    try:
        inflated = inflater.decompress(payload, bytes_max + 1)
    except zlib.error as error:
        raise _garbage(GZIP, str(error)) from None
    if len(inflated) > bytes_max:
        raise _bomb(GZIP, bytes_max)
    if not inflater.eof or inflater.unused_data:
        raise _garbage(GZIP, "it is not one whole gzip member")
    return inflated


def _bomb(method: str, bytes_max: int) -> RemoteError:
    return RemoteError(
        ErrorCode.DECOMPRESSION_BOMB,
        f"a {method} payload inflates to more than {bytes_max} bytes",
        "send large payloads as blobs",
    )


def _garbage(method: str, reason: str, hint: str = "") -> RemoteError:
    return RemoteError(ErrorCode.BAD_COMPRESSION, f"compression {method[:16]!a}: {reason}", hint)


# In order of preference.
SHRINKERS: Final[dict[str, Callable[[bytes], bytes]]] = {
    ZSTD: lambda payload: zstandard.ZstdCompressor(level=ZSTD_LEVEL).compress(payload),
    BROTLI: lambda payload: brotli.compress(payload, quality=BROTLI_QUALITY),
    GZIP: lambda payload: zlib.compress(payload, wbits=GZIP_WINDOW_BITS),
}
INFLATERS: Final[dict[str, Callable[[bytes, int], bytes]]] = {
    ZSTD: _inflate_zstd,
    BROTLI: _inflate_brotli,
    GZIP: _inflate_gzip,
}
METHODS: Final = tuple(SHRINKERS)
# These are slow on incompressible data; zstd skips it by itself.
SLOW: Final = frozenset({BROTLI, GZIP})
