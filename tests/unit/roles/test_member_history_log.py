"""The member's side of the history: memory, segments, gaps and what peers send to fill them."""

from __future__ import annotations

import pytest

from rollq.base.errors import DiskError, ErrorCode
from rollq.base.limits import HISTORY_REPLY_BYTES_MAX
from rollq.grid.effects import Applied
from rollq.grid.events import JOB_ENQUEUED, Event, Run, each_of
from rollq.history.schema import from_line, to_lines
from rollq.history.segments import Segments
from rollq.roles.member.history_log import HistoryLog
from rollq.testing.disk import VirtualDisk
from rollq.wire.messages import HistoryRows
from tests.unit.roles.members import job


def applied(index: int, count: int = 1) -> Applied:
    events = [Event(JOB_ENQUEUED, job_id=job(100 * index + n)) for n in range(count)]
    return Applied(index, 1_000 + index, [], events, [])


def lines(index: int, count: int = 1) -> list[bytes]:
    one = applied(index, count)
    return to_lines(one.index, one.stamp_ms, one.events)


def rows(first: int, last: int) -> HistoryRows:
    return HistoryRows(
        first, last, tuple(line for index in range(first, last + 1) for line in lines(index))
    )


@pytest.fixture
def disk() -> VirtualDisk:
    return VirtualDisk()


@pytest.fixture
def log(disk: VirtualDisk) -> HistoryLog:
    return filled(disk)


def filled(disk: VirtualDisk, reply_bytes_max: int = HISTORY_REPLY_BYTES_MAX) -> HistoryLog:
    """1 to 4 sealed, 5 to 8 in memory."""
    made = HistoryLog(Segments(disk), reply_bytes_max)
    made.segments.seal(1, 4, rows(1, 4).lines)
    for index in range(5, 9):
        made.add(applied(index))
    return made


def test_rows_come_from_segments_and_memory_as_one(log: HistoryLog) -> None:
    assert log.rows(1, 100) == rows(1, 8)
    assert log.rows(3, 6) == rows(3, 6)
    assert log.rows(6, 6) == rows(6, 6)


def test_what_is_not_there_is_not_answered(log: HistoryLog) -> None:
    assert log.rows(9, 20) is None
    assert log.rows(5, 4) is None
    assert HistoryLog(log.segments).rows(5, 8) is None


def test_an_answer_ends_before_a_gap(disk: VirtualDisk) -> None:
    log = HistoryLog(Segments(disk))
    log.segments.seal(1, 3, rows(1, 3).lines)
    for index in range(6, 8):
        log.add(applied(index))
    assert log.rows(1, 7) == rows(1, 3)
    assert log.gaps(7) == [(4, 5)]


def test_an_answer_has_whole_indexes_and_a_bounded_size() -> None:
    assert filled(VirtualDisk(), 2 * len(lines(1)[0]) + 10).rows(1, 8) == rows(1, 2)
    assert filled(VirtualDisk(), 1).rows(4, 8) == rows(4, 4)


def test_an_index_without_rows_is_no_gap(disk: VirtualDisk) -> None:
    log = HistoryLog(Segments(disk))
    for index in (1, 2, 3):
        log.add(applied(index, 0 if index == 2 else 1))
    found = log.rows(1, 3)
    assert found is not None
    assert (found.first, found.last, len(found.lines)) == (1, 3, 2)
    assert log.gaps(3) == []


def test_memory_is_let_go_when_it_is_sealed(log: HistoryLog) -> None:
    assert [one.index for one in log.unsealed(6)] == [5, 6]
    log.segments.seal(5, 6, rows(5, 6).lines)
    log.sealed(6)
    assert [one.index for one in log.unsealed(100)] == [7, 8]
    assert log.rows(1, 8) == rows(1, 8)


def test_only_rows_that_are_lacking_are_taken_from_a_peer(disk: VirtualDisk) -> None:
    log = HistoryLog(Segments(disk))
    log.segments.seal(1, 3, rows(1, 3).lines)
    log.add(applied(10))
    assert log.gaps(10) == [(4, 9)]
    assert log.accepts(rows(4, 9), 10)
    assert log.accepts(rows(5, 6), 10)
    assert not log.accepts(rows(3, 9), 10)
    assert not log.accepts(rows(4, 10), 10)
    assert not log.accepts(HistoryRows(6, 4, ()), 10)
    assert not log.accepts(HistoryRows(4, 5, tuple(lines(6))), 10)
    assert not log.accepts(HistoryRows(4, 5, (b"no json",)), 10)


def test_what_an_earlier_stop_sealed_is_not_sealed_again(log: HistoryLog) -> None:
    log.seal_rest()
    again = HistoryLog(Segments(log.segments._disk))
    for index in range(3, 11):  # replayed from the log
        again.add(applied(index))
    again.seal_rest()
    found = [from_line(line).index for line in again.segments.read(1, 100)]
    assert found == list(range(1, 11))


def test_nothing_is_sealed_of_nothing(disk: VirtualDisk) -> None:
    HistoryLog(Segments(disk)).seal_rest()
    assert Segments(disk).names() == []


def test_a_damaged_segment_is_a_gap_from_now_on(log: HistoryLog, disk: VirtualDisk) -> None:
    (name,) = log.segments.names()
    disk.rot(f"history/{name}", disk.size(f"history/{name}") // 2, 3)
    damaged = HistoryLog(Segments(disk))
    assert damaged.rows(1, 4) is None
    assert damaged.gaps(4) == [(1, 4)]


def test_a_disk_that_fails_is_not_a_gap(log: HistoryLog, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> object:
        raise DiskError(ErrorCode.DISK_FAILED, "broken")

    monkeypatch.setattr(log.segments, "chunks", fails)
    with pytest.raises(DiskError):
        log.rows(1, 4)


def test_many_events_of_one_index_take_little_memory_and_come_back_whole(disk: VirtualDisk) -> None:
    log = HistoryLog(Segments(disk))
    size = log.add(applied(1, 1_000))
    assert len(log.unsealed(1)[0].packed) < size // 3
    assert log.unsealed(1)[0].lines() == lines(1, 1_000)
    assert log.rows(1, 1) == HistoryRows(1, 1, tuple(lines(1, 1_000)))


def test_what_is_sealed_already_is_not_sealed_again_after_a_replay(disk: VirtualDisk) -> None:
    before = HistoryLog(Segments(disk))
    for index in range(1, 4):
        before.add(applied(index))
    before.seal_rest()
    log = HistoryLog(Segments(disk))
    for index in range(1, 6):
        log.add(applied(index))
    assert [recent.index for recent in log.unsealed(5)] == [4, 5]
    assert log.rows(1, 5) == rows(1, 5)
    assert log.gaps(5) == []


def test_runs_are_rows_of_their_jobs_to_whoever_reads(disk: VirtualDisk) -> None:
    log = HistoryLog(Segments(disk))
    ids = [job(n) for n in range(3)]
    alone = [Event(JOB_ENQUEUED, job_id=one) for one in ids]
    runs = [Event(JOB_ENQUEUED, run=Run(b"".join(ids)))]
    log.add(Applied(1, 1_000, [], [*runs, *alone], []))
    log.add(Applied(2, 1_000, [], alone, []))
    expected = to_lines(1, 1_000, alone + alone)
    assert [from_line(line).ordinal for line in expected] == list(range(6))
    found = log.rows(1, 1)
    assert found is not None
    assert list(found.lines) == expected
    first, second = log.unsealed(2)
    assert first.events() == [*runs, *alone]
    assert first.without_runs().events() == list(each_of([*runs, *alone]))
    assert second.without_runs() is second
