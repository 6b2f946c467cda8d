"""Accounts and roles, whether somebody may do something, and who did or tried what."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from rollq.documents.access import account_document, role_document
from rollq.grid import events
from rollq.grid.access import AccountView, RoleView
from rollq.web.call import Call, Page, Reply
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
    """What would be asked: an action on resources, `KIND:NAME` with blanks between."""

    account: str
    action: str
    resource: str


async def accounts(call: Call) -> Reply:
    """Accounts, by name; nothing with which one could log in."""
    page: Page = call.query
    rows = await call.links.read(list[AccountView], "accounts", page.after.encode(), page.limit)
    after = rows[-1].name if len(rows) == page.limit else None
    return Reply({"accounts": [account_document(row) for row in rows], "after": after})


async def roles(call: Call) -> Reply:
    """Roles, by name; also those that are built in."""
    page: Page = call.query
    rows = await call.links.read(list[RoleView], "roles", page.after.encode(), page.limit)
    after = rows[-1].name if len(rows) == page.limit else None
    return Reply({"roles": [role_document(row) for row in rows], "after": after})


async def check(call: Call) -> Reply:
    """Whether an account may do something, and by which rules."""
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
    return Reply({"allowed": decision.allowed, "reason": decision.reason, "rules": rules})


async def audit(call: Call) -> Reply:
    """What was changed and what was refused, the newest first. A page may have fewer rows than were
    asked for, and not be the last: `after` is null there."""
    page: Page = call.query
    found, before = await facts_before(
        call.links, page.place, page.limit, lambda fact: fact.type in AUDITED
    )
    return Reply({"acts": [_act(one) for one in found], "after": str(before) if before else None})


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
