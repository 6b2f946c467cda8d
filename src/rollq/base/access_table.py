"""The accounts and roles of a group, and what follows from them for one account. Pure.

Changed by the handlers of the grid alone. `version` is the log index of the last change: whoever
keeps a decision keeps the version with it, also across a snapshot.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from rollq.base.access import Action
from rollq.base.access_roles import BUILT_IN
from rollq.base.access_rules import AccessRole, Account, Rule, concerns, decide, matches

ALL_ACCOUNTS: Final = "account:*"


class Ruling(NamedTuple):
    """A rule that had a say in a decision.

    Attributes:
        source: The role that it comes from; empty: the account's own.
        rule: What it says.
        resource: Of those that were asked for, the one that it speaks of.
    """

    source: str
    rule: Rule
    resource: str


class AccessTable:
    """Accounts and roles by name; without any, nobody may do anything by account."""

    __slots__ = ("accounts", "roles", "version")

    def __init__(
        self,
        accounts: Iterable[Account] = (),
        roles: Iterable[AccessRole] = (),
        version: int = 0,
    ) -> None:
        self.accounts: dict[str, Account] = {one.name: one for one in accounts}
        self.roles: dict[str, AccessRole] = {one.name: one for one in roles}  # but the built-in
        self.version = version

    def account(self, name: str) -> Account | None:
        """An account that may log in; None: there is none, or it is disabled."""
        account = self.accounts.get(name)
        return None if account is None or account.is_disabled else account

    def role(self, name: str) -> AccessRole | None:
        """A role, also a built-in one."""
        return BUILT_IN.get(name) or self.roles.get(name)

    def rules_of(self, name: str) -> tuple[Rule, ...]:
        """What an account has by its roles and of its own: nothing, if it may not log in."""
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
        """Every rule of an account that speaks of an action on one of these resources."""
        wanted = tuple(resources)
        return [
            Ruling(source, rule, resource)
            for source, rule in self.sources(account)
            if matches(rule.action, action)
            for resource in wanted
            if concerns(rule, account.name, resource)
        ]

    def rules_of_role(self, name: str) -> tuple[Rule, ...]:
        """What a role gives: to a certificate whose name has no account."""
        role = self.role(name)
        return () if role is None else role.rules

    def listed_accounts(self) -> list[Account]:
        """All of them, by name."""
        return [self.accounts[name] for name in sorted(self.accounts)]

    def listed_roles(self) -> list[AccessRole]:
        """Those that are not built in, by name."""
        return [self.roles[name] for name in sorted(self.roles)]

    def can_be_changed(self, now_ms: int) -> bool:
        """Whether an account that can log in by a token or key may change accounts."""
        return any(
            _has_credential(account, now_ms)
            and decide(
                self.rules_of(account.name), account.name, Action.ACCESS_WRITE, (ALL_ACCOUNTS,)
            )
            for account in sorted(self.accounts.values(), key=_looks_like_a_user)
        )


def _looks_like_a_user(account: Account) -> bool:
    """False, and so first, for those who most likely may change accounts: the others are many."""
    return "admin" not in account.roles


def _has_credential(account: Account, now_ms: int) -> bool:
    lasting = any(not one.expires_ms or one.expires_ms > now_ms for one in account.tokens)
    return lasting or bool(account.public_keys)
