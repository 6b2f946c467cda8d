"""Validation of accounts, roles and rules: the reason why one is not valid, for people. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from rollq.base.access import Action, ResourceKind
from rollq.base.access_roles import BUILT_IN
from rollq.base.access_rules import ANY, OWN, AccessRole, Account, Rule, TokenHash, matches
from rollq.base.digests import DIGEST_BYTES
from rollq.base.limits import (
    ACCESS_RESOURCE_BYTES_MAX,
    ACCESS_RULES_MAX,
    ACCOUNT_ROLES_MAX,
    ACTION_BYTES_MAX,
    KEYS_PER_ACCOUNT_MAX,
    PUBLIC_KEY_BYTES,
    TOKEN_ID_BYTES_MAX,
    TOKENS_PER_ACCOUNT_MAX,
)

# As in a certificate's name: no character has a meaning in a rule or a client id.
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
ANONYMOUS: Final = "anonymous"  # an unauthenticated peer, where that is allowed
NAME_HINT: Final = "1 to 64 of A-Z a-z 0-9 . _ -, beginning with a letter or digit"
KINDS: Final = tuple(ResourceKind)


def why_bad_account(account: Account) -> str:
    """Why an account is not valid, independent of others; empty: it is."""
    name = account.name
    if why := why_bad_name("account", name):
        return why
    if name == ANONYMOUS:
        return f"{name!r} is the name of peers without a login, and cannot be an account"
    if len(account.roles) > ACCOUNT_ROLES_MAX:
        return f"{name!r} has more than {ACCOUNT_ROLES_MAX} roles"
    if len(set(account.roles)) != len(account.roles):
        return f"{name!r} has a role twice"
    return (
        why_bad_rules(account.rules)
        or _why_bad_tokens(account.tokens)
        or _why_bad_keys(account.public_keys)
    )


def why_bad_role(role: AccessRole) -> str:
    """Why a role is not valid, independent of others; empty: it is."""
    if role.name in BUILT_IN:
        return f"the role {role.name!r} is built in"
    return why_bad_name("role", role.name) or why_bad_rules(role.rules)


def why_bad_name(what: str, name: str) -> str:
    """Why a name is not valid; empty: it is."""
    return "" if NAME.fullmatch(name) else f"{name[:64]!r} is not a valid {what} name: {NAME_HINT}"


def why_bad_rules(rules: Sequence[Rule]) -> str:
    """Why these rules of an account or role are not valid; empty: they are."""
    if len(rules) > ACCESS_RULES_MAX:
        return f"more than {ACCESS_RULES_MAX} rules; put some into a role"
    if len(set(rules)) != len(rules):
        return "a rule is listed twice"
    return next(filter(None, map(why_bad_rule, rules)), "")


def why_bad_rule(rule: Rule) -> str:
    """Why a rule can never apply; empty: it can. A rule about a resource that does not exist would
    be a deny on which its author relies in vain."""
    action, resource = rule.action, rule.resource
    if len(action.encode()) > ACTION_BYTES_MAX or not any(matches(action, one) for one in Action):
        return f"no action is called {action[:64]!r}"
    if resource == ANY:
        return ""
    kind, colon, pattern = resource.partition(":")
    if kind not in KINDS or not colon:
        return f"{resource[:64]!r} is not KIND:PATTERN; KIND is one of {' '.join(KINDS)}"
    if not pattern or len(resource.encode()) > ACCESS_RESOURCE_BYTES_MAX:
        return f"the pattern of {resource[:64]!r} is empty or too long"
    if "{" in pattern.replace(OWN, "") or not pattern.isprintable():
        return (
            f"the pattern of {resource[:64]!r} has invalid characters; {OWN} is the one that asks"
        )
    return ""


def _why_bad_tokens(tokens: Sequence[TokenHash]) -> str:
    if len(tokens) > TOKENS_PER_ACCOUNT_MAX:
        return f"more than {TOKENS_PER_ACCOUNT_MAX} tokens; remove one"
    ids = [token.id for token in tokens]
    if len(set(ids)) != len(ids):
        return "two tokens have the same id"
    for token in tokens:
        if not NAME.fullmatch(token.id) or len(token.id.encode()) > TOKEN_ID_BYTES_MAX:
            return f"{token.id[:64]!r} is not a valid token id: {NAME_HINT}"
        if len(token.sha256) != DIGEST_BYTES:
            return f"token {token.id!r} has no SHA-256"
        if token.expires_ms < 0:
            return f"token {token.id!r} has a negative expiry time"
    return ""


def _why_bad_keys(keys: Sequence[bytes]) -> str:
    if len(keys) > KEYS_PER_ACCOUNT_MAX:
        return f"more than {KEYS_PER_ACCOUNT_MAX} public keys; remove one"
    if len(set(keys)) != len(keys):
        return "a public key is listed twice"
    if any(len(key) != PUBLIC_KEY_BYTES for key in keys):
        return f"a public key has {PUBLIC_KEY_BYTES} bytes"
    return ""
