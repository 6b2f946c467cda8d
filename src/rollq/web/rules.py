"""Settings of operators: placement policies, limits, and weights of clients."""

from __future__ import annotations

import msgspec

from rollq.documents.rules import limit_document, policy_document, weight_document
from rollq.grid.rule_views import LimitView, PolicyView, WeightView
from rollq.web.answers import Document
from rollq.web.call import ApiCall, ApiReply, Page


class PolicyList(msgspec.Struct, frozen=True):
    """Policies of queues."""

    policies: list[Document]
    after: str | None


class LimitList(msgspec.Struct, frozen=True):
    """Limits."""

    limits: list[Document]
    after: str | None


class WeightList(msgspec.Struct, frozen=True):
    """Weights of clients; the default is 1."""

    weights: list[Document]
    after: str | None


class PolicyBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The placement policy of the queues that match a pattern. `weights` are those of `score`."""

    pattern: str
    placement: str
    weights: dict[str, int] = {}


class PatternBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A pattern of queues."""

    pattern: str


class LimitBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A limit by name, such as `exec:render`; `rate` such as `3/s`. 0 or empty: no limit."""

    name: str
    running_max: int = 0
    rate: str = ""
    burst: int = 0


class LimitName(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The name of a limit."""

    name: str


class WeightBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The weight of a client: 1 to 100."""

    client: str
    weight: int


async def policies(call: ApiCall) -> ApiReply:
    """Placement policies of queues, by pattern."""
    page: Page = call.query
    arguments = "policies", page.after.encode(), page.limit
    rows = await call.links.read(list[PolicyView], *arguments)
    after = rows[-1].pattern if len(rows) == page.limit else None
    return ApiReply({"policies": [policy_document(row) for row in rows], "after": after})


async def put_policy(call: ApiCall) -> ApiReply:
    """Set the placement policy of the queues that match a pattern."""
    body: PolicyBody = call.body
    await call.links.client.set_policy(body.pattern, body.placement, body.weights)
    return ApiReply({"count": 1})


async def remove_policy(call: ApiCall) -> ApiReply:
    """Remove the policy of a pattern."""
    body: PatternBody = call.body
    return ApiReply({"count": int(await call.links.client.remove_policy(body.pattern))})


async def limits(call: ApiCall) -> ApiReply:
    """Limits with their current usage, by name."""
    page: Page = call.query
    rows = await call.links.read(list[LimitView], "limits", page.after.encode(), page.limit)
    after = rows[-1].name if len(rows) == page.limit else None
    return ApiReply({"limits": [limit_document(row) for row in rows], "after": after})


async def put_limit(call: ApiCall) -> ApiReply:
    """Set a limit, or replace it."""
    body: LimitBody = call.body
    values = {"running": body.running_max, "burst": body.burst}
    await call.links.client.set_limit(body.name, rate=body.rate or 0, **values)
    return ApiReply({"count": 1})


async def remove_limit(call: ApiCall) -> ApiReply:
    """Remove a limit."""
    body: LimitName = call.body
    return ApiReply({"count": int(await call.links.client.remove_limit(body.name))})


async def weights(call: ApiCall) -> ApiReply:
    """Weights of clients, by id."""
    page: Page = call.query
    rows = await call.links.read(list[WeightView], "weights", page.after.encode(), page.limit)
    after = rows[-1].client_id if len(rows) == page.limit else None
    return ApiReply({"weights": [weight_document(row) for row in rows], "after": after})


async def put_weight(call: ApiCall) -> ApiReply:
    """Set the weight of a client; the default is 1."""
    body: WeightBody = call.body
    await call.links.client.set_weight(body.client, body.weight)
    return ApiReply({"count": 1})
