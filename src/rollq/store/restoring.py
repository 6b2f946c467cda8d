"""A state directory that is being made from a backup: nobody may start on half of one."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from rollq.base.errors import DiskError, ErrorCode

MARK: Final = "RESTORING"  # a file that is there until all of the rest is


def check_restored(root: Path) -> None:
    """Raises DiskError DISK_CORRUPT if a restore was begun here and did not come to its end."""
    if (root / MARK).exists():
        raise DiskError(
            ErrorCode.DISK_CORRUPT,
            f"{root} holds only a part of a group: `rollq restore` did not come to its end",
            "remove the directory and restore again",
        )
