"""The virtual disk forgets, tears, rots, fills and fails as it is told, and not otherwise."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rollq.base.errors import DiskError, ErrorCode
from rollq.testing.disk import SECTOR_BYTES, VirtualDisk
from rollq.testing.faults import SimulatedCrash
from tests.unit.store.kit import Chance

SEEDS = range(60)


def _crashed(seed: int, synced: bool, dir_synced: bool) -> bytes | None:
    disk = VirtualDisk()
    disk.write("a/x", 0, b"1" * 2000)
    if synced:
        disk.sync("a/x")
    if dir_synced:
        disk.sync_dir("a")
    disk.crash(Chance(seed))
    return disk.read("a/x", 0, 9999) if disk.size("a/x") >= 0 else None


def test_what_is_synced_survives_every_crash() -> None:
    for seed in SEEDS:
        assert _crashed(seed, True, True) == b"1" * 2000


def test_a_name_that_is_not_synced_may_vanish_or_stay() -> None:
    assert {_crashed(seed, True, False) for seed in SEEDS} == {None, b"1" * 2000}


def test_unsynced_sectors_survive_in_any_mixture() -> None:
    found = {_crashed(seed, False, True) for seed in SEEDS}
    assert {b"", b"1" * 2000} < found
    assert len(found) > 10
    for content in found:
        assert content is not None
        sectors = [content[at : at + SECTOR_BYTES] for at in range(0, 2000, SECTOR_BYTES)]
        assert all(set(sector) in (set(), {0}, {ord("1")}) for sector in sectors)


def test_an_overwritten_sector_is_old_or_new() -> None:
    found = set()
    for seed in SEEDS:
        disk = VirtualDisk()
        disk.write("a/x", 0, b"old")
        disk.sync("a/x")
        disk.sync_dir("a")
        disk.write("a/x", 0, b"new")
        disk.truncate("a/x", 2)
        disk.crash(Chance(seed))
        found.add(disk.read("a/x", 0, 9))
    assert found == {b"old", b"ne", b"ol", b"ned"}


def test_renames_and_removals_are_old_or_new_until_the_folder_is_synced() -> None:
    found = set()
    for seed in SEEDS:
        disk = VirtualDisk()
        for name in ("a/x", "a/y", "a/z"):
            disk.write(name, 0, name.encode())
            disk.sync(name)
        disk.sync_dir("a")
        disk.rename("a/x", "b/x")
        disk.sync_dir("a")  # half of it: the other folder does not know yet
        disk.rename("a/y", "a/z")
        disk.remove("a/z")
        disk.crash(Chance(seed))
        found.add((tuple(disk.names("a")), tuple(disk.names("b"))))
    assert (("x", "y", "z"), ()) in found
    assert ((), ("x",)) in found
    assert (("x", "z"), ()) in found
    assert all(len(a) + len(b) >= 1 for a, b in found)


def test_the_same_seed_gives_the_same_bytes() -> None:
    assert [_crashed(seed, False, False) for seed in SEEDS] == [
        _crashed(seed, False, False) for seed in SEEDS
    ]


def test_a_kill_keeps_the_page_cache_but_does_not_make_it_durable() -> None:
    disk = VirtualDisk()
    disk.write("a/x", 0, b"1")
    disk.kill()
    assert disk.read("a/x", 0, 1) == b"1"
    assert disk.snapshot().files == {}


def test_a_failed_sync_loses_the_pages_even_if_the_next_one_succeeds() -> None:
    disk = VirtualDisk()
    disk.write("a/x", 0, b"1")
    disk.sync_dir("a")
    disk.fail_next_sync = True
    with pytest.raises(DiskError):
        disk.sync("a/x")
    disk.sync("a/x")
    assert disk.read("a/x", 0, 1) == b"1"
    disk.crash(Chance(1))
    assert disk.read("a/x", 0, 1) == b"\0"


def test_a_full_disk_refuses_growth_and_takes_overwrites() -> None:
    disk = VirtualDisk()
    disk.bytes_max = 10
    disk.write("a/x", 0, b"1" * 10)
    grows: tuple[Callable[[], None], ...] = (
        lambda: disk.write("a/x", 5, b"1" * 6),
        lambda: disk.truncate("a/y", 1),
        lambda: disk.write("a/y", 0, b"1"),
    )
    for grow in grows:
        with pytest.raises(DiskError) as caught:
            grow()
        assert caught.value.code is ErrorCode.DISK_FULL
    assert disk.size("a/y") == -1
    disk.write("a/x", 0, b"2" * 10)
    disk.truncate("a/x", 4)
    disk.write("a/y", 0, b"1" * 6)
    disk.rename("a/y", "a/x")
    assert disk.used_bytes == 6
    disk.remove("a/x")
    assert disk.used_bytes == 0


def test_a_crash_at_an_operation_kills_everything_after_it() -> None:
    disk = VirtualDisk()
    disk.crash_at(2)
    disk.write("a/x", 0, b"1")
    for _ in range(2):
        with pytest.raises(SimulatedCrash):
            disk.sync("a/x")
    with pytest.raises(SimulatedCrash):
        disk.read("a/x", 0, 1)
    disk.crash(Chance(1))
    disk.names("a")


def test_an_old_disk_can_be_put_back() -> None:
    disk = VirtualDisk()
    disk.write("a/x", 0, b"1")
    disk.sync("a/x")
    disk.sync_dir("a")
    image = disk.snapshot()
    disk.write("a/x", 0, b"2")
    disk.write("a/y", 0, b"2")
    disk.restore(image)
    assert (disk.names("a"), disk.read("a/x", 0, 9), disk.used_bytes) == (["x"], b"1", 1)
    disk.rot("a/x", 0, 1)
    assert disk.read("a/x", 0, 9) == b"3"
    assert image.files == {"a/x": b"1"}
