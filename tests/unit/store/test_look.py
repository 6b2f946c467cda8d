"""Looking at a state directory: what is there is told, and nothing is changed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rollq.base.errors import DiskError, ErrorCode
from rollq.raft.types import Config
from rollq.store.check import NOTE, PROBLEM, Finding, check
from rollq.store.dump import dump
from rollq.store.look import LookDisk
from rollq.store.real_disk import RealDisk
from rollq.store.snapshots import Snapshots
from rollq.store.wal import Wal
from tests.unit.store.kit import IDENTITY, entry, hard

FIRST = "wal/000000000001.log"
SEGMENT_BYTES = 4_096


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A log of five entries and a closed directory."""
    disk = RealDisk(tmp_path)
    wal, _ = Wal.open(disk, None, segment_bytes=SEGMENT_BYTES)
    wal.create_identity(IDENTITY)
    for index in range(1, 6):
        wal.append(hard(1, index - 1), [entry(index)])
        wal.sync()
    wal.close()
    disk.close()
    return tmp_path


def contents(root: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(root.rglob("*")) if path.is_file()}


def flip(path: Path, offset: int) -> None:
    data = bytearray(path.read_bytes())
    data[offset] ^= 1
    path.write_bytes(data)


def problems(findings: list[Finding]) -> list[str]:
    return [finding.what for finding in findings if finding.severity == PROBLEM]


def test_a_sound_log_is_dumped_whole(root: Path) -> None:
    before = contents(root)
    records = list(dump(LookDisk(root)))
    assert all(record.is_sound for record in records)
    assert [one for record in records for one in record.entries] == [entry(n) for n in range(1, 6)]
    assert records[0].kind == "head"
    assert records[0].head is not None
    assert records[0].head.identity == IDENTITY
    findings = check(LookDisk(root))
    assert problems(findings) == []
    assert f"member {IDENTITY.member_id}" in findings[0].what
    assert contents(root) == before


def test_damage_is_shown_and_what_follows_it_too(root: Path) -> None:
    place = next(record for record in dump(LookDisk(root)) if record.entries)
    flip(root / FIRST, place.offset + 2)  # the header
    before = contents(root)
    records = list(dump(LookDisk(root)))
    (damaged,) = [record for record in records if not record.is_sound]
    assert (damaged.kind, damaged.offset, damaged.size_bytes) == (
        "damage",
        place.offset,
        place.size_bytes,
    )
    assert [one for record in records for one in record.entries] == [entry(n) for n in range(2, 6)]
    (problem,) = problems(check(LookDisk(root)))
    assert "may hold accepted jobs" in problem
    assert contents(root) == before


def test_a_damaged_body_is_told_from_a_damaged_header(root: Path) -> None:
    place = next(record for record in dump(LookDisk(root)) if record.entries)
    flip(root / FIRST, place.offset + place.size_bytes - 1)
    (damaged,) = [record for record in dump(LookDisk(root)) if not record.is_sound]
    assert (damaged.kind, damaged.entries) == ("entries", [])


def test_a_torn_tail_is_no_problem(root: Path) -> None:
    (*_, last) = dump(LookDisk(root))
    with (root / FIRST).open("r+b") as file:
        file.seek(last.offset + last.size_bytes)
        file.write(b"half a record")
    findings = check(LookDisk(root))
    assert problems(findings) == []
    (todo,) = [finding.todo for finding in findings if "torn write" in finding.what]
    assert todo == "no action is needed: the next start cuts it off and keeps a copy"


def test_a_damaged_snapshot_is_named_and_stays_where_it_is(root: Path) -> None:
    disk = RealDisk(root)
    Snapshots(disk).save(3, 1, Config(), b"state")
    disk.close()
    (path,) = (root / "snapshots").iterdir()
    assert problems(check(LookDisk(root))) == []
    flip(path, path.stat().st_size - 1)
    (problem,) = problems(check(LookDisk(root)))
    assert path.name in problem
    assert path.exists()


def test_a_log_without_a_name_and_an_empty_directory(root: Path, tmp_path: Path) -> None:
    (root / FIRST).write_bytes(b"\1" * 1_000)
    assert "does not say which member" in problems(check(LookDisk(root)))[0]
    (root / FIRST).unlink()
    (finding,) = check(LookDisk(root))
    assert finding.severity == NOTE
    disk = RealDisk(root)
    Snapshots(disk).save(3, 1, Config(), b"state")
    disk.close()
    assert "log is gone" in problems(check(LookDisk(root)))[0]


def test_a_missing_directory_is_an_error_with_a_hint(tmp_path: Path) -> None:
    with pytest.raises(DiskError) as caught:
        LookDisk(tmp_path / "none")
    assert caught.value.code is ErrorCode.DISK_FAILED
    assert caught.value.hint


def test_nothing_can_be_written(root: Path) -> None:
    disk = LookDisk(root)
    with pytest.raises(DiskError):
        disk.write(FIRST, 0, b"x")
    with pytest.raises(DiskError):
        disk.truncate(FIRST, 0)
    disk.remove(FIRST)
    assert disk.names("wal") == []
    assert disk.size(FIRST) == -1
    assert (root / FIRST).exists()


def test_whoever_holds_the_directory_is_known(root: Path) -> None:
    assert LookDisk(root).holder() == ""
    disk = RealDisk(root)
    assert LookDisk(root).holder() == f"process {os.getpid()}"
    disk.close()
    assert LookDisk(root).holder() == ""


def test_a_directory_of_other_things_is_no_state_directory(tmp_path: Path) -> None:
    LookDisk(tmp_path)
    (tmp_path / "notes.txt").touch()
    with pytest.raises(DiskError, match="no state directory"):
        LookDisk(tmp_path)
