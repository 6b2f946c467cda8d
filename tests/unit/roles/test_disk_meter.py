"""What a state directory takes, by part, and what is free where it stands."""

from __future__ import annotations

import asyncio
import shutil
from pathlib import Path

from rollq.roles.member.disk_meter import DiskMeter, measure
from rollq.roles.member.reports import Reports
from tests.unit.roles.members import Clock


def fill(state: Path) -> None:
    """A file or two in every folder, each of a size of its own."""
    sizes = {
        "wal/1.log": 1,
        "wal/2.spare": 2,
        "mark/synced": 4,
        "snapshots/1.snap": 8,
        "bodies/1.log": 16,
        "history/1-2.runs": 32,
        "columns/1-2.arrow": 64,
        "blobs/ab/abcd": 128,
        "exports/t/part": 256,
        "LOCK": 512,
    }
    for name, size in sizes.items():
        path = state / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * size)


def test_files_are_added_up_by_part_and_blobs_are_not_looked_at(tmp_path: Path) -> None:
    fill(tmp_path)
    (tmp_path / "broken").symlink_to(tmp_path / "wal")  # nothing is counted twice
    found = measure(tmp_path, lambda: 5_000)
    link_bytes = (tmp_path / "broken").lstat().st_size
    assert (found.log_bytes, found.snapshot_bytes, found.history_bytes) == (7, 24, 96)
    assert (found.blob_bytes, found.other_bytes) == (5_000, 768 + link_bytes)
    assert found.total_bytes == shutil.disk_usage(tmp_path).total
    assert 0 < found.free_bytes < found.total_bytes


def test_the_first_figures_are_there_when_it_has_started(tmp_path: Path) -> None:
    fill(tmp_path)
    reports = Reports(Clock())

    async def run() -> None:
        meter = DiskMeter(tmp_path, lambda: 0, reports)
        await meter.start()
        assert reports.disk is not None
        assert reports.disk.log_bytes == 7
        await meter.stop()
        await meter.stop()

    asyncio.run(run())


def test_a_directory_that_cannot_be_read_is_unknown(tmp_path: Path) -> None:
    reports = Reports(Clock())

    async def run() -> None:
        meter = DiskMeter(tmp_path, lambda: 0, reports)
        await meter.start()
        await meter.stop()
        assert reports.disk is not None
        gone = DiskMeter(tmp_path / "gone", lambda: 0, reports)
        await gone.start()
        await gone.stop()

    asyncio.run(run())
    assert reports.disk is None
