"""`/metrics`: what a member counts, as Prometheus reads it."""

from __future__ import annotations

from starlette.responses import Response

from rollq.base.counters import Family
from rollq.base.errors import DialError, ErrorCode
from rollq.observe.text import negotiated
from rollq.web.links import Links


async def metrics_of(links: Links, prefer: str, accept: str) -> Response:
    """The text for a request that accepts this. Beside a member it is that member's alone: numbers
    of another one under its name would be wrong.

    Raises:
        RollqError: nobody tells them; UNREACHABLE, if the member beside this process does not.
    """
    told = await links.read(list[Family], "metrics")
    if prefer and links.member != prefer:
        raise DialError(
            ErrorCode.UNREACHABLE, f"{prefer} does not answer", "look at the log of that member"
        )
    text, content_type = negotiated(told, accept)
    return Response(text, headers={"Content-Type": content_type})
