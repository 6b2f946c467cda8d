"""What operators set: how queues choose workers, what may run at once, the shares of clients."""

from __future__ import annotations

import msgspec

from rollq.documents.rules import limit_document, policy_document, weight_document
from rollq.grid.rule_views import LimitView, PolicyView, WeightView
from rollq.web.answers import Document
from rollq.web.call import Call, Page, Reply


class PolicyList(msgspec.Struct, frozen=True):
    """Policies of queues."""

    policies: list[Document]
    after: str | None


class LimitList(msgspec.Struct, frozen=True):
    """Limits."""

    limits: list[Document]
    after: str | None


class WeightList(msgspec.Struct, frozen=True):
    """Shares of clients; those that are not listed have 1."""

    weights: list[Document]
    after: str | None


class PolicyBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How the queues of a pattern choose one of several workers. `weights` are those of a score."""

    pattern: str
    placement: str
    weights: dict[str, int] = {}


class PatternBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which queues."""

    pattern: str


class LimitBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A limit by its name, `exec:render`; `rate` as `3/s`. 0 or nothing: any number."""

    name: str
    running_max: int = 0
    rate: str = ""
    burst: int = 0


class LimitName(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Which limit."""

    name: str


class WeightBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The share of a client: 1 to 100."""

    client: str
    weight: int


async def policies(call: Call) -> Reply:
    """How queues choose workers, by pattern."""
    page: Page = call.query
    asked = "policies", page.after.encode(), page.limit
    rows = await call.links.read(list[PolicyView], *asked)
    after = rows[-1].pattern if len(rows) == page.limit else None
    return Reply({"policies": [policy_document(row) for row in rows], "after": after})


async def put_policy(call: Call) -> Reply:
    """Let the queues of a pattern choose workers in this way."""
    body: PolicyBody = call.body
    await call.links.client.set_policy(body.pattern, body.placement, body.weights)
    return Reply({"count": 1})


async def remove_policy(call: Call) -> Reply:
    """Take the policy of a pattern away."""
    body: PatternBody = call.body
    return Reply({"count": int(await call.links.client.remove_policy(body.pattern))})


async def limits(call: Call) -> Reply:
    """All limits, with what is taken of each."""
    page: Page = call.query
    rows = await call.links.read(list[LimitView], "limits", page.after.encode(), page.limit)
    after = rows[-1].name if len(rows) == page.limit else None
    return Reply({"limits": [limit_document(row) for row in rows], "after": after})


async def put_limit(call: Call) -> Reply:
    """Set a limit, or replace it."""
    body: LimitBody = call.body
    values = {"running": body.running_max, "burst": body.burst}
    await call.links.client.set_limit(body.name, rate=body.rate or 0, **values)
    return Reply({"count": 1})


async def remove_limit(call: Call) -> Reply:
    """Take a limit away."""
    body: LimitName = call.body
    return Reply({"count": int(await call.links.client.remove_limit(body.name))})


async def weights(call: Call) -> Reply:
    """Shares of clients."""
    page: Page = call.query
    rows = await call.links.read(list[WeightView], "weights", page.after.encode(), page.limit)
    after = rows[-1].client_id if len(rows) == page.limit else None
    return Reply({"weights": [weight_document(row) for row in rows], "after": after})


async def put_weight(call: Call) -> Reply:
    """Set the share of a client; 1 is that of all others."""
    body: WeightBody = call.body
    await call.links.client.set_weight(body.client, body.weight)
    return Reply({"count": 1})
