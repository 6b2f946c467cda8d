"""What goes to the disk while more comes."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from rollq.base.limits import SYNC_BYTES, WRITEBACK_BEHIND_BYTES, WRITEBACK_BYTES
from rollq.store import writeback
from rollq.store.blobs.partial import Staging
from rollq.store.writeback import WAIT_AFTER, WAIT_BEFORE, WRITE, write_out

STEP = 1024 * 1024
BEHIND = WRITEBACK_BEHIND_BYTES // STEP


@pytest.mark.skipif(writeback._sync_file_range is None, reason="only Linux has the call")
def test_the_writer_waits_for_what_came_some_time_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[tuple[int, int, int, int]] = []

    def call(fd: int, offset: int, length: int, flags: int) -> int:
        calls.append((fd, offset, length, flags))
        return 0

    monkeypatch.setattr(writeback, "_sync_file_range", call)
    for number in range(BEHIND + 2):
        write_out(7, number * STEP, (number + 1) * STEP)
    begun = [(7, number * STEP, STEP, WRITE) for number in range(BEHIND + 2)]
    awaited = [(7, number * STEP, STEP, WAIT_BEFORE | WRITE | WAIT_AFTER) for number in range(2)]
    assert calls == [*begun[:-1], awaited[0], begun[-1], awaited[1]]


def unknown_to_the_kernel(*_: int) -> int:
    ctypes.set_errno(errno.ENOSYS)
    return -1


@pytest.mark.parametrize("call", [None, unknown_to_the_kernel])
def test_it_is_a_sync_where_there_is_no_such_call(
    monkeypatch: pytest.MonkeyPatch, call: Callable[..., int] | None
) -> None:
    synced: list[int] = []
    monkeypatch.setattr(writeback, "_sync_file_range", call)
    monkeypatch.setattr(os, "fdatasync", synced.append)
    for start in range(0, 2 * SYNC_BYTES, STEP):
        write_out(7, start, start + STEP)
    assert synced == [7, 7]


def test_a_part_that_begins_anew_counts_anew(tmp_path: Path) -> None:
    part = Staging(tmp_path, room_bytes=0).take_private()
    part.write(bytes(WRITEBACK_BYTES - 1))
    part.clear()
    part.write(b"x")  # with the bytes of before it would go out from before the beginning
    part.write(bytes(WRITEBACK_BYTES))
    assert part.size == WRITEBACK_BYTES + 1
    part.discard()


def test_a_real_file_takes_it_and_an_error_is_told(tmp_path: Path) -> None:
    fd = os.open(tmp_path / "file", os.O_RDWR | os.O_CREAT)
    data = os.urandom(STEP)
    for number in range(BEHIND + 2):
        os.pwrite(fd, data, number * STEP)
        write_out(fd, number * STEP, (number + 1) * STEP)
    assert os.pread(fd, STEP, (BEHIND + 1) * STEP) == data
    os.close(fd)
    with pytest.raises(OSError) as caught:
        write_out(fd, 0, STEP)
    assert caught.value.errno == errno.EBADF
