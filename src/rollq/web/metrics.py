"""`/metrics`: the metrics of a member, in the Prometheus format."""

from __future__ import annotations

from starlette.responses import Response

from rollq.base.counters import Family
from rollq.base.errors import DialError, ErrorCode
from rollq.observe.text import negotiated
from rollq.web.links import Links


async def metrics_of(links: Links, prefer: str, accept: str) -> Response:
    """The response for an Accept header. As the child of a member it returns the metrics of that
    member only, because they would be attributed to it.

    Raises:
        RollqError: no member responds; UNREACHABLE, if the preferred member does not.
    """
    families = await links.read(list[Family], "metrics")
    if prefer and links.member != prefer:
        raise DialError(
            ErrorCode.UNREACHABLE, f"{prefer} does not answer", "look at the log of that member"
        )
    text, content_type = negotiated(families, accept)
    return Response(text, headers={"Content-Type": content_type})
