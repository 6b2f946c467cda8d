"""How the group stands: once, and as a stream of what happens."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import msgspec

from rollq.base.errors import ErrorCode
from rollq.web.call import Call, Reply, id_of
from rollq.web.errors import RequestError
from rollq.web.events import EventStream
from rollq.web.limits import STREAMS_ACCOUNT_MAX, STREAMS_MAX


class LiveQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What to tell beside the overview."""

    job: str = ""


async def overview(call: Call) -> Reply:
    """How the group stands now, and the curves of the last two minutes."""
    return Reply(await call.links.live.overview())


async def live(call: Call) -> EventStream:
    """Events: `overview` each second, `job` when the named one changed, `gone` and `back`."""
    wanted: LiveQuery = call.query
    job_id = id_of(wanted.job) if wanted.job else None
    await call.links.live.overview()  # an account that may not look is told so
    return open_stream(call, call.links.live.events(job_id))


def open_stream(call: Call, events: AsyncGenerator[bytes, None]) -> EventStream:
    """A stream of events, if there is room for one more. It keeps the links of its account.

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
