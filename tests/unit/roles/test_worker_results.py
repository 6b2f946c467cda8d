from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rollq.base.errors import DiskError, ErrorCode
from rollq.base.jobs import AttemptRef
from rollq.base.limits import INLINE_BYTES_MAX, RECORD_BYTES_MAX
from rollq.roles.worker.results import NAMES, ResultTable
from rollq.roles.worker.signals import StoredResult
from rollq.store.state_lock import LOCK_NAME
from tests.effort import examples

SMALL = 4_096


def ref(number: int) -> AttemptRef:
    return AttemptRef(number.to_bytes(16, "big"), 1, number)


def record(number: int, size: int = 10) -> StoredResult:
    return StoredResult(ref(number), 1_000, 0, bytes([number % 256]) * size, run_ms=number)


def reopened(directory: Path) -> tuple[StoredResult, ...]:
    table = ResultTable(directory, SMALL)
    try:
        return table.open()[2]
    finally:
        table.close()


def test_the_worker_stays_itself_and_counts_its_lives(tmp_path: Path) -> None:
    lives = []
    for _ in range(3):
        table = ResultTable(tmp_path / "state", SMALL)
        lives.append(table.open()[:2])
        table.close()
        table.close()
    assert [life for _, life in lives] == [1, 2, 3]
    assert len({worker for worker, _ in lives}) == 1
    assert len(lives[0][0]) == 16


def test_what_is_stored_and_not_forgotten_comes_back_in_order(tmp_path: Path) -> None:
    table = ResultTable(tmp_path, SMALL)
    table.open()
    table.commit([record(1), record(2)], [])
    table.commit([record(3)], [ref(1)])
    table.commit([], [ref(9)])
    table.close()
    assert reopened(tmp_path) == (record(2), record(3))
    assert reopened(tmp_path) == (record(2), record(3))


def test_more_results_than_a_record_of_the_log_may_hold_come_back(tmp_path: Path) -> None:
    count = RECORD_BYTES_MAX // INLINE_BYTES_MAX + 1
    table = ResultTable(tmp_path, SMALL)
    table.open()
    table.commit([record(number, INLINE_BYTES_MAX) for number in range(count)], [])
    table.close()
    assert len(reopened(tmp_path)) == count
    assert len(reopened(tmp_path)) == count, "written anew as one record by the start before"


def test_two_workers_cannot_share_a_directory(tmp_path: Path) -> None:
    table = ResultTable(tmp_path, SMALL)
    table.open()
    with pytest.raises(DiskError, match="uses the state directory") as caught:
        ResultTable(tmp_path, SMALL).open()
    assert caught.value.code is ErrorCode.DISK_BUSY
    table.close()
    assert reopened(tmp_path) == ()


def test_a_process_that_is_being_started_does_not_keep_the_lock(tmp_path: Path) -> None:
    table = ResultTable(tmp_path, SMALL)
    table.open()
    locks = [os.stat(tmp_path / name) for name in (LOCK_NAME, "lock")]
    fds = [
        int(name)
        for name in os.listdir("/proc/self/fd")
        if os.path.exists(f"/proc/self/fd/{name}")
        and any(os.path.samestat(os.stat(f"/proc/self/fd/{name}"), lock) for lock in locks)
    ]
    assert len(fds) == 2
    held = [os.dup(fd) for fd in fds]  # as in a child between fork and exec
    table.close()
    assert reopened(tmp_path) == ()
    for fd in held:
        os.close(fd)


@settings(max_examples=examples(25))
@given(st.lists(st.tuples(st.booleans(), st.integers(1, 12), st.integers(0, 900)), max_size=40))
def test_turning_files_loses_nothing(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[bool, int, int]]
) -> None:
    directory = tmp_path_factory.mktemp("state")
    table = ResultTable(directory, SMALL)
    table.open()
    model: dict[AttemptRef, StoredResult] = {}
    for store, number, size in steps:
        if store:
            model[ref(number)] = record(number, size)
            table.commit([record(number, size)], [])
        else:
            model.pop(ref(number), None)
            table.commit([], [ref(number)])
    table.close()
    assert set(reopened(directory)) == set(model.values())
    # Room is used again: what was written in all does not stay.
    assert all((directory / name).stat().st_size <= 6 * SMALL + 12_000 for name in NAMES)


def test_a_torn_write_voids_itself_alone(tmp_path: Path) -> None:
    table = ResultTable(tmp_path, SMALL)
    table.open()
    table.commit([record(1)], [])
    path = tmp_path / NAMES[table._turn]
    whole = table._offset
    table.commit([record(2, 500)], [])
    end = table._offset
    table.close()
    content = path.read_bytes()
    for cut in (*range(whole, whole + 30, 7), *range(whole + 30, end, 101), end - 1):
        for name in NAMES:
            (tmp_path / name).write_bytes(b"")
        path.write_bytes(content[:cut] + bytes(len(content) - cut))
        assert reopened(tmp_path) == (record(1),)


def test_a_torn_turn_leaves_the_other_file(tmp_path: Path) -> None:
    table = ResultTable(tmp_path, SMALL)
    table.open()
    table.commit([record(1)], [])
    table.close()
    reopened(tmp_path)  # begins the next generation in the other file
    turned = ResultTable(tmp_path, SMALL)
    turned.open()
    newest = tmp_path / NAMES[turned._turn]
    turned.close()
    data = bytearray(newest.read_bytes())
    data[30] ^= 1
    newest.write_bytes(data)
    assert reopened(tmp_path) == (record(1),)


def test_damage_is_told_apart_from_another_version(tmp_path: Path) -> None:
    (tmp_path / "identity.json").write_text("{}")
    with pytest.raises(DiskError) as caught:
        ResultTable(tmp_path, SMALL).open()
    assert caught.value.code is ErrorCode.DISK_CORRUPT
    (tmp_path / "identity.json").write_text('{"worker_id": "00", "incarnation": 1}')
    with pytest.raises(DiskError, match="not a worker id"):
        ResultTable(tmp_path, SMALL).open()


def test_a_body_that_we_cannot_read_stops_the_worker(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = ResultTable(tmp_path, SMALL)
    table.open()
    monkeypatch.setattr("rollq.roles.worker.results._encode", lambda batch: b"\xc1")
    table.commit([record(1)], [])
    table.close()
    monkeypatch.undo()
    with pytest.raises(DiskError) as caught:
        ResultTable(tmp_path, SMALL).open()
    assert caught.value.code is ErrorCode.DISK_VERSION


def test_a_full_disk_has_its_own_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    table = ResultTable(tmp_path, SMALL)
    table.open()

    def full(*_: object) -> int:
        raise OSError(28, os.strerror(28))

    monkeypatch.setattr(os, "pwrite", full)
    with pytest.raises(DiskError) as caught:
        table.commit([record(1)], [])
    assert caught.value.code is ErrorCode.DISK_FULL
    table.close()
    (tmp_path / "file").touch()
    with pytest.raises(DiskError) as caught:
        ResultTable(tmp_path / "file").open()
    assert caught.value.code is ErrorCode.DISK_FAILED


def test_an_older_attempt_that_is_forgotten_leaves_the_newer_one(tmp_path: Path) -> None:
    table = ResultTable(tmp_path)
    table.open()
    older, newer = (StoredResult(AttemptRef(b"j" * 16, 1, fence), 5) for fence in (1, 2))
    table.commit([older], [])
    table.commit([newer], [older.ref])
    table.close()
    again = ResultTable(tmp_path)
    assert again.open()[2] == (newer,)
    again.commit([], [newer.ref])
    again.close()
