"""A state directory belongs to one role, whoever of the two runs, and to one process at a time."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

import pytest

from rollq.base.errors import DiskError, ErrorCode, LocalError
from rollq.roles.worker.results import ResultTable
from rollq.store.look import LookDisk
from rollq.store.real_disk import RealDisk
from rollq.store.state_lock import (
    LOCK_NAME,
    StateOwner,
    holder_of,
    lock_state,
    owner_of,
    unlock_state,
)
from rollq.store.wal import Wal
from tests.unit.store.kit import IDENTITY

SMALL = 4_096


def member(root: Path) -> RealDisk:
    """A disk with a log, as a member has it when it has started."""
    disk = RealDisk(root)
    wal, _ = Wal.open(disk, None, segment_bytes=SMALL)
    if wal.identity is None:
        wal.create_identity(IDENTITY)
    wal.close()
    return disk


def worker(root: Path) -> ResultTable:
    table = ResultTable(root, SMALL)
    table.open()
    return table


def refused(start: StateOwner, root: Path) -> str:
    """What the second is told; nothing in the directory is changed by it."""
    before = sorted(root.rglob("*"))
    with pytest.raises(LocalError) as caught:
        (member if start is StateOwner.MEMBER else worker)(root)
    assert caught.value.code is ErrorCode.BAD_SETUP
    assert sorted(root.rglob("*")) == before
    return str(caught.value)


@pytest.mark.parametrize("is_running", [True, False])
def test_a_worker_is_refused_the_directory_of_a_member(tmp_path: Path, is_running: bool) -> None:
    disk = member(tmp_path)
    if not is_running:
        disk.close()
    text = refused(StateOwner.WORKER, tmp_path)
    assert f"{tmp_path} is the state directory of a member" in text
    assert "give this worker a directory of its own: --state DIR" in text
    assert "[worker]" in text
    disk.close()
    member(tmp_path).close()


@pytest.mark.parametrize("is_running", [True, False])
def test_a_member_is_refused_the_directory_of_a_worker(tmp_path: Path, is_running: bool) -> None:
    table = worker(tmp_path)
    if not is_running:
        table.close()
    text = refused(StateOwner.MEMBER, tmp_path)
    assert f"{tmp_path} is the state directory of a worker" in text
    assert "give this member a directory of its own: --state DIR" in text
    assert "[leader]" in text
    table.close()
    worker(tmp_path).close()


@pytest.mark.parametrize("role", StateOwner)
def test_who_begins_in_a_directory_keeps_others_out(tmp_path: Path, role: StateOwner) -> None:
    """Both start for the first time, and no file says yet whose it is."""
    lock = lock_state(tmp_path, role)
    for start in (RealDisk, worker):
        with pytest.raises(DiskError, match=f"process {os.getpid()} uses") as caught:
            start(tmp_path)
        assert caught.value.code is ErrorCode.DISK_BUSY
    assert holder_of(tmp_path) == f"process {os.getpid()}"
    unlock_state(lock)
    assert holder_of(tmp_path) == ""
    worker(tmp_path).close()


def test_a_directory_that_both_used_is_the_member_s(tmp_path: Path) -> None:
    """Earlier versions let both in: the member goes on, the worker does not."""
    member(tmp_path / "one").close()
    worker(tmp_path / "two").close()
    (tmp_path / "two" / "identity.json").rename(tmp_path / "one" / "identity.json")
    assert owner_of(tmp_path / "one") is StateOwner.MEMBER
    refused(StateOwner.WORKER, tmp_path / "one")
    member(tmp_path / "one").close()


def test_directories_of_earlier_workers_go_on(tmp_path: Path) -> None:
    """They had a lock of another name, which a worker that still drains may hold."""
    worker(tmp_path).close()
    (tmp_path / LOCK_NAME).unlink()
    old = os.open(tmp_path / "lock", os.O_RDWR)
    fcntl.flock(old, fcntl.LOCK_EX)
    with pytest.raises(DiskError, match="another worker uses the state directory"):
        worker(tmp_path)
    os.close(old)
    worker(tmp_path).close()


def test_the_directory_of_a_worker_is_not_read_as_that_of_a_member(tmp_path: Path) -> None:
    worker(tmp_path).close()
    with pytest.raises(DiskError, match="no state directory of a member"):
        LookDisk(tmp_path)
