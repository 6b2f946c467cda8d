"""The state of the group: once, and as an event stream."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import msgspec

from rollq.base.errors import ErrorCode
from rollq.web.call import ApiCall, ApiReply, id_of
from rollq.web.errors import RequestError
from rollq.web.events import EventStream
from rollq.web.limits import STREAMS_ACCOUNT_MAX, STREAMS_MAX


class LiveQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Options of the event stream."""

    job: str = ""


async def overview(call: ApiCall) -> ApiReply:
    """The state of the group, and the charts of the last two minutes."""
    return ApiReply(await call.links.live.overview())


async def live(call: ApiCall) -> EventStream:
    """Events: `overview` each second, `job` when the named one changed, `gone` and `back`."""
    wanted: LiveQuery = call.query
    job_id = id_of(wanted.job) if wanted.job else None
    await call.links.live.overview()  # raises if access is denied
    return open_stream(call, call.links.live.events(job_id))


def open_stream(call: ApiCall, events: AsyncGenerator[bytes, None]) -> EventStream:
    """Open an event stream, if there is room. It holds the connections of its account.

    Raises:
        RequestError: OVERLOADED.
    """
    web, links = call.web, call.links
    if web.streams >= STREAMS_MAX or links.streams >= STREAMS_ACCOUNT_MAX:
        raise RequestError(
            429, ErrorCode.OVERLOADED, f"{web.streams} streams are open", "close some pages"
        )
    web.streams += 1
    links.streams += 1
    web.links.hold(links)

    def on_end() -> None:
        web.streams -= 1
        links.streams -= 1
        web.links.release(links)

    return EventStream(events, web.closing, on_end)
