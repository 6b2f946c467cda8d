"""Accounts and roles, access checks, and the audit log."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from rollq.documents.access import account_document, role_document
from rollq.grid import events
from rollq.grid.access import AccountView, RoleView
from rollq.web.call import ApiCall, ApiReply, Page
from rollq.web.facts import Fact, facts_before

ROWS_MAX: Final = 1_000
AUDITED: Final = frozenset(
    (
        *(events.ACCOUNT_PUT, events.ACCOUNT_REMOVED, events.ROLE_PUT, events.ROLE_REMOVED),
        *(events.REFUSED, events.ACTED, events.QUEUE_PAUSED, events.QUEUE_RESUMED),
        *(events.SETTINGS_CHANGED, events.HINTS_CHANGED, events.CACHE_PUT, events.CACHE_REMOVED),
        *(events.BATCH_DROPPED, events.JOB_REDRIVEN, events.JOB_PURGED),
        events.JOB_CANCEL_REQUESTED,
    )
)


class CheckQuery(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The access to check: an action, and resources as `KIND:NAME`, separated by spaces."""

    account: str
    action: str
    resource: str


async def accounts(call: ApiCall) -> ApiReply:
    """Accounts, by name, without credentials."""
    page: Page = call.query
    rows = await call.links.read(list[AccountView], "accounts", page.after.encode(), page.limit)
    after = rows[-1].name if len(rows) == page.limit else None
    return ApiReply({"accounts": [account_document(row) for row in rows], "after": after})


async def roles(call: ApiCall) -> ApiReply:
    """Roles, by name, including the built-in ones."""
    page: Page = call.query
    rows = await call.links.read(list[RoleView], "roles", page.after.encode(), page.limit)
    after = rows[-1].name if len(rows) == page.limit else None
    return ApiReply({"roles": [role_document(row) for row in rows], "after": after})


async def check(call: ApiCall) -> ApiReply:
    """Whether an account may do an action, and by which rules."""
    wanted: CheckQuery = call.query
    decision = await call.links.client.access.check(
        wanted.account, wanted.action, *wanted.resource.split()
    )
    rules = [
        {
            "rule": f"{one.rule.effect} {one.rule.action} {one.rule.resource}",
            "resource": one.resource,
        }
        for one in decision.rulings
    ]
    return ApiReply({"allowed": decision.allowed, "reason": decision.reason, "rules": rules})


async def audit(call: ApiCall) -> ApiReply:
    """Changes and refused requests, newest first. A page may have fewer rows than requested;
    `after` is null on the last page."""
    page: Page = call.query
    found, before = await facts_before(
        call.links, page.place, page.limit, lambda fact: fact.type in AUDITED
    )
    return ApiReply(
        {"acts": [_act(one) for one in found], "after": str(before) if before else None}
    )


def _act(fact: Fact) -> dict[str, Any]:
    return {
        "index": fact.index,
        "ts_ms": fact.ts,
        "event": fact.type,
        "by": fact.by,
        "action": fact.action,
        "resource": fact.resource or fact.account or fact.jobId or fact.queue or fact.cacheId,
        "address": fact.address,
        "count": fact.count,
        "detail": fact.detail,
    }
