"""Handlers and views of accounts and roles. Invariants: an account has only roles that exist, and
all stored accounts and roles pass `base.access_checks`."""

from __future__ import annotations

import msgspec

from rollq.base.access_checks import why_bad_account, why_bad_role
from rollq.base.access_roles import BUILT_IN
from rollq.base.access_rules import AccessRole, Account, Rule
from rollq.base.access_table import AccessTable
from rollq.base.errors import ErrorCode
from rollq.base.limits import (
    ACCESS_PAGE_ROWS_MAX,
    ACCESS_RESOURCE_BYTES_MAX,
    ACTION_BYTES_MAX,
    ADDRESS_BYTES_MAX,
    CLIENT_ID_BYTES_MAX,
    DETAIL_BYTES_MAX,
    REFUSALS_PER_NOTE_MAX,
)
from rollq.grid.access_commands import (
    NoteAct,
    NoteRefusals,
    PutAccount,
    PutRole,
    RemoveAccount,
    RemoveRole,
)
from rollq.grid.admission import is_long, refused_bounds
from rollq.grid.effects import Applied, Done, Outcome, Refused
from rollq.grid.events import (
    ACCOUNT_PUT,
    ACCOUNT_REMOVED,
    ACTED,
    REFUSED,
    ROLE_PUT,
    ROLE_REMOVED,
    AccessFact,
    Event,
)
from rollq.grid.outcomes import ACCOUNTS_FULL, DONE_ONE, DUPLICATE_OPEN, ROLES_FULL
from rollq.grid.state import GridState


class TokenView(msgspec.Struct, frozen=True, array_like=True):
    """A token without its hash."""

    id: str
    expires_ms: int


class AccountView(msgspec.Struct, frozen=True, array_like=True):
    """An account as displayed. `version` is that of the access table."""

    name: str
    roles: tuple[str, ...]
    rules: tuple[Rule, ...]
    tokens: tuple[TokenView, ...]
    public_keys: tuple[bytes, ...]
    is_disabled: bool
    version: int


class RoleView(msgspec.Struct, frozen=True, array_like=True):
    """A role as displayed."""

    name: str
    rules: tuple[Rule, ...]
    is_built_in: bool
    version: int


def put_account(state: GridState, command: PutAccount, out: Applied) -> Outcome:
    """Create or replace an account."""
    access = state.access
    known = access.accounts.get(command.account.name)
    account = _with_hashes(command.account, known)
    refusal = (
        _refuse_stale(access, command.version)
        or _refuse_bad(why_bad_account(account))
        or _refuse_roles(access, account)
    )
    if refusal is not None:
        return refusal
    if account == known:
        return DUPLICATE_OPEN
    if known is None and len(access.accounts) >= state.bounds.accounts:
        return ACCOUNTS_FULL
    changed = AccessTable(
        (*access.listed_accounts(), account), access.listed_roles(), access.version
    )
    refusal = _refuse_locked_out(access, changed, out.stamp_ms, command.may_lock_out)
    if refusal is not None:
        return refusal
    access.accounts[account.name] = account
    access.version = out.index
    out.events.append(_fact(ACCOUNT_PUT, account.name, command.by, _account_text(account)))
    return DONE_ONE


def _with_hashes(account: Account, known: Account | None) -> Account:
    """The account, with the stored hash for every token that came without one."""
    stored = {} if known is None else {token.id: token.sha256 for token in known.tokens}
    tokens = tuple(
        token if token.sha256 else msgspec.structs.replace(token, sha256=stored.get(token.id, b""))
        for token in account.tokens
    )
    return msgspec.structs.replace(account, tokens=tokens)


def remove_account(state: GridState, command: RemoveAccount, out: Applied) -> Outcome:
    """Delete an account."""
    access = state.access
    if command.name not in access.accounts:
        return Refused(ErrorCode.UNKNOWN_ACCOUNT, f"no account {command.name[:64]!r}")
    others = [one for one in access.listed_accounts() if one.name != command.name]
    changed = AccessTable(others, access.listed_roles())
    refusal = _refuse_locked_out(access, changed, out.stamp_ms, command.may_lock_out)
    if refusal is not None:
        return refusal
    del access.accounts[command.name]
    access.version = out.index
    out.events.append(_fact(ACCOUNT_REMOVED, command.name, command.by))
    return DONE_ONE


def put_role(state: GridState, command: PutRole, out: Applied) -> Outcome:
    """Create a role or replace its rules, for all accounts that have it."""
    access, role = state.access, command.role
    refusal = _refuse_stale(access, command.version) or _refuse_bad(why_bad_role(role))
    if refusal is not None:
        return refusal
    known = access.roles.get(role.name)
    if role == known:
        return DUPLICATE_OPEN
    if known is None and len(access.roles) >= state.bounds.roles:
        return ROLES_FULL
    changed = AccessTable(access.listed_accounts(), (*access.listed_roles(), role))
    refusal = _refuse_locked_out(access, changed, out.stamp_ms, command.may_lock_out)
    if refusal is not None:
        return refusal
    access.roles[role.name] = role
    access.version = out.index
    out.events.append(_fact(ROLE_PUT, role.name, command.by, _rules_text(role.rules)))
    return DONE_ONE


def remove_role(state: GridState, command: RemoveRole, out: Applied) -> Outcome:
    """Delete a role, unless an account has it."""
    access = state.access
    if command.name not in access.roles:
        return Refused(ErrorCode.UNKNOWN_ROLE, f"no role {command.name[:64]!r} of your own")
    for account in access.listed_accounts():
        if command.name in account.roles:
            why = f"the account {account.name!r} has the role {command.name!r}"
            return Refused(ErrorCode.BAD_ACCESS, why)
    del access.roles[command.name]
    access.version = out.index
    out.events.append(_fact(ROLE_REMOVED, command.name, command.by))
    return DONE_ONE


def note_refusals(state: GridState, command: NoteRefusals, out: Applied) -> Outcome:
    """Record an event for each refusal."""
    if len(command.refusals) > REFUSALS_PER_NOTE_MAX:
        return refused_bounds(f"more than {REFUSALS_PER_NOTE_MAX} refusals")
    for one in command.refusals:
        if (
            is_long(one.account, CLIENT_ID_BYTES_MAX)
            or is_long(one.action, ACTION_BYTES_MAX)
            or is_long(one.resource, ACCESS_RESOURCE_BYTES_MAX)
            or is_long(one.address, ADDRESS_BYTES_MAX)
            or one.count < 1
        ):
            return refused_bounds("a refusal has a field that is too long, or a count below 1")
    out.events += [
        Event(
            REFUSED,
            count=one.count,
            access=AccessFact(
                one.account,
                action=one.action,
                resource=one.resource,
                address=one.address,
            ),
        )
        for one in command.refusals
    ]
    return Done(len(command.refusals))


def note_act(state: GridState, command: NoteAct, out: Applied) -> Outcome:
    """Record an event for the act."""
    if (
        is_long(command.by, CLIENT_ID_BYTES_MAX)
        or is_long(command.verb, ACTION_BYTES_MAX)
        or is_long(command.action, ACTION_BYTES_MAX)
        or is_long(command.resource, ACCESS_RESOURCE_BYTES_MAX)
    ):
        return refused_bounds("an act has a field that is too long")
    what = AccessFact(command.by, action=command.action, resource=command.resource)
    out.events.append(Event(ACTED, detail=command.verb, access=what))
    return DONE_ONE


def _refuse_stale(access: AccessTable, version: int) -> Refused | None:
    if not version or version == access.version:
        return None
    return Refused(ErrorCode.WRONG_STATE, "accounts or roles were changed meanwhile; look again")


def _refuse_bad(why: str) -> Refused | None:
    return Refused(ErrorCode.BAD_ACCESS, why) if why else None


def _refuse_roles(access: AccessTable, account: Account) -> Refused | None:
    for name in account.roles:
        if access.role(name) is None:
            return Refused(ErrorCode.UNKNOWN_ROLE, f"no role {name[:64]!r}")
    return None


def _refuse_locked_out(
    access: AccessTable, changed: AccessTable, now_ms: int, may_lock_out: bool
) -> Refused | None:
    """Refuse a change after which no account could change accounts, if one can now."""
    if may_lock_out or changed.can_be_changed(now_ms) or not access.can_be_changed(now_ms):
        return None
    return _refuse_bad("after this no account could change accounts; give another one that right")


def _fact(kind: str, name: str, by: str, detail: str = "") -> Event:
    return Event(kind, detail=detail, access=AccessFact(by, name))


def _account_text(account: Account) -> str:
    """The rights of an account for the audit; credentials are only counted."""
    words = [
        *(f"role {name};" for name in account.roles),
        *(f"{rule.effect} {rule.action} {rule.resource};" for rule in account.rules),
        f"{len(account.tokens)} tokens; {len(account.public_keys)} keys",
        *(["; disabled"] if account.is_disabled else []),
    ]
    return _cut(" ".join(words))


def _rules_text(rules: tuple[Rule, ...]) -> str:
    return _cut("; ".join(f"{rule.effect} {rule.action} {rule.resource}" for rule in rules))


def _cut(text: str) -> str:
    return text if len(text) <= DETAIL_BYTES_MAX else f"{text[:DETAIL_BYTES_MAX]} …"


def account_view(state: GridState, name: str) -> AccountView | None:
    """An account as displayed."""
    account = state.access.accounts.get(name)
    return None if account is None else _account_view(account, state.access.version)


def account_page(state: GridState, after: str, limit: int) -> list[AccountView]:
    """Up to `limit` accounts whose names come after this one, by name."""
    access = state.access
    names = sorted(name for name in access.accounts if name > after)
    names = names[: min(limit, ACCESS_PAGE_ROWS_MAX)]
    return [_account_view(access.accounts[name], access.version) for name in names]


def _account_view(account: Account, version: int) -> AccountView:
    return AccountView(
        account.name,
        account.roles,
        rules=account.rules,
        tokens=tuple(TokenView(token.id, token.expires_ms) for token in account.tokens),
        public_keys=account.public_keys,
        is_disabled=account.is_disabled,
        version=version,
    )


def role_page(state: GridState, after: str, limit: int) -> list[RoleView]:
    """Up to `limit` roles whose names come after this one, by name, including built-in ones."""
    roles: dict[str, AccessRole] = {**state.access.roles, **BUILT_IN}
    names = sorted(name for name in roles if name > after)[: min(limit, ACCESS_PAGE_ROWS_MAX)]
    return [
        RoleView(
            name,
            roles[name].rules,
            is_built_in=name in BUILT_IN,
            version=state.access.version,
        )
        for name in names
    ]
