"""Detects the use of a client in a forked child. Its thread and event loop exist only in the
parent, so a call would wait forever; it raises instead."""

from __future__ import annotations

import os

from rollq.base.errors import ErrorCode, LocalError


class OwnerProcess:
    """The process in which a client was started."""

    __slots__ = ("_pid",)

    def __init__(self) -> None:
        self._pid = os.getpid()

    @property
    def is_fork(self) -> bool:
        """Whether this process is a fork of it."""
        return os.getpid() != self._pid

    def check(self) -> None:
        """Raises LocalError BAD_SETUP in a forked child."""
        if os.getpid() != self._pid:
            raise LocalError(
                ErrorCode.BAD_SETUP,
                f"this client belongs to process {self._pid}, of which {os.getpid()} is a fork",
                "make a client of its own in the child, after the fork",
            )
