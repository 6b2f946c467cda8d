"""Readers of the history that have names: what is kept for them, and for how long."""

from __future__ import annotations

import pytest

from rollq.base.errors import ErrorCode
from rollq.base.limits import READER_HOLD_MS_MAX, READER_NAME_BYTES_MAX, READERS_MAX
from rollq.grid import commands as c
from rollq.grid.effects import Done, Duplicate
from rollq.grid.invariants import check
from rollq.grid.readers import ReaderView, held_from, reader_views, silent_readers
from rollq.grid.snapshot import decode_snapshot, encode_snapshot
from rollq.grid.state import ReaderRecord
from tests.unit.grid.kit import Grid, refusal


def test_history_is_kept_from_the_lowest_index_that_somebody_wants() -> None:
    grid = Grid()
    assert held_from(grid.state) is None
    assert grid.ask(c.HoldHistory("b", 7)) == Done()
    assert grid.ask(c.HoldHistory("a", 5)) == Done()
    assert held_from(grid.state) == 5
    grid.apply(c.HoldHistory("a", 9))
    assert held_from(grid.state) == 7
    grid.apply(c.HoldHistory("a", 2))  # one that begins anew
    assert held_from(grid.state) == 2
    assert grid.ask(c.FreeHistory("a")) == Done()
    assert held_from(grid.state) == 7
    assert refusal(grid.ask(c.FreeHistory("a"))) is ErrorCode.UNKNOWN_READER
    assert [view.name for view in reader_views(grid.state)] == ["b"]


@pytest.mark.parametrize(
    ("name", "index"), [("", 1), ("x" * (READER_NAME_BYTES_MAX + 1), 1), ("x", 0), ("x", -1)]
)
def test_names_and_places_are_bounded(name: str, index: int) -> None:
    assert refusal(Grid().ask(c.HoldHistory(name, index))) is ErrorCode.BAD_OPTIONS


def test_there_are_not_too_many() -> None:
    grid = Grid()
    grid.apply(*(c.HoldHistory(f"r{number}", 1) for number in range(READERS_MAX)))
    assert refusal(grid.ask(c.HoldHistory("one more", 1))) is ErrorCode.GRID_FULL
    assert grid.ask(c.HoldHistory("r3", 2)) == Done()
    assert check(grid.state) == []


def test_one_that_is_silent_for_too_long_is_let_go_unless_it_is_heard_of_meanwhile() -> None:
    grid = Grid()
    grid.apply(c.HoldHistory("a", 1), c.HoldHistory("b", 1))
    stamp_ms = grid.state.readers["a"].stamp_ms
    assert silent_readers(grid.state, stamp_ms + READER_HOLD_MS_MAX - 1) == []
    free, other = silent_readers(grid.state, stamp_ms + READER_HOLD_MS_MAX)
    assert free == c.FreeHistory("a", stamp_ms, "expired")
    assert other == c.FreeHistory("b", stamp_ms, "expired")
    grid.state.readers["a"] = ReaderRecord(1, stamp_ms + 1)
    assert grid.ask(free) == Duplicate()
    grid.state.readers["a"] = ReaderRecord(1, stamp_ms)
    assert grid.ask(free) == Done()
    assert list(grid.state.readers) == ["b"]


def test_the_one_heard_of_longest_ago_is_first_also_after_a_snapshot() -> None:
    grid = Grid()
    grid.apply(c.HoldHistory("b", 4), c.HoldHistory("a", 3), c.HoldHistory("b", 5))
    copy = decode_snapshot(encode_snapshot(grid.state))
    assert list(copy.readers) == ["a", "b"]
    assert copy.readers == grid.state.readers
    assert reader_views(copy) == [
        ReaderView(name, index, grid.state.readers[name].stamp_ms)
        for name, index in (("a", 3), ("b", 5))
    ]


def test_a_broken_law_is_named() -> None:
    grid = Grid()
    grid.state.readers["x"] = ReaderRecord(0, 0)
    assert check(grid.state) == ["readers_are_few_and_bounded: reader 'x' at 0"]
    grid.state.readers.clear()
    grid.state.readers.update((f"r{n}", ReaderRecord(1, 0)) for n in range(READERS_MAX + 1))
    assert check(grid.state) == [f"readers_are_few_and_bounded: {READERS_MAX + 1} readers"]
