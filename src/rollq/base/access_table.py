"""The accounts and roles of a group, and the effective rules of an account. Pure.

Changed by the handlers of the grid alone. `version` is the log index of the last change: a cached
decision is valid for its version, also across a snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from rollq.base.access import Action
from rollq.base.access_roles import BUILT_IN
from rollq.base.access_rules import AccessRole, Account, Rule, concerns, decide, matches

ALL_ACCOUNTS: Final = "account:*"


class Ruling(NamedTuple):
    """A rule that applied in a decision.

    Attributes:
        source: The role that it comes from; empty: the account's own.
        rule: The rule.
        resource: The requested resource that it applies to.
    """

    source: str
    rule: Rule
    resource: str


class AccessTable:
    """Accounts and roles by name; without any, no account has any right."""

    __slots__ = ("accounts", "roles", "version")

    def __init__(
        self,
        accounts: Iterable[Account] = (),
        roles: Iterable[AccessRole] = (),
        version: int = 0,
    ) -> None:
        self.accounts: dict[str, Account] = {one.name: one for one in accounts}
        # without built-in ones
        self.roles: dict[str, AccessRole] = {one.name: one for one in roles}
        self.version = version

    def account(self, name: str) -> Account | None:
        """An account that may authenticate; None: unknown or disabled."""
        account = self.accounts.get(name)
        return None if account is None or account.is_disabled else account

    def role(self, name: str) -> AccessRole | None:
        """A role, also a built-in one."""
        return BUILT_IN.get(name) or self.roles.get(name)

    def rules_of(self, name: str) -> tuple[Rule, ...]:
        """The rules of an account, by its roles and its own: none if it may not authenticate."""
        account = self.account(name)
        return () if account is None else tuple(rule for _, rule in self.sources(account))

    def sources(self, account: Account) -> Iterator[tuple[str, Rule]]:
        """The rules of an account, each with the role that it comes from; empty: its own."""
        for name in account.roles:
            role = self.role(name)
            for rule in () if role is None else role.rules:
                yield name, rule
        for rule in account.rules:
            yield "", rule

    def rulings(self, account: Account, action: str, resources: Iterable[str]) -> list[Ruling]:
        """Every rule of an account that applies to an action on one of these resources."""
        wanted = tuple(resources)
        return [
            Ruling(source, rule, resource)
            for source, rule in self.sources(account)
            if matches(rule.action, action)
            for resource in wanted
            if concerns(rule, account.name, resource)
        ]

    def rules_of_role(self, name: str) -> tuple[Rule, ...]:
        """The rules of a role, for a certificate whose name has no account."""
        role = self.role(name)
        return () if role is None else role.rules

    def listed_accounts(self) -> list[Account]:
        """All of them, by name."""
        return [self.accounts[name] for name in sorted(self.accounts)]

    def listed_roles(self) -> list[AccessRole]:
        """Those that are not built in, by name."""
        return [self.roles[name] for name in sorted(self.roles)]

    def can_be_changed(self, now_ms: int) -> bool:
        """Whether an account that can authenticate by a token or key may change accounts."""
        return any(
            _has_credential(account, now_ms)
            and decide(
                self.rules_of(account.name), account.name, Action.ACCESS_WRITE, (ALL_ACCOUNTS,)
            )
            for account in sorted(self.accounts.values(), key=_looks_like_a_user)
        )


def _looks_like_a_user(account: Account) -> bool:
    """A sort key: accounts that most likely may change accounts come first; most others do not."""
    return "admin" not in account.roles


def _has_credential(account: Account, now_ms: int) -> bool:
    lasting = any(not one.expires_ms or one.expires_ms > now_ms for one in account.tokens)
    return lasting or bool(account.public_keys)
