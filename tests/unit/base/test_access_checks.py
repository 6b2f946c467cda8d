"""What accounts, roles and rules cannot be."""

from __future__ import annotations

import pytest

from rollq.base.access_checks import why_bad_account, why_bad_role, why_bad_rule
from rollq.base.access_rules import AccessRole, Account, Rule, TokenHash
from rollq.base.limits import (
    ACCESS_RULES_MAX,
    ACCOUNT_ROLES_MAX,
    KEYS_PER_ACCOUNT_MAX,
    TOKENS_PER_ACCOUNT_MAX,
)

HASH = bytes(32)


def allow(action: str, resource: str) -> Rule:
    return Rule("allow", action, resource)


@pytest.mark.parametrize(
    "rule",
    [
        allow("*", "*"),
        allow("jobs.*", "queue:render.*"),
        allow("jobs.submit", "client:{account}/*"),
        allow("results.read", "client:bøb"),
        Rule("deny", "*.read", "account:*"),
    ],
)
def test_a_rule_that_can_mean_something(rule: Rule) -> None:
    assert why_bad_rule(rule) == ""


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        (allow("", "*"), "no action"),
        (allow("job.submit", "*"), "no action"),
        (allow("jobs.submit*x", "*"), "no action"),
        (allow("*" * 65, "*"), "no action"),
        (allow("*", ""), "KIND"),
        (allow("*", "queue"), "KIND"),
        (allow("*", "cl*:bob"), "KIND"),
        (allow("*", "queues:a"), "KIND"),
        (allow("*", "queue:"), "empty"),
        (allow("*", "queue:" + "x" * 600), "too long"),
        (allow("*", "client:{user}"), "invalid characters"),
        (allow("*", "client:a\n"), "invalid characters"),
    ],
)
def test_a_rule_that_could_never_mean_anything(rule: Rule, why: str) -> None:
    assert why in why_bad_rule(rule)


@pytest.mark.parametrize(
    "name", ["", "a/b", "a*", "{account}", "-a", "a b", "å", "a" * 65, "a\n", "anonymous"]
)
def test_a_name_that_means_something_else(name: str) -> None:
    assert why_bad_account(Account(name))


def many(count: int) -> tuple[Rule, ...]:
    return tuple(allow("jobs.read", f"client:{number}") for number in range(count))


@pytest.mark.parametrize(
    "account",
    [
        Account("a", ("x",) * 2),
        Account("a", tuple(map(str, range(ACCOUNT_ROLES_MAX + 1)))),
        Account("a", rules=many(ACCESS_RULES_MAX + 1)),
        Account("a", rules=(allow("*", "*"), allow("*", "*"))),
        Account("a", tokens=(TokenHash("t", b"short"),)),
        Account("a", tokens=(TokenHash("", HASH),)),
        Account("a", tokens=(TokenHash("t", HASH, -1),)),
        Account("a", tokens=(TokenHash("t", HASH), TokenHash("t", bytes(range(32))))),
        Account("a", tokens=tuple(TokenHash(f"t{n}", HASH) for n in range(99))),
        Account("a", public_keys=(b"short",)),
        Account("a", public_keys=(HASH, HASH)),
        Account("a", public_keys=tuple(bytes([n]) * 32 for n in range(KEYS_PER_ACCOUNT_MAX + 1))),
    ],
)
def test_an_account_that_cannot_be(account: Account) -> None:
    assert why_bad_account(account)


def test_an_account_and_a_role_at_their_bounds() -> None:
    account = Account(
        "a" * 64,
        tuple(map(str, range(ACCOUNT_ROLES_MAX))),
        many(ACCESS_RULES_MAX),
        tuple(TokenHash(f"t{n}", HASH) for n in range(TOKENS_PER_ACCOUNT_MAX)),
        tuple(bytes([n]) * 32 for n in range(KEYS_PER_ACCOUNT_MAX)),
    )
    assert why_bad_account(account) == ""
    assert why_bad_role(AccessRole("nights", many(ACCESS_RULES_MAX))) == ""


@pytest.mark.parametrize(
    "role", [AccessRole("admin"), AccessRole("a/b"), AccessRole("n", many(ACCESS_RULES_MAX + 1))]
)
def test_a_role_that_cannot_be(role: AccessRole) -> None:
    assert why_bad_role(role)
