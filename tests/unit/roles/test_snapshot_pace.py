"""When a snapshot is worth its cost."""

from __future__ import annotations

from rollq.base.limits import SMALL_SNAPSHOT_BYTES, SNAPSHOT_LOG_BYTES_MIN
from rollq.roles.member.snapshot_order import (
    ENTRY_COST_BYTES,
    FACT_COST_BYTES,
    SIZE_SHARE,
    SnapshotPace,
)

ENTRIES_MAX = 10
MIB = 1024 * 1024


def _entries_until_due(size_bytes: int, entry_bytes: int, *, idle: bool = False) -> int:
    pace = SnapshotPace(ENTRIES_MAX, size_bytes)
    count = 0
    while not pace.is_due(idle=idle):
        pace.applied(entry_bytes - ENTRY_COST_BYTES, 0)
        count += 1
    return count


def test_a_busy_member_takes_one_after_much_log_or_a_share_of_the_last_one() -> None:
    large = SNAPSHOT_LOG_BYTES_MIN // 4
    assert _entries_until_due(0, large) == 5
    assert _entries_until_due(SIZE_SHARE * SNAPSHOT_LOG_BYTES_MIN, large) == 5
    assert _entries_until_due(2 * SIZE_SHARE * SNAPSHOT_LOG_BYTES_MIN, large) == 9


def test_many_small_entries_are_worth_a_small_snapshot() -> None:
    assert _entries_until_due(0, 1_000) == ENTRIES_MAX
    assert _entries_until_due(SMALL_SNAPSHOT_BYTES // 1_000, 1_000) == ENTRIES_MAX


def test_many_small_entries_are_worth_a_large_snapshot_when_they_are_as_large() -> None:
    size = SMALL_SNAPSHOT_BYTES + 50 * MIB
    assert _entries_until_due(size, MIB) == 51
    assert (
        _entries_until_due(size + SNAPSHOT_LOG_BYTES_MIN, MIB) == SNAPSHOT_LOG_BYTES_MIN // MIB + 1
    )


def test_what_a_restart_would_have_to_make_again_counts() -> None:
    pace = SnapshotPace(ENTRIES_MAX, SMALL_SNAPSHOT_BYTES)
    pace.applied(1_000, SNAPSHOT_LOG_BYTES_MIN // FACT_COST_BYTES // 2)
    assert not pace.is_due(idle=False)
    pace.applied(1_000, SNAPSHOT_LOG_BYTES_MIN // FACT_COST_BYTES // 2)
    assert pace.is_due(idle=False)


def test_an_idle_member_takes_one_early() -> None:
    assert _entries_until_due(64 * MIB, MIB, idle=True) == 64 // SIZE_SHARE // SIZE_SHARE + 1
