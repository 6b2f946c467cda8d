"""A state directory that is being restored from a backup: no member may start on a partial one."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from rollq.base.errors import DiskError, ErrorCode

MARK: Final = "RESTORING"  # a marker file that exists until the restore is complete


def check_restored(root: Path) -> None:
    """Raises DiskError DISK_CORRUPT after an incomplete restore."""
    if (root / MARK).exists():
        raise DiskError(
            ErrorCode.DISK_CORRUPT,
            f"{root} holds only a part of a group: `rollq restore` did not come to its end",
            "remove the directory and restore again",
        )
