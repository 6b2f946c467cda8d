"""The commands about accounts and roles, and about those who were refused (version 8). What counts
for all commands (`commands`) counts for these.
"""

from __future__ import annotations

from rollq.base.access_rules import AccessRole, Account
from rollq.grid.stored import Stored


class PutAccount(Stored, frozen=True, tag=37):
    """Make an account, or replace it as a whole. A token without a hash is the one of that id that
    the account has already: hashes are shown to nobody."""

    account: Account
    # Of the access table that whoever asks has seen: refused if it has changed since. 0: whatever
    # it is.
    version: int = 0
    # Nobody may be left who can change accounts: admins come by certificates, or nobody is asked
    # who they are.
    may_lock_out: bool = False
    by: str = ""


class RemoveAccount(Stored, frozen=True, gc=False, tag=38):
    """Forget an account with its tokens and keys."""

    name: str
    may_lock_out: bool = False
    by: str = ""


class PutRole(Stored, frozen=True, tag=39):
    """Make a role, or replace its rules."""

    role: AccessRole
    version: int = 0
    may_lock_out: bool = False
    by: str = ""


class RemoveRole(Stored, frozen=True, gc=False, tag=40):
    """Forget a role that no account has."""

    name: str
    by: str = ""


class Refusal(Stored, frozen=True, gc=False):
    """Somebody asked, `count` times, for what they may not do."""

    account: str
    action: str
    resource: str
    address: str
    count: int = 1


class NoteAct(Stored, frozen=True, gc=False, tag=42):
    """Put into the history what an operator had done that is no command: members that change,
    workers that are told to end. Changes no state."""

    verb: str
    action: str
    resource: str
    by: str


class NoteRefusals(Stored, frozen=True, tag=41):
    """Put into the history who was refused what. Changes no state."""

    refusals: tuple[Refusal, ...]
