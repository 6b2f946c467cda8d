"""Hints: what is known of run times, replaced as a whole."""

import pytest

from rollq.base.errors import ErrorCode
from rollq.base.hints import ExecHint
from rollq.base.limits import HINTS_MAX
from rollq.grid.commands import SetHints
from rollq.grid.effects import Done
from rollq.grid.hints import listed_hints
from rollq.grid.snapshot import decode_snapshot, encode_snapshot
from tests.unit.grid.kit import Grid, refusal

FAST, SLOW = ExecHint("fast", 1, 2, 3, 10), ExecHint("slow", 1_000, 2_000, 60_000)


def test_hints_replace_all_that_was_known() -> None:
    grid = Grid()
    assert grid.ask(SetHints((SLOW,))) == Done(1)
    applied = grid.apply(SetHints((SLOW, FAST), "olga"))
    event = applied.events[0]
    assert (event.kind, event.count, event.detail) == ("hints", 2, "olga")
    assert listed_hints(grid.state) == [FAST, SLOW]
    assert grid.ask(SetHints(())) == Done(0)
    assert not grid.state.hints


def test_hints_survive_a_snapshot_in_any_order() -> None:
    one, two = Grid(), Grid()
    one.apply(SetHints((SLOW, FAST)))
    copy = decode_snapshot(encode_snapshot(one.state))
    assert copy.hints == one.state.hints
    two.apply(SetHints((SLOW, FAST)))
    two.state.hints = {"fast": FAST, "slow": SLOW}
    assert encode_snapshot(one.state) == encode_snapshot(two.state)


@pytest.mark.parametrize(
    "hints",
    [
        (ExecHint("", 1, 2, 3),),
        (ExecHint("x" * 257, 1, 2, 3),),
        (ExecHint("x", 2, 1, 3),),
        (ExecHint("x", -1, 1, 3),),
        (ExecHint("x", 1, 1, 2**60),),
        (ExecHint("x", 1, 1, 1, -1),),
        (FAST, FAST),
        tuple(ExecHint(f"x{n}", 1, 1, 1) for n in range(HINTS_MAX + 1)),
    ],
)
def test_hints_are_bounded(hints: tuple[ExecHint, ...]) -> None:
    grid = Grid()
    grid.apply(SetHints((FAST,)))
    assert refusal(grid.ask(SetHints(hints))) == ErrorCode.BAD_OPTIONS
    assert listed_hints(grid.state) == [FAST]
