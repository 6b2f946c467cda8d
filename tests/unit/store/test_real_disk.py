"""What only a real disk does: its lock, its rights, its descriptors, and errors in words."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from rollq.base.errors import DiskError, ErrorCode
from rollq.base.limits import OPEN_FILES_MAX
from rollq.store.real_disk import RealDisk
from rollq.store.state_lock import LOCK_NAME


def failure(code: int) -> Callable[..., int]:
    """A system call that fails like this."""

    def call(*_arguments: object) -> int:
        raise OSError(code, os.strerror(code))

    return call


def descriptors() -> int:
    """How many files this process has open."""
    return len(os.listdir("/proc/self/fd"))


def lock_descriptors(directory: Path) -> list[int]:
    """Those of this process that hold, or would hold, the lock of this directory."""
    lock = os.stat(directory / LOCK_NAME)
    return [
        int(name)
        for name in os.listdir("/proc/self/fd")
        if os.path.exists(f"/proc/self/fd/{name}")
        and os.path.samestat(os.stat(f"/proc/self/fd/{name}"), lock)
    ]


def test_a_second_member_is_told_who_holds_the_directory(tmp_path: Path) -> None:
    first = RealDisk(tmp_path / "state")
    with pytest.raises(DiskError) as caught:
        RealDisk(tmp_path / "state")
    assert caught.value.code is ErrorCode.DISK_BUSY
    assert f"process {os.getpid()} uses" in caught.value.message
    first.close()
    first.close()
    RealDisk(tmp_path / "state").close()


def test_a_process_that_is_being_started_does_not_keep_the_lock(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    held = [os.dup(fd) for fd in lock_descriptors(tmp_path)]  # as in a child between fork and exec
    assert len(held) == 1
    disk.close()
    RealDisk(tmp_path).close()
    os.close(held[0])


def test_a_child_that_closes_does_not_unlock(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    if (child := os.fork()) == 0:
        disk.forked()
        disk.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0
    with pytest.raises(DiskError) as caught:
        RealDisk(tmp_path)
    assert caught.value.code is ErrorCode.DISK_BUSY
    disk.close()


def test_a_refused_lock_leaves_nothing_open(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    before = descriptors()
    with pytest.raises(DiskError):
        RealDisk(tmp_path)
    assert descriptors() == before
    disk.close()
    assert descriptors() == before - 1


def test_only_the_owner_may_look(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path / "deep" / "state")
    disk.write("wal/a", 0, b"x")
    root = tmp_path / "deep" / "state"
    assert stat.S_IMODE(root.stat().st_mode) == 0o700
    assert stat.S_IMODE((root / "wal").stat().st_mode) == 0o700
    assert stat.S_IMODE((root / "wal" / "a").stat().st_mode) == 0o600
    assert stat.S_IMODE((root / LOCK_NAME).stat().st_mode) == 0o600
    disk.close()


@pytest.mark.parametrize(
    ("number", "code", "hint"),
    [
        (errno.ENOSPC, ErrorCode.DISK_FULL, "make room"),
        (errno.EDQUOT, ErrorCode.DISK_FULL, "make room"),
        (errno.EFBIG, ErrorCode.DISK_FULL, "make room"),
        (errno.EIO, ErrorCode.DISK_FAILED, "check the disk"),
        (errno.EROFS, ErrorCode.DISK_FAILED, "the right to write"),
        (errno.EACCES, ErrorCode.DISK_FAILED, "the right to write"),
    ],
)
def test_errors_keep_their_meaning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, code: ErrorCode, hint: str
) -> None:
    disk = RealDisk(tmp_path)
    disk.write("wal/a", 0, b"x")
    calls: list[tuple[str, Callable[[], object]]] = [
        ("pwritev", lambda: disk.write("wal/a", 0, b"y")),
        ("pread", lambda: disk.read("wal/a", 0, 1)),
        ("fdatasync", lambda: disk.sync("wal/a")),
        ("ftruncate", lambda: disk.truncate("wal/a", 9)),
        ("replace", lambda: disk.rename("wal/a", "wal/b")),
        ("unlink", lambda: disk.remove("wal/b")),
        ("fsync", lambda: disk.sync_dir("wal")),
        ("scandir", lambda: disk.names("wal")),
        ("stat", lambda: disk.size("wal/a")),
    ]
    for name, call in calls:
        with monkeypatch.context() as patch:
            patch.setattr(os, name, failure(number))
            with pytest.raises(DiskError) as caught:
                call()
        assert caught.value.code is code, name
        assert hint in caught.value.hint
        assert os.strerror(number) in caught.value.message
    disk.close()


def test_writes_and_reads_go_on_after_a_short_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = RealDisk(tmp_path)
    pwrite, pread = os.pwrite, os.pread
    monkeypatch.setattr(os, "pwritev", lambda fd, pieces, at: pwrite(fd, pieces[0][:3], at))
    monkeypatch.setattr(os, "pwrite", lambda fd, data, at: pwrite(fd, data[:3], at))
    monkeypatch.setattr(os, "pread", lambda fd, length, at: pread(fd, min(length, 2), at))
    disk.write("wal/a", 0, b"0123456789")
    assert disk.read("wal/a", 1, 8) == b"12345678"
    assert disk.read("wal/a", 7, 99) == b"789"
    disk.close()


def test_open_files_are_bounded_but_unsynced_ones_stay(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    before = descriptors()
    for number in range(3 * OPEN_FILES_MAX):
        disk.write(f"wal/{number}", 0, b"x")
        if number:
            disk.sync(f"wal/{number}")
    assert descriptors() == before + OPEN_FILES_MAX
    held = {os.readlink(f"/proc/self/fd/{fd}") for fd in disk.open_fds()}
    assert str(tmp_path / "wal" / "0") in held
    disk.close()
    assert descriptors() == before - 1


def test_a_removed_file_is_closed_and_its_name_is_free(tmp_path: Path) -> None:
    disk = RealDisk(tmp_path)
    before = descriptors()
    disk.write("wal/a", 0, b"old")
    disk.remove("wal/a")
    assert descriptors() == before
    disk.write("wal/a", 0, b"x")
    assert disk.read("wal/a", 0, 9) == b"x"
    disk.write("wal/b", 0, b"b")
    disk.rename("wal/b", "wal/a")
    assert disk.read("wal/a", 0, 9) == b"b"
    assert descriptors() == before + 1
    disk.close()


def test_syncs_are_left_out_only_when_asked_for_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    calls: list[str] = []
    monkeypatch.setattr(os, "fdatasync", lambda _fd: calls.append("file"))
    monkeypatch.setattr(os, "fsync", lambda _fd: calls.append("folder"))
    for disk in (RealDisk(tmp_path / "a"), RealDisk(tmp_path / "b", unsafe_no_fsync=True)):
        calls.clear()
        disk.write("wal/a", 0, b"x")
        disk.sync("wal/a")
        disk.sync_dir("wal")
        disk.sync_dir("wal")
        disk.close()
        expected = ["file", "folder", "folder", "folder"]  # the first time the root too
        assert calls == (expected if disk._syncs else [])


def test_a_new_folder_is_durable_in_the_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = RealDisk(tmp_path)
    synced: list[str] = []
    monkeypatch.setattr(os, "fsync", lambda fd: synced.append(os.readlink(f"/proc/self/fd/{fd}")))
    disk.write("wal/a", 0, b"x")
    disk.sync_dir("wal")
    assert synced == [str(tmp_path / "wal"), str(tmp_path)]
    disk.close()


def test_a_directory_without_rights_is_refused(tmp_path: Path) -> None:
    """In a child, which gives up the rights of root if it has them."""
    tmp_path.chmod(0o500)
    (tmp_path / "state").mkdir(mode=0o755)
    reader, writer = os.pipe()
    child = os.fork()
    if not child:
        try:
            if os.geteuid() == 0:
                os.setresuid(65_534, 65_534, 65_534)
            else:
                (tmp_path / "state").chmod(0o500)
            RealDisk(tmp_path / "state")
        except BaseException as error:
            os.write(writer, f"{type(error).__name__} {error}".encode())
        os._exit(0)
    os.close(writer)
    os.waitpid(child, 0)
    told = os.read(reader, 4_096).decode()
    os.close(reader)
    assert told.startswith("DiskError disk_failed (401): cannot open the state directory")
    assert "Permission denied; give the user that runs rollq the right to write there" in told
