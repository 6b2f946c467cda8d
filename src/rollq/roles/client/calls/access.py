"""`client.access`: accounts and roles, and what they may do."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable
from typing import Final, NamedTuple, TypeVar

import msgspec

from rollq.base.access import Action
from rollq.base.access_checks import KINDS, why_bad_name
from rollq.base.access_rules import AccessRole, Account, Rule, TokenHash, decide
from rollq.base.access_table import AccessTable, Ruling
from rollq.base.errors import ErrorCode, LocalError, StateError
from rollq.base.limits import ACCESS_PAGE_ROWS_MAX
from rollq.grid.access import AccountView, RoleView, TokenView
from rollq.roles.client.answers import decode_as, decode_known
from rollq.roles.client.calls.facades import GroupCalls
from rollq.security.tokens import make_token

__all__ = ["AccessCalls", "AccessDecision", "AccountView", "RoleView", "TokenView"]

Value = TypeVar("Value")

TRIES_MAX: Final = 8  # per change, when other clients change the access table at the same time


class AccessDecision(NamedTuple):
    """Whether an account may do an action, and why.

    Attributes:
        allowed: Whether it is allowed.
        reason: The reason as text.
        rulings: Every rule that applies to the action.
    """

    allowed: bool
    reason: str
    rulings: tuple[Ruling, ...]


class AccessCalls(GroupCalls):
    """Accounts and roles of a group. A change is a compare-and-swap on the version that was read,
    and is retried: concurrent changes are not lost."""

    async def accounts(self) -> AsyncGenerator[AccountView, None]:
        """Iterate over all accounts, ordered by name."""
        after = ""
        kind = list[AccountView]
        while page := decode_as(await self._page("accounts", after), kind):
            for view in page:
                yield view
            after = page[-1].name

    async def account(self, name: str) -> AccountView | None:
        """Return an account, or None if it does not exist."""
        return decode_known(await self._query("account", name.encode()), AccountView)

    async def roles(self) -> AsyncGenerator[RoleView, None]:
        """Iterate over all roles, including the built-in ones, ordered by name."""
        after = ""
        kind = list[RoleView]
        while page := decode_as(await self._page("roles", after), kind):
            for view in page:
                yield view
            after = page[-1].name

    async def role(self, name: str) -> RoleView | None:
        """Return a role, or None if it does not exist."""
        async for view in self.roles():
            if view.name == name:
                return view
        return None

    async def add(
        self, name: str, *, roles: Iterable[str] = (), rules: Iterable[Rule] = ()
    ) -> None:
        """Create an account. Nobody can log in to it until it has a token, a key or a certificate.

        Raises:
            StateError: BAD_ACCESS if it exists already.
        """
        account = Account(name, (*roles,), (*rules,))
        for left in reversed(range(TRIES_MAX)):
            version = await self._version()
            if await self.account(name) is not None:
                raise _taken("account", name)
            if await self._put(left, "access_put_account", account=account, version=version):
                return

    async def remove(self, name: str) -> None:
        """Delete an account. Its tokens and keys stop working."""
        await self._change("access_remove_account", name=name)

    async def set_disabled(self, name: str, is_disabled: bool) -> None:
        """Disable or enable an account. A disabled account cannot log in."""
        await self._change_account(name, is_disabled=lambda _: is_disabled)

    async def add_roles(self, name: str, *roles: str) -> None:
        """Add roles to an account; the roles that it has stay."""
        await self._change_account(name, roles=lambda old: _with(old.roles, roles))

    async def remove_roles(self, name: str, *roles: str) -> None:
        """Remove roles from an account."""
        await self._change_account(name, roles=lambda old: _without(old.roles, roles))

    async def add_rules(self, name: str, *rules: Rule) -> None:
        """Add rules to an account; the rules that it has stay."""
        await self._change_account(name, rules=lambda old: _with(old.rules, rules))

    async def remove_rules(self, name: str, *rules: Rule) -> None:
        """Remove rules from an account."""
        await self._change_account(name, rules=lambda old: _without(old.rules, rules))

    async def new_token(self, name: str, *, expires_ms: int = 0) -> str:
        """Create a token for an account and return it. It cannot be read again: the group stores a
        hash.

        Args:
            name: The account.
            expires_ms: When it expires, in milliseconds since 1970; 0: never.
        """
        text, stored = make_token(name, expires_ms)
        await self._change_account(name, tokens=lambda old: (*_tokens(old), stored))
        return text.reveal().decode("ascii")

    async def remove_token(self, name: str, token_id: str) -> None:
        """Revoke a token."""
        await self._change_account(
            name, tokens=lambda old: tuple(one for one in _tokens(old) if one.id != token_id)
        )

    async def add_key(self, name: str, public_key: bytes) -> None:
        """Add an Ed25519 public key (32 bytes) that the account can log in with."""
        await self._change_account(
            name, public_keys=lambda old: _with(old.public_keys, (public_key,))
        )

    async def remove_key(self, name: str, public_key: bytes) -> None:
        """Revoke a key."""
        await self._change_account(
            name, public_keys=lambda old: _without(old.public_keys, (public_key,))
        )

    async def add_role(self, name: str, *rules: Rule) -> None:
        """Create a role.

        Raises:
            StateError: BAD_ACCESS if it exists already.
        """
        role = AccessRole(name, rules)
        for left in reversed(range(TRIES_MAX)):
            version = await self._version()
            if await self.role(name) is not None:
                raise _taken("role", name)
            if await self._put(left, "access_put_role", role=role, version=version):
                return

    async def add_role_rules(self, name: str, *rules: Rule) -> None:
        """Add rules to a role. They apply to every account that has the role."""
        await self._change_role(name, lambda old: _with(old, rules))

    async def remove_role_rules(self, name: str, *rules: Rule) -> None:
        """Remove rules from a role."""
        await self._change_role(name, lambda old: _without(old, rules))

    async def remove_role(self, name: str) -> None:
        """Delete a role. Refused while an account has it."""
        await self._change("access_remove_role", name=name)

    async def check(self, name: str, action: str, *resources: str) -> AccessDecision:
        """Check whether an account may do an action on all of these resources, and by which rules.

        Args:
            name: The account.
            action: The action as rules spell it, such as `jobs.cancel`.
            resources: `KIND:NAME` each, such as `client:alice/7`; `KIND:*` is all of a kind.
        """
        _check_request(action, resources)
        view = await self.account(name)
        if view is None:
            raise _unknown(name)
        account = _account(view)
        table = AccessTable(
            (account,), [AccessRole(one.name, one.rules) async for one in self.roles()]
        )
        rulings = tuple(table.rulings(account, action, resources))
        is_allowed = decide(table.rules_of(name), name, action, resources)
        return AccessDecision(is_allowed, _reason(account, resources, rulings), rulings)

    async def _page(self, what: str, after: str) -> bytes:
        return await self._query(what, after.encode(), ACCESS_PAGE_ROWS_MAX)

    async def _version(self) -> int:
        """The version of the access table. There is always a role to read it from: some are built
        in."""
        return decode_as(await self._query("roles", limit=1), list[RoleView])[0].version

    async def _change_account(self, name: str, **fields: Callable[[AccountView], object]) -> None:
        """Read an account, change fields, and write it back if the version is still the same."""
        for left in reversed(range(TRIES_MAX)):
            view = await self.account(name)
            if view is None:
                raise _unknown(name)
            changed = {field: change(view) for field, change in fields.items()}
            account = msgspec.structs.replace(_account(view), **changed)
            if await self._put(left, "access_put_account", account=account, version=view.version):
                return

    async def _change_role(
        self, name: str, change: Callable[[tuple[Rule, ...]], tuple[Rule, ...]]
    ) -> None:
        for left in reversed(range(TRIES_MAX)):
            view = await self.role(name)
            if view is None:
                raise StateError(
                    ErrorCode.UNKNOWN_ROLE, f"no role {name[:64]!r}", "`rollq access role list`"
                )
            role = AccessRole(name, change(view.rules))
            if await self._put(left, "access_put_role", role=role, version=view.version):
                return

    async def _put(self, left: int, action: str, **arguments: object) -> bool:
        """Write with the version that was read; False on a version conflict, if tries are left."""
        try:
            await self._change(action, **arguments)
        except StateError as error:
            if error.code is not ErrorCode.WRONG_STATE or not left:
                raise
            return False
        return True


def _with(old: tuple[Value, ...], new: Iterable[Value]) -> tuple[Value, ...]:
    return tuple(dict.fromkeys((*old, *new)))


def _without(old: tuple[Value, ...], gone: Iterable[Value]) -> tuple[Value, ...]:
    dropped = set(gone)
    return tuple(one for one in old if one not in dropped)


def _tokens(view: AccountView) -> tuple[TokenHash, ...]:
    """The account's tokens with empty hashes: the group matches them by id and keeps its hashes."""
    return tuple(TokenHash(token.id, b"", token.expires_ms) for token in view.tokens)


def _account(view: AccountView) -> Account:
    return Account(
        view.name,
        view.roles,
        rules=view.rules,
        tokens=_tokens(view),
        public_keys=view.public_keys,
        is_disabled=view.is_disabled,
    )


def _reason(account: Account, resources: tuple[str, ...], rulings: tuple[Ruling, ...]) -> str:
    if account.is_disabled:
        return f"the account {account.name} is disabled"
    for ruling in rulings:
        if ruling.rule.effect == "deny":
            return f"a rule denies it on {ruling.resource}"
    allowed = {ruling.resource for ruling in rulings}
    missing = [resource for resource in resources if resource not in allowed]
    return f"no rule allows it on {missing[0]}" if missing else "every resource is allowed"


def _check_request(action: str, resources: tuple[str, ...]) -> None:
    """Raises LocalError for an unknown action or a malformed resource."""
    if action not in tuple(Action):
        raise LocalError(
            ErrorCode.BAD_OPTIONS, f"no action {action[:64]!r}", f"one of: {' '.join(Action)}"
        )
    for resource in resources:
        kind, colon, name = resource.partition(":")
        if kind not in KINDS or not colon or not name:
            raise LocalError(
                ErrorCode.BAD_OPTIONS,
                f"{resource[:64]!r} is no resource",
                f"give KIND:NAME, as in queue:render; KIND is one of: {' '.join(KINDS)}",
            )
    if not resources:
        raise LocalError(ErrorCode.BAD_OPTIONS, "no resource", "give at least one KIND:NAME")


def _unknown(name: str) -> StateError:
    return StateError(
        ErrorCode.UNKNOWN_ACCOUNT,
        why_bad_name("account", name) or f"no account {name!r}",
        "`rollq access list` lists them",
    )


def _taken(what: str, name: str) -> StateError:
    return StateError(
        ErrorCode.BAD_ACCESS, f"{what} {name[:64]!r} exists already", "change it, or remove it"
    )
