"""The user: rights of the account, and browser sessions."""

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
from rollq.web.call import ApiCall, ApiReply
from rollq.web.links import Links, checked_token


class LoginBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a login."""

    token: str


async def me(call: ApiCall) -> ApiReply:
    """The user, and the actions that are allowed on at least one resource."""
    links = call.links
    await links.prove()
    is_asked = bool(links.account) and await _asks(call)
    return ApiReply(
        {
            "account": links.account if is_asked else "",
            "actions": await _actions(links) if is_asked else [str(one) for one in Action],
            "auth": "require" if is_asked else "off",
            "group": links.observer.group,
            "version": version("rollq"),
            "unsafe": call.web.setup.is_unprotected,
        }
    )


async def login(call: ApiCall) -> ApiReply:
    """Open a session with a token; the session id is in a cookie."""
    web, address = call.web, call.web.address_of(call.request)
    now = asyncio.get_running_loop().time()
    web.failed_logins.check(address, now)
    body: LoginBody = call.body
    try:
        token = checked_token(body.token)
        async with web.links.of(token) as links:
            document = {"account": links.account}
    except RollqError as error:
        if error.code in NOT_LET_IN_CODES:
            web.failed_logins.failed(address, now)
        raise
    cookie = web.cookie(web.sessions.add(token, now))
    return ApiReply(document, headers={"Set-Cookie": cookie})


def logout(call: ApiCall) -> ApiReply:
    """End the session of the cookie."""
    web = call.web
    web.sessions.remove(web.cookie_of(call.request))
    return ApiReply({}, headers={"Set-Cookie": web.cookie("")})


async def _asks(call: ApiCall) -> bool:
    """Whether the group requires logins."""
    async with call.web.links.of(None) as nobody:
        try:
            await nobody.prove()
        except RollqError as error:
            if error.code is ErrorCode.LOGIN_REQUIRED:
                return True
            raise
    return False


async def _actions(links: Links) -> list[str]:
    """The actions that rules allow on something, unless they are denied on everything."""
    view = await links.find(AccountView, "account", links.account.encode())
    if view is None or view.is_disabled:
        return []
    rules = list(view.rules)
    for name in view.roles:
        rules += BUILT_IN[name].rules if name in BUILT_IN else await _rules_of(links, name)
    return [str(action) for action in Action if _is_allowed(rules, action)]


async def _rules_of(links: Links, name: str) -> tuple[Rule, ...]:
    """The rules of a custom role; empty if the account may not read them."""
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
