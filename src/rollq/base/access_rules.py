"""Accounts, roles and rules. Pure replicated records, and the decision (`decide`).

A rule allows or denies an action on a resource. Every resource of a request needs an allow, and one
matching deny refuses it all: the order of rules, and which role they come from, never matter. A
request for all of a kind (`client:*`) or for a part of it (`queue:render.*`, of a worker) is
refused by a deny on anything in it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal, TypeAlias

import msgspec

Effect: TypeAlias = Literal["allow", "deny"]
ANY: Final = "*"
OWN: Final = "{account}"  # within a pattern: the requesting account


class Rule(msgspec.Struct, array_like=True, frozen=True, order=True):
    """One rule of an access list.

    Attributes:
        effect: `allow` or `deny`.
        action: A pattern over the values of `base.access.Action`.
        resource: `KIND:PATTERN`, KIND a value of `base.access.ResourceKind`; or `*`.
    """

    effect: Effect
    action: str
    resource: str


class AccessRole(msgspec.Struct, array_like=True, frozen=True):
    """Rules under a name, for accounts to share."""

    name: str
    rules: tuple[Rule, ...] = ()


class TokenHash(msgspec.Struct, array_like=True, frozen=True):
    """The stored form of a bearer token. `expires_ms` is a time of the group; 0: never."""

    id: str
    sha256: bytes
    expires_ms: int = 0


class Account(msgspec.Struct, array_like=True, frozen=True):
    """A principal that can authenticate, with its roles and its own rules."""

    name: str
    roles: tuple[str, ...] = ()
    rules: tuple[Rule, ...] = ()
    tokens: tuple[TokenHash, ...] = ()
    public_keys: tuple[bytes, ...] = ()
    is_disabled: bool = False


def is_client_of(client_id: str, account: str) -> bool:
    """Whether a client id belongs to an account, by its name. Without an account: always."""
    return not account or client_id == account or client_id.startswith(f"{account}/")


def decide(rules: Iterable[Rule], account: str, action: str, resources: Iterable[str]) -> bool:
    """Whether the rules allow an account an action on all of these resources.

    Args:
        rules: Of the account and its roles, in any order.
        account: The requesting account.
        action: A value of `Action`.
        resources: `KIND:NAME` each; at least one.
    """
    wanted = tuple(resources)
    allowed: set[str] = set()
    for rule in rules:
        if not matches(rule.action, action):
            continue
        for resource in wanted:
            if concerns(rule, account, resource):
                if rule.effect == "deny":
                    return False
                allowed.add(resource)
    return bool(wanted) and allowed.issuperset(wanted)


def concerns(rule: Rule, account: str, resource: str) -> bool:
    """Whether a rule applies to a requested resource. If that is itself a pattern (all of a kind,
    the queues of a worker), an allow must cover all of it, and a deny any part of it."""
    pattern = rule.resource.replace(OWN, account)
    if matches(pattern, resource):
        return True
    return rule.effect == "deny" and ANY in resource and may_overlap(pattern, resource)


def may_overlap(one: str, other: str) -> bool:
    """Whether a text may match both patterns: not if their ends differ. May be true for disjoint
    patterns, so it is only used for denies."""
    head, other_head = one.partition(ANY)[0], other.partition(ANY)[0]
    if not head.startswith(other_head) and not other_head.startswith(head):
        return False
    tail, other_tail = one.rpartition(ANY)[2], other.rpartition(ANY)[2]
    return tail.endswith(other_tail) or other_tail.endswith(tail)


def matches(pattern: str, text: str) -> bool:
    """Whether a text matches a pattern, in which `*` stands for any text, also none. Costs at most
    the product of the lengths."""
    head, *middle = pattern.split(ANY)
    if not middle:
        return pattern == text
    tail = middle.pop()
    if len(text) < len(head) + len(tail) or not text.startswith(head) or not text.endswith(tail):
        return False
    at, end = len(head), len(text) - len(tail)
    for part in middle:
        found = text.find(part, at, end)
        if found < 0:
            return False
        at = found + len(part)
    return True
