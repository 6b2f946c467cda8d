"""Server-sent events: a stream that lasts as long as the page is open. A slow reader is
disconnected; an idle stream sends keep-alive comments."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable
from typing import Any, Final

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from rollq.base.errors import RollqError
from rollq.web.errors import encode_json, error_document
from rollq.web.limits import ALIVE_S, SLOW_READER_S

log = logging.getLogger("rollq.web")

ALIVE: Final = b": alive\n\n"
HEADERS: Final = (
    (b"content-type", b"text/event-stream; charset=utf-8"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),  # a proxy must not hold events back
)


def event(kind: str, document: Any, number: int = 0) -> bytes:
    """Encode one event. Encoded JSON has no newlines."""
    place = f"id: {number}\n" if number else ""
    return f"{place}event: {kind}\ndata: ".encode() + encode_json(document) + b"\n\n"


class EventStream(Response):
    """A streaming response.

    Args:
        events: The events; closed when the reader disconnects.
        closing: Set at shutdown, which ends the stream.
        on_end: Called once at the end, for any reason.
    """

    def __init__(
        self,
        events: AsyncGenerator[bytes, None],
        closing: asyncio.Event,
        on_end: Callable[[], None],
    ) -> None:
        self.status_code = 200
        self.background = None
        self._events = events
        self._closing = closing
        self._on_end = on_end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve the stream."""
        left = asyncio.create_task(_left(receive))
        closing = asyncio.create_task(self._closing.wait())
        sending = asyncio.create_task(self._send(send))
        try:
            await asyncio.wait((left, closing, sending), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (left, closing, sending):
                task.cancel()
            await asyncio.gather(left, closing, sending, return_exceptions=True)
            await self._events.aclose()
            self._on_end()
        if closing.done() and not closing.cancelled():
            await _sent(send, b"", is_last=True)

    async def _send(self, send: Send) -> None:
        head = {"type": "http.response.start", "status": 200, "headers": list(HEADERS)}
        await send(head)
        upcoming: asyncio.Task[bytes | None] | None = None
        try:
            while True:
                if upcoming is None:
                    upcoming = asyncio.create_task(_next(self._events))
                done, _ = await asyncio.wait((upcoming,), timeout=ALIVE_S)
                if not done:
                    await _sent(send, ALIVE)
                    continue
                piece, upcoming = upcoming.result(), None
                if piece is None:
                    await _sent(send, b"", is_last=True)
                    return
                await _sent(send, piece)
        except TimeoutError:
            log.info("a stream is dropped: its reader took nothing for %g s", SLOW_READER_S)
        finally:
            if upcoming is not None:
                upcoming.cancel()
                await asyncio.gather(upcoming, return_exceptions=True)


async def _next(events: AsyncGenerator[bytes, None]) -> bytes | None:
    try:
        return await anext(events, None)
    except RollqError as error:  # end the stream with an error event
        return event("error", error_document(error)["error"])


async def _sent(send: Send, body: bytes, *, is_last: bool = False) -> None:
    """Send; raises TimeoutError if the reader is too slow."""
    async with asyncio.timeout(SLOW_READER_S):
        await send({"type": "http.response.body", "body": body, "more_body": not is_last})


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
