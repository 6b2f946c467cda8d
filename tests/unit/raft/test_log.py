"""The log's markers and searches, apart from any node."""

from __future__ import annotations

import pytest

from rollq.base.errors import LocalError
from rollq.base.limits import APPLY_ENTRIES_MAX
from rollq.raft.log import RaftLog
from rollq.raft.types import Entry
from tests.unit.raft.helpers import entries_of


def make_log(*terms: int, base: int = 0, base_term: int = 0, commit: int = 0) -> RaftLog:
    return RaftLog(base, base_term, entries_of(*terms, first=base + 1), commit)


def naive_hint(log: RaftLog, index: int, term: int) -> tuple[int, int]:
    """By stepping back one by one."""
    index = min(index, log.last_index)
    while index > 0:
        ours = log.term_at(index)
        if ours is None:
            return index, 0
        if ours <= term:
            return index, ours
        index -= 1
    return 0, 0


@pytest.mark.parametrize(
    ("base", "base_term", "terms"),
    [
        (0, 0, ()),
        (0, 0, (1, 1, 3, 3, 5, 5, 5)),
        (4, 2, (2, 2, 4)),
        (4, 2, ()),
        (7, 6, (6, 7, 7, 9)),
    ],
)
def test_conflict_hint_equals_stepping_back(
    base: int, base_term: int, terms: tuple[int, ...]
) -> None:
    log = make_log(*terms, base=base, base_term=base_term)
    for index in range(log.last_index + 3):
        for term in range(11):
            assert log.conflict_hint(index, term) == naive_hint(log, index, term)


def test_recovery_clamps_the_commit_to_what_is_there() -> None:
    assert make_log(1, 1, commit=9).commit == 2
    assert make_log(1, 1, base=5, base_term=1, commit=3).commit == 5


def test_truncation_lowers_what_the_disk_knows() -> None:
    log = make_log(1, 1, 1)
    log.append(Entry(1, 4, 0, b""))
    assert [e.index for e in log.take_unstable()] == [4]
    log.merge(1, entries_of(2, 2, 2, 2, first=2))
    log.persisted()
    assert log.stable == 1
    assert [e.index for e in log.take_unstable()] == [2, 3, 4, 5]


def test_slices_hold_one_entry_at_least_and_then_what_fits() -> None:
    log = RaftLog(0, 0, [Entry(1, i, 0, bytes(34)) for i in range(1, 7)], 0)
    assert [e.index for e in log.slice(2, 7, 0)] == [2]
    assert [e.index for e in log.slice(2, 7, 100)] == [2, 3]
    assert [e.index for e in log.slice(2, 5, 10_000)] == [2, 3, 4]
    assert [e.index for e in log.slice(2, 99, 10_000)] == [2, 3, 4, 5, 6]


def test_no_more_entries_are_applied_at_once_than_take_a_moment_whatever_their_size() -> None:
    log = make_log(*([1] * (3 * APPLY_ENTRIES_MAX)), commit=2 * APPLY_ENTRIES_MAX + 1)
    taken = [len(log.take_committed(1_000_000)) for _ in range(4)]
    assert taken == [APPLY_ENTRIES_MAX, APPLY_ENTRIES_MAX, 1, 0]


def test_compaction_stops_at_what_is_applied() -> None:
    log = make_log(1, 1, 1, commit=3)
    log.take_committed(1)
    log.applied_to(1)
    with pytest.raises(LocalError):
        log.compact(2)
    log.compact(1)
    log.compact(1)
    assert (log.base_index, log.base_term, len(log.entries)) == (1, 1, 2)


def test_markers_keep_their_order_through_a_life() -> None:
    log = make_log()
    for index in range(1, 100):
        log.append(Entry(1, index, 0, b"x"))
        log.take_unstable()
        log.persisted()
        log.commit_to(index - 1)
        taken = log.take_committed(1000)
        if taken:
            log.applied_to(taken[-1].index)
        if index % 10 == 0:
            log.compact(log.applied - 2)
        assert log.base_index <= log.applied <= log.applying <= log.commit <= log.last_index
        assert log.base_index <= log.stable <= log.persisting <= log.last_index


class DiskOfTest:
    """The log on disk, as a list."""

    def __init__(self, entries: list[Entry]) -> None:
        self.all = list(entries)
        self.asked: list[tuple[int, int]] = []

    def entries(self, low: int, high: int, bytes_max: int) -> list[Entry]:
        self.asked.append((low, high))
        return [entry for entry in self.all if low <= entry.index < high]


def make_resting(*terms: int, tail_bytes: int, base: int = 0, base_term: int = 0) -> RaftLog:
    """A log whose entries have ten bytes each, all of them applied."""
    entries = [Entry(term, base + n, 0, b"x" * 10) for n, term in enumerate(terms, 1)]
    disk = DiskOfTest(entries)
    log = RaftLog(base, base_term, list(entries), base + len(terms), disk)
    log.applied_to(log.last_index)
    log.maybe_evict(tail_bytes)
    return log


def test_a_long_log_rests_on_disk_and_is_read_back_from_there() -> None:
    log = make_resting(1, 1, 2, 2, 2, 3, tail_bytes=4 * 26)
    assert (log.evicted, [entry.index for entry in log.entries]) == (4, [5, 6])
    assert log.last_index == 6
    assert [entry.index for entry in log.slice(2, 7, 1 << 20)] == [2, 3, 4]
    assert [entry.index for entry in log.slice(5, 7, 1 << 20)] == [5, 6]
    disk = log.reader
    assert isinstance(disk, DiskOfTest)
    assert disk.asked == [(2, 5)]


def test_a_log_within_its_tail_stays_in_memory() -> None:
    log = make_resting(1, 1, 1, 1, tail_bytes=4 * 26)
    assert (log.evicted, len(log.entries)) == (0, 4)


def test_what_is_not_applied_or_not_durable_does_not_rest() -> None:
    entries = [Entry(1, n, 0, b"x" * 10) for n in range(1, 5)]
    log = RaftLog(0, 0, list(entries), 4, DiskOfTest(entries))
    log.applied_to(3)
    log.maybe_evict(0)
    assert log.evicted == 3
    log.append(Entry(1, 5, 0, b""))
    log.take_unstable()
    log.commit_to(5)
    log.applied_to(5)
    log.maybe_evict(0)
    assert log.evicted == 4  # the disk has not confirmed the last one
    log.persisted()
    log.maybe_evict(0)
    assert log.evicted == 5
    assert log.applied_bytes == 0


def test_without_a_disk_to_read_from_nothing_rests() -> None:
    log = make_log(1, 1, 1, commit=3)
    log.applied_to(3)
    log.maybe_evict(0)
    assert (log.evicted, len(log.entries)) == (0, 3)


@pytest.mark.parametrize("tail_bytes", [0, 3 * 26, 6 * 26])
@pytest.mark.parametrize("compact_to", [0, 5, 7, 9, 11])
def test_a_resting_log_answers_as_one_in_memory(tail_bytes: int, compact_to: int) -> None:
    terms = (2, 2, 4, 4, 6, 6, 6, 9)
    resting = make_resting(*terms, tail_bytes=tail_bytes, base=4, base_term=1)
    plain = make_log(*terms, base=4, base_term=1, commit=12)
    plain.applied_to(12)
    for log in (resting, plain):
        log.compact(compact_to)
        log.append(Entry(9, 13, 0, b""))
    assert (resting.first_index, resting.last_index) == (plain.first_index, plain.last_index)
    for index in range(15):
        assert resting.term_at(index) == plain.term_at(index)
        for term in range(11):
            assert resting.conflict_hint(index, term) == plain.conflict_hint(index, term)


def test_a_log_that_rests_as_a_whole_still_knows_its_last_term() -> None:
    log = make_resting(3, 5, tail_bytes=0)
    assert (log.entries, log.last_term) == ([], 5)
    log.compact(2)
    assert (log.last_term, log.terms) == (5, [])
