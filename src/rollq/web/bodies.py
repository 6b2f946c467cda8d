"""Reads request bodies within limits of size and time, and decodes JSON."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from typing import Final, TypeVar

import msgspec
from starlette.requests import Request

from rollq.base.errors import ErrorCode
from rollq.web.errors import JSON, RequestError, bad_request
from rollq.web.limits import BODY_BYTES_MAX, BODY_IDLE_S

Value = TypeVar("Value")
# An escape in JSON: a surrogate pair, half of one, or any other.
_ESCAPE: Final = re.compile(
    rb"\\u[dD][89abAB]..\\u[dD][c-fC-F]..|(?P<half>\\u[dD][89a-fA-F]..)|\\.", re.DOTALL
)


async def read_json(request: Request, wanted: type[Value]) -> Value:
    """Decode a JSON body; an empty body is an empty object.

    Raises:
        RequestError: it is invalid.
    """
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    data = await read_body(request, BODY_BYTES_MAX)
    if not data and not kind:
        data = b"{}"
    elif kind != JSON:
        raise RequestError(415, ErrorCode.BAD_PAYLOAD, f"the body is {kind[:64]!r}", f"send {JSON}")
    return decode_json(data, wanted, "the body", "GET /api/v1/openapi.json describes it")


def decode_json(data: bytes, wanted: type[Value], called: str, hint: str) -> Value:
    """Decode JSON; in errors it is `called` so.

    Raises:
        RequestError: it is invalid.
    """
    try:
        return msgspec.json.decode(data, type=wanted)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        # msgspec calls a text that ends with half a character truncated data.
        half = next((found for found in _ESCAPE.finditer(data) if found["half"]), None)
        if half is None:
            raise bad_request(f"{called}: {error}", hint) from None
        escape = half["half"].decode("ascii", "replace")
        raise bad_request(
            f"{called}: {escape} at byte {half.start()} is an unpaired surrogate: half a character",
            "write both halves, as in \\ud83d\\ude00, or the character itself",
        ) from None


async def read_body(request: Request, bytes_max: int) -> bytes:
    """Read a small body.

    Raises:
        RequestError: FRAME_TOO_LARGE, or TIMED_OUT.
    """
    pieces: list[bytes] = []
    left = bytes_max
    async for piece in pieces_of(request):
        left -= len(piece)
        if left < 0:
            raise RequestError(
                413, ErrorCode.FRAME_TOO_LARGE, f"the body has more than {bytes_max} bytes"
            )
        pieces.append(piece)
    return b"".join(pieces)


async def pieces_of(request: Request) -> AsyncIterator[bytes]:
    """Iterate over the pieces of a body as they arrive.

    Raises:
        RequestError: TIMED_OUT, if no data arrives.
    """
    stream = aiter(request.stream())
    while True:
        try:
            async with asyncio.timeout(BODY_IDLE_S):
                piece = await anext(stream, None)
        except TimeoutError:
            raise RequestError(
                408, ErrorCode.TIMED_OUT, f"no byte of the body came for {BODY_IDLE_S:g} s"
            ) from None
        if piece is None:
            return
        yield piece
