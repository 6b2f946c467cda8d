"""What a member takes of its disk, and what is free there. Pure: the process measures it."""

from __future__ import annotations

import msgspec

from rollq.base.limits import MEMBER_FREE_BYTES_MIN, MEMBER_FREE_PERCENT_MIN


class DiskUse(msgspec.Struct, array_like=True, frozen=True, gc=False):
    """The state directory of a member, and the file system that it is on. On the wire: fields may
    be appended."""

    log_bytes: int
    snapshot_bytes: int  # with the bodies that they refer to
    history_bytes: int  # with its copies
    blob_bytes: int  # 0 with a shared store
    other_bytes: int
    free_bytes: int
    total_bytes: int

    @property
    def used_bytes(self) -> int:
        """All that the member takes."""
        stored = self.log_bytes + self.snapshot_bytes + self.history_bytes
        return stored + self.blob_bytes + self.other_bytes


def is_low(free_bytes: int, total_bytes: int) -> bool:
    """Whether a member has so little left that an operator must act."""
    share = total_bytes * MEMBER_FREE_PERCENT_MIN // 100
    return free_bytes < min(MEMBER_FREE_BYTES_MIN, share)
