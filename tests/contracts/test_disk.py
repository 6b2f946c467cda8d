"""What every Disk must do, virtual or real: `check_disk` is run on each of them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path

import pytest

from rollq.base.errors import DiskError, ErrorCode
from rollq.store.disk import Disk
from rollq.store.real_disk import RealDisk
from rollq.testing.disk import VirtualDisk


def check_disk(make_disk: Callable[[], Disk]) -> None:
    """Run the whole suite, each check on a fresh empty disk."""
    for check in CHECKS:
        check(make_disk())


def _empty(disk: Disk) -> None:
    assert disk.names("wal") == []
    assert disk.size("wal/a") == -1
    disk.remove("wal/a")
    disk.sync_dir("wal")
    for call in (
        lambda: disk.read("wal/a", 0, 1),
        lambda: disk.sync("wal/a"),
        lambda: disk.rename("wal/a", "wal/b"),
    ):
        with pytest.raises(DiskError) as caught:
            call()
        assert caught.value.code is ErrorCode.DISK_FAILED


def _write_and_read(disk: Disk) -> None:
    disk.write("wal/a", 0, b"hello")
    assert disk.size("wal/a") == 5
    assert disk.read("wal/a", 1, 3) == b"ell"
    assert disk.read("wal/a", 3, 100) == b"lo"
    assert disk.read("wal/a", 5, 1) == b""
    assert disk.read("wal/a", 99, 1) == b""
    disk.write("wal/a", 2, b"LL")
    assert disk.read("wal/a", 0, 9) == b"heLLo"
    disk.write("wal/a", 4, b"O world")
    assert disk.read("wal/a", 0, 99) == b"heLLO world"
    disk.write("wal/a", 6, b"", b"W", b"", b"ide", b"!")
    assert disk.read("wal/a", 0, 99) == b"heLLO Wide!"
    disk.sync("wal/a")
    assert disk.read("wal/a", 0, 99) == b"heLLO Wide!"


def _gaps_are_zeros(disk: Disk) -> None:
    disk.write("wal/a", 3, b"x")
    assert disk.read("wal/a", 0, 9) == b"\0\0\0x"
    disk.write("wal/a", 6, b"y")
    assert disk.read("wal/a", 0, 9) == b"\0\0\0x\0\0y"
    disk.write("wal/empty", 0, b"")
    assert disk.size("wal/empty") == 0


def _truncate(disk: Disk) -> None:
    disk.write("wal/a", 0, b"hello")
    disk.truncate("wal/a", 2)
    assert disk.read("wal/a", 0, 9) == b"he"
    disk.truncate("wal/a", 4)
    assert disk.read("wal/a", 0, 9) == b"he\0\0"
    disk.truncate("wal/new", 3)
    assert disk.read("wal/new", 0, 9) == bytes(3)


def _names_are_sorted_and_by_folder(disk: Disk) -> None:
    for name in ("wal/b", "wal/a", "walrus/c", "history/d"):
        disk.write(name, 0, b"x")
    assert disk.names("wal") == ["a", "b"]
    assert disk.names("walrus") == ["c"]
    assert disk.names("history") == ["d"]
    disk.remove("wal/a")
    assert disk.names("wal") == ["b"]
    disk.sync_dir("wal")
    assert disk.names("wal") == ["b"]


def _rename_replaces(disk: Disk) -> None:
    disk.write("wal/a", 0, b"new")
    disk.write("wal/b", 0, b"older")
    disk.rename("wal/a", "wal/b")
    assert (disk.names("wal"), disk.read("wal/b", 0, 9)) == (["b"], b"new")
    disk.rename("wal/b", "broken/b")  # a folder that was not there before
    assert (disk.names("wal"), disk.read("broken/b", 0, 9)) == ([], b"new")
    disk.sync_dir("broken")
    disk.sync_dir("wal")
    disk.write("broken/b", 3, b"er")
    disk.rename("broken/b", "broken/b")
    assert disk.read("broken/b", 0, 9) == b"newer"


CHECKS: tuple[Callable[[Disk], None], ...] = (
    _empty,
    _write_and_read,
    _gaps_are_zeros,
    _truncate,
    _names_are_sorted_and_by_folder,
    _rename_replaces,
)


def test_the_virtual_disk_keeps_the_contract() -> None:
    check_disk(VirtualDisk)


@pytest.mark.parametrize("unsafe_no_fsync", [False, True])
def test_the_real_disk_keeps_the_contract(tmp_path: Path, unsafe_no_fsync: bool) -> None:
    numbers = count()
    check_disk(
        lambda: RealDisk(tmp_path / str(next(numbers)), unsafe_no_fsync=unsafe_no_fsync),
    )
