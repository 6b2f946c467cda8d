"""Whose a state directory is: of one member or of one worker, and of one process at a time.

A directory stays that of its role while nobody runs in it. A worker removes blobs that no job of
its own uses, and a member has promised to keep its blobs: in one directory, accepted jobs lose
their files.
"""

from __future__ import annotations

import enum
import fcntl
import os
from pathlib import Path
from typing import Final

from rollq.base.errors import DiskError, ErrorCode, LocalError
from rollq.store.restoring import MARK

LOCK_NAME: Final = "LOCK"
FILE_MODE: Final = 0o600
IDENTITY_NAME: Final = "identity.json"  # of a worker; there before its blobs
MEMBER_NAMES: Final = ("wal", "snapshots", "history", MARK)  # one is there before its blobs


class StateOwner(enum.Enum):
    """The two roles that have a state directory."""

    MEMBER = "member"
    WORKER = "worker"


def lock_state(root: Path, role: StateOwner) -> int:
    """Lock a directory for a process of this role; returns the descriptor that holds the lock.

    Raises:
        LocalError: BAD_SETUP if the directory is that of the other role.
        DiskError: DISK_BUSY if another process uses it.
        OSError: it cannot be locked.
    """
    _check_owner(root, role)  # nothing is made, and nobody is kept out, in the directory of others
    fd = os.open(root / LOCK_NAME, os.O_RDWR | os.O_CREAT, FILE_MODE)
    try:
        is_free = try_lock(fd)
        _check_owner(root, role)  # with the lock: nobody becomes the owner any more
        if not is_free:
            raise DiskError(
                ErrorCode.DISK_BUSY,
                f"{_process(fd)} uses the state directory {root}",
                f"stop it, or give this {role.value} a directory of its own",
            )
        os.ftruncate(fd, 0)
        os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
    except BaseException:
        os.close(fd)
        raise
    return fd


def unlock_state(fd: int) -> None:
    """Unlock a directory, and close the descriptor."""
    # A process forked a moment ago has the descriptor too, until it executes another program:
    # closing ours would not unlock.
    fcntl.flock(fd, fcntl.LOCK_UN)
    os.close(fd)


def owner_of(root: Path) -> StateOwner | None:
    """The role whose directory it is; None if no role has used it. Where earlier versions let both
    in, it is the member's, which has more to lose."""
    if any((root / name).exists() for name in MEMBER_NAMES):
        return StateOwner.MEMBER
    return StateOwner.WORKER if (root / IDENTITY_NAME).exists() else None


def holder_of(root: Path) -> str:
    """The process that uses a directory; empty if none does."""
    try:
        fd = os.open(root / LOCK_NAME, os.O_RDONLY)
    except OSError:
        return ""
    try:
        return "" if try_lock(fd, fcntl.LOCK_SH) else _process(fd)
    finally:
        os.close(fd)


def try_lock(fd: int, kind: int = fcntl.LOCK_EX) -> bool:
    """Lock an open file; false if another process has a lock that excludes this one."""
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _check_owner(root: Path, role: StateOwner) -> None:
    owner = owner_of(root)
    if owner is not None and owner is not role:
        table = "leader" if role is StateOwner.MEMBER else "worker"
        raise LocalError(
            ErrorCode.BAD_SETUP,
            f"{root} is the state directory of a {owner.value}",
            f"give this {role.value} a directory of its own: --state DIR, or `state` below "
            f"[{table}] in rollq.toml",
        )


def _process(fd: int) -> str:
    number = os.pread(fd, 32, 0).decode(errors="replace").strip()
    return f"process {number}" if number else "another process"
