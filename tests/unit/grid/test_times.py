from __future__ import annotations

import pytest

from rollq.base.errors import ErrorCode
from rollq.base.limits import LEAP_MS_MAX, LEAP_MS_MIN, LEAPS_KEPT_MAX
from rollq.grid.apply import apply_entry
from rollq.grid.command_codec import encode_batch
from rollq.grid.commands import AdvanceTime, Command
from rollq.grid.effects import Duplicate
from rollq.grid.snapshot import decode_snapshot, encode_snapshot
from rollq.grid.state import GridState
from rollq.grid.times import began_before_ms, elapsed_ms
from tests.unit.grid.kit import Grid, refusal, submit

DAY_MS = 86_400_000


def stamped(state: GridState, stamp_ms: int, *commands: Command, version: int = 0) -> int:
    """Apply an entry with this stamp; the stamp that it got."""
    data = encode_batch(stamp_ms, commands)
    data = bytes([version]) + data[1:] if version else data
    return apply_entry(state, state.applied_index + 1, data).stamp_ms


def test_time_does_not_go_back() -> None:
    state = GridState()
    assert stamped(state, 5_000, submit("a")) == 5_000
    assert stamped(state, 4_000, submit("b")) == 5_000
    assert [record.stamp_ms for record in state.jobs.values()] == [5_000, 5_000]
    assert state.time_ms == 5_000


def test_entries_of_older_leaders_keep_their_stamps() -> None:
    state = GridState()
    stamped(state, 5_000, submit("a"), version=4)
    assert stamped(state, 4_000, submit("b"), version=4) == 4_000
    assert state.time_ms == 0  # a member that has them by a snapshot does not know them


def test_a_leap_moves_stamps_and_shortens_nothing() -> None:
    state = GridState()
    stamped(state, 1_000, submit("a"))
    stamped(state, 2_000, AdvanceTime(2_000 + DAY_MS))
    assert state.time_ms == 2_000 + DAY_MS
    now_ms = stamped(state, 2_500, submit("b")) + 500
    assert now_ms == 2_500 + DAY_MS  # an entry that was made before the leap was applied
    assert elapsed_ms(state, 1_000, now_ms) == 1_500
    assert elapsed_ms(state, 2_000 + DAY_MS, now_ms) == 500
    assert elapsed_ms(state, 1_000, 2_000) == 1_000
    assert elapsed_ms(state, now_ms + 7, now_ms) == 0
    copy = decode_snapshot(encode_snapshot(state))
    assert (copy.time_ms, copy.leaps) == (state.time_ms, state.leaps)


def test_what_is_old_enough_is_found_across_leaps() -> None:
    state = GridState()
    stamped(state, 10_000, AdvanceTime(10_000 + DAY_MS))
    stamped(state, 20_000 + DAY_MS, AdvanceTime(20_000 + 2 * DAY_MS))
    now_ms = 25_000 + 2 * DAY_MS
    stamps = [1_000, 9_999, 10_000, 10_001 + DAY_MS, 15_000 + DAY_MS, 20_000 + DAY_MS]
    stamps += [20_001 + 2 * DAY_MS, now_ms]
    ages = [elapsed_ms(state, stamp_ms, now_ms) for stamp_ms in stamps]
    assert ages == [24_000, 15_001, 15_000, 14_999, 10_000, 5_000, 4_999, 0]
    for duration_ms in (1, 4_999, 5_000, 5_001, 15_000, 15_001, 24_000):
        before_ms = began_before_ms(state, now_ms, duration_ms)
        for stamp_ms, age_ms in zip(stamps, ages, strict=True):
            assert (stamp_ms <= before_ms) == (age_ms >= duration_ms)


def test_a_leap_is_asked_for_again_and_is_done_once() -> None:
    grid = Grid()
    to_ms = grid.stamp_ms + DAY_MS
    grid.apply(AdvanceTime(to_ms))
    assert grid.apply(AdvanceTime(to_ms + LEAP_MS_MIN - 1)).outcomes == [Duplicate(ended=False)]
    assert len(grid.state.leaps) == 1
    assert grid.state.time_ms == to_ms


def test_a_leap_out_of_bounds_is_refused() -> None:
    grid = Grid()
    command = AdvanceTime(grid.state.time_ms + LEAP_MS_MAX + 1_000)
    assert refusal(grid.ask(command)) is ErrorCode.BAD_OPTIONS


@pytest.mark.parametrize("count", [LEAPS_KEPT_MAX, 3 * LEAPS_KEPT_MAX])
def test_leaps_are_few_and_those_left_out_make_nothing_older(count: int) -> None:
    state = GridState()
    stamps: list[int] = []
    for _ in range(count):
        stamps.append(stamped(state, state.time_ms + 10, submit(f"j{len(stamps)}")))
        stamped(state, state.time_ms, AdvanceTime(state.time_ms + LEAP_MS_MIN))
    assert len(state.leaps) == LEAPS_KEPT_MAX
    for number, stamp_ms in enumerate(stamps):
        assert elapsed_ms(state, stamp_ms, state.time_ms) <= 10 * (count - number)
    assert elapsed_ms(state, stamps[0], state.time_ms) == 10 * (count - 1)
