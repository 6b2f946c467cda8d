"""The file of a backup: whatever is changed in it or cut from it is found."""

from __future__ import annotations

import contextlib
import os
import stat
from pathlib import Path

import pytest

from rollq.base.errors import DiskError, ErrorCode, LocalError, RollqError
from rollq.store.backup_file import (
    BLOB,
    HISTORY,
    SNAPSHOT,
    BackupFile,
    BackupPart,
    BackupWriter,
    Manifest,
)

MANIFEST = Manifest("1.0", "g", "c1", "a:1", 5, 7, 2, "00", 0, 1, 7)
PARTS = {(SNAPSHOT, ""): b"state" * 3, (HISTORY, "lines:1-7"): b"", (BLOB, "ab"): bytes(40)}


def write(path: Path) -> Path:
    with BackupWriter(path) as writer:
        for (kind, name), data in PARTS.items():
            with writer.part(kind, name) as put:
                put(data[:3])
                put(data[3:])
        writer.finish(MANIFEST)
        writer.publish()
    return path


def check(path: Path) -> BackupFile:
    with BackupFile(path) as file:
        file.verify()
    return file


def test_what_is_written_is_read(tmp_path: Path) -> None:
    path = write(tmp_path / "b")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["b"]
    told: list[tuple[int, int | None]] = []
    with BackupFile(path) as file:
        file.verify(lambda done, total: told.append((done, total)))
        assert file.manifest.group == "g"
        read = {(p.kind, p.name): b"".join(file.pieces(p)) for p in file.manifest.parts}
        assert read == PARTS
        (blob,) = file.parts(BLOB)
        assert file.read(blob, 38, 10) == bytes(2)
    assert told[-1][0] == told[-1][1]


def test_a_changed_byte_is_found_wherever_it_is(tmp_path: Path) -> None:
    path = write(tmp_path / "b")
    whole = path.read_bytes()
    for at in range(len(whole)):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(DiskError) as caught:
            check(path)
        # A version that is not known may be one of a newer rollq.
        expected = ErrorCode.DISK_VERSION if at in (8, 9) else ErrorCode.BACKUP_CORRUPT
        assert caught.value.code is expected, at
        assert "  " not in caught.value.message  # of a part without a name


def test_a_file_that_was_cut_or_grew_is_refused(tmp_path: Path) -> None:
    path = write(tmp_path / "b")
    whole = path.read_bytes()
    for data in [*(whole[:end] for end in range(len(whole))), whole + b"\0", b"\0" + whole]:
        path.write_bytes(data)
        with pytest.raises(DiskError) as caught:
            check(path)
        assert caught.value.code is ErrorCode.BACKUP_CORRUPT


def test_the_damaged_part_is_named(tmp_path: Path) -> None:
    path = write(tmp_path / "b")
    whole = path.read_bytes()
    at = whole.index(bytes(40)) + 20
    path.write_bytes(whole[:at] + b"x" + whole[at + 1 :])
    with pytest.raises(DiskError, match="blob ab"):
        check(path)


def test_parts_that_are_not_as_long_as_said_are_refused(tmp_path: Path) -> None:
    part = BackupPart(BLOB, "ab", 1 << 40, "")
    with BackupWriter(tmp_path / "b") as writer:
        writer._parts.append(part)
        writer.finish(MANIFEST)
        with pytest.raises(DiskError, match="size"):
            BackupFile(writer.partial)


def test_a_part_that_fails_is_as_if_it_had_not_begun(tmp_path: Path) -> None:
    path = tmp_path / "b"
    with BackupWriter(path) as writer:
        with contextlib.suppress(ValueError), writer.part(SNAPSHOT, "") as put:
            put(b"half of it")
            raise ValueError
        with writer.part(SNAPSHOT, "") as put:
            put(b"all")
        writer.finish(MANIFEST)
        writer.publish()
    with BackupFile(path) as file:
        file.verify()
        (part,) = file.manifest.parts
        assert b"".join(file.pieces(part)) == b"all"


def test_nothing_is_left_of_what_was_not_published(tmp_path: Path) -> None:
    with contextlib.suppress(ValueError), BackupWriter(tmp_path / "b") as writer:
        writer.finish(MANIFEST)
        raise ValueError
    assert os.listdir(tmp_path) == []


def test_nothing_is_overwritten(tmp_path: Path) -> None:
    path = tmp_path / "b"
    with BackupWriter(path) as writer:
        writer.finish(MANIFEST)
        path.write_text("mine")
        with pytest.raises(LocalError):
            writer.publish()
    with pytest.raises(LocalError):
        BackupWriter(path)
    assert path.read_text() == "mine"


def test_what_a_killed_process_left_is_written_over(tmp_path: Path) -> None:
    (tmp_path / "b.partial").write_bytes(bytes(100_000))
    check(write(tmp_path / "b"))


def test_one_writes_a_file_at_a_time(tmp_path: Path) -> None:
    with BackupWriter(tmp_path / "b") as writer:
        with pytest.raises(DiskError) as caught:
            BackupWriter(tmp_path / "b")
        assert caught.value.code is ErrorCode.DISK_BUSY
        writer.finish(MANIFEST)
        writer.publish()
    check(tmp_path / "b")


@pytest.mark.parametrize("name", ["none/b", "."], ids=["no-folder", "a-folder"])
def test_where_no_file_can_be_is_told(tmp_path: Path, name: str) -> None:
    with pytest.raises(RollqError):
        BackupWriter(tmp_path / name)
    with pytest.raises((DiskError, OSError)):
        BackupFile(tmp_path / name)
