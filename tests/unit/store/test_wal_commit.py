"""The commit index on disk: never worth a write of its own, yet not forgotten."""

from __future__ import annotations

from rollq.testing.disk import VirtualDisk
from tests.unit.store.kit import entry, hard, new_wal, open_wal


def committed_on(disk: VirtualDisk) -> int:
    """What somebody would read who took the disk away now."""
    copy = VirtualDisk()
    copy.restore(disk.snapshot())
    return open_wal(copy)[1].hard_state.commit


def test_a_commit_that_moves_alone_is_carried_by_the_next_record() -> None:
    disk = VirtualDisk()
    wal = new_wal(disk)
    wal.append(hard(1), [entry(1), entry(2)])
    wal.sync()
    writes = disk.op_count
    wal.carry(2)
    assert disk.op_count == writes
    assert committed_on(disk) == 0
    wal.append(None, [entry(3)])
    wal.sync()
    assert committed_on(disk) == 2


def test_an_idle_log_notes_the_commit_once() -> None:
    disk = VirtualDisk()
    wal = new_wal(disk)
    wal.append(hard(1), [entry(1)])
    wal.mark()
    wal.carry(1)
    wal.mark()
    assert committed_on(disk) == 1
    writes = disk.op_count
    wal.mark()
    assert disk.op_count == writes
