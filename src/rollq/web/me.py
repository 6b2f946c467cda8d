"""Who asks: what an account may do, and sessions of browsers."""

from __future__ import annotations

import asyncio
from fnmatch import fnmatchcase
from importlib.metadata import version
from typing import Any

import msgspec

from rollq.base.access import Action
from rollq.base.access_roles import BUILT_IN
from rollq.base.access_rules import Rule
from rollq.base.errors import NOT_LET_IN_CODES, ErrorCode, RollqError
from rollq.grid.access import AccountView, RoleView
from rollq.web.call import Call, Reply
from rollq.web.links import Links, checked_token


class Login(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a session is opened with."""

    token: str


async def me(call: Call) -> Reply:
    """Who asks, and what they may do somewhere at least."""
    links = call.links
    await links.prove()
    is_asked = bool(links.account) and await _asks(call)
    return Reply(
        {
            "account": links.account if is_asked else "",
            "actions": await _actions(links) if is_asked else [str(one) for one in Action],
            "auth": "require" if is_asked else "off",
            "group": call.web.setup.group,
            "version": version("rollq"),
            "unsafe": call.web.setup.is_unprotected,
        }
    )


async def login(call: Call) -> Reply:
    """Open a session with a token; its name is in a cookie."""
    web, address = call.web, call.web.address_of(call.request)
    now = asyncio.get_running_loop().time()
    web.failed_logins.check(address, now)
    body: Login = call.body
    try:
        token = checked_token(body.token)
        async with web.links.of(token) as links:
            document = {"account": links.account}
    except RollqError as error:
        if error.code in NOT_LET_IN_CODES:
            web.failed_logins.failed(address, now)
        raise
    cookie = web.cookie(web.sessions.add(token, now))
    return Reply(document, headers={"Set-Cookie": cookie})


def logout(call: Call) -> Reply:
    """End the session of the cookie."""
    web = call.web
    web.sessions.remove(web.cookie_of(call.request))
    return Reply({}, headers={"Set-Cookie": web.cookie("")})


async def _asks(call: Call) -> bool:
    """Whether the group asks who somebody is: it lets in nobody without a token."""
    async with call.web.links.of(None) as nobody:
        try:
            await nobody.prove()
        except RollqError as error:
            if error.code is ErrorCode.LOGIN_REQUIRED:
                return True
            raise
    return False


async def _actions(links: Links) -> list[str]:
    """What rules allow the account on something, unless they deny it on everything."""
    view = await links.find(AccountView, "account", links.account.encode())
    if view is None or view.is_disabled:
        return []
    rules = list(view.rules)
    for name in view.roles:
        rules += BUILT_IN[name].rules if name in BUILT_IN else await _rules_of(links, name)
    return [str(action) for action in Action if _is_allowed(rules, action)]


async def _rules_of(links: Links, name: str) -> tuple[Rule, ...]:
    """Of a role that is not built in; none if the account may not look."""
    try:
        roles = await links.read(list[RoleView], "roles", b"", 1_000)
    except RollqError as error:
        if error.code is not ErrorCode.ACCESS_DENIED:
            raise
        return ()
    return next((role.rules for role in roles if role.name == name), ())


def _is_allowed(rules: list[Rule], action: str) -> bool:
    speaking: list[Any] = [rule for rule in rules if fnmatchcase(action, rule.action)]
    return any(rule.effect == "allow" for rule in speaking) and not any(
        rule.effect == "deny" and rule.resource == "*" for rule in speaking
    )
