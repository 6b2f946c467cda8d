"""The commands about accounts and roles, and about refused requests (version 8). The rules of
`commands` apply to these too."""

from __future__ import annotations

from rollq.base.access_rules import AccessRole, Account
from rollq.grid.stored import Stored


class PutAccount(Stored, frozen=True, tag=37):
    """Create an account, or replace it as a whole. A token without a hash keeps the stored hash of
    that id: hashes are never displayed."""

    account: Account
    # The version of the access table that the request is based on: refused if it differs. 0: any.
    version: int = 0
    # Allow a change after which no account can change accounts: admins have certificates, or
    # authentication is off.
    may_lock_out: bool = False
    by: str = ""


class RemoveAccount(Stored, frozen=True, gc=False, tag=38):
    """Delete an account with its tokens and keys."""

    name: str
    may_lock_out: bool = False
    by: str = ""


class PutRole(Stored, frozen=True, tag=39):
    """Create a role, or replace its rules."""

    role: AccessRole
    version: int = 0
    may_lock_out: bool = False
    by: str = ""


class RemoveRole(Stored, frozen=True, gc=False, tag=40):
    """Delete a role that no account has."""

    name: str
    by: str = ""


class Refusal(Stored, frozen=True, gc=False):
    """`count` requests of an account that were not permitted."""

    account: str
    action: str
    resource: str
    address: str
    count: int = 1


class NoteAct(Stored, frozen=True, gc=False, tag=42):
    """Record an operator's act that is no command: changed members, dismissed workers. Changes no
    state."""

    verb: str
    action: str
    resource: str
    by: str


class NoteRefusals(Stored, frozen=True, tag=41):
    """Record refused requests. Changes no state."""

    refusals: tuple[Refusal, ...]
