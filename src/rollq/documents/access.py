"""Accounts and roles."""

from __future__ import annotations

from typing import Any

from rollq.grid.access import AccountView, RoleView


def account_document(view: AccountView) -> dict[str, Any]:
    """An account, without its secrets."""
    return {
        "name": view.name,
        "disabled": view.is_disabled,
        "roles": list(view.roles),
        "rules": [f"{rule.effect} {rule.action} {rule.resource}" for rule in view.rules],
        "tokens": [{"id": token.id, "expires_ms": token.expires_ms} for token in view.tokens],
        "keys": [key.hex() for key in view.public_keys],
    }


def role_document(view: RoleView) -> dict[str, Any]:
    """A role."""
    return {
        "name": view.name,
        "built_in": view.is_built_in,
        "rules": [f"{rule.effect} {rule.action} {rule.resource}" for rule in view.rules],
    }
