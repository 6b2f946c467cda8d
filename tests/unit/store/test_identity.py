from __future__ import annotations

import pytest

from rollq.base.errors import DiskError, ErrorCode
from rollq.testing.disk import VirtualDisk
from tests.unit.store.kit import Chance, new_wal, open_wal


def test_a_disk_belongs_to_the_first_group_that_starts_it() -> None:
    disk = VirtualDisk()
    wal = new_wal(disk)
    wal.bump_boot(1)  # by a member that did not note its group
    wal.bump_boot(2, "red")
    disk.crash(Chance(1))
    wal, _ = open_wal(disk)
    lives = wal.lives
    with pytest.raises(DiskError, match=r"belongs to group 'red'.*for group 'blue'") as caught:
        wal.bump_boot(3, "blue")
    assert (caught.value.code, wal.lives) == (ErrorCode.WRONG_IDENTITY, lives)
    assert wal.bump_boot(4, "red") == 3
