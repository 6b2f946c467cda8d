"""Names of tasks on the command line."""

from __future__ import annotations

import pytest

from rollq.base.errors import ErrorCode, LocalError
from rollq.cli.ids import TaskName, parse_id
from rollq.grid.pages import IdFilter


def test_a_task_is_an_array_and_a_number() -> None:
    assert parse_id("6f9619ff/07") == TaskName(IdFilter("6f9619ff", ""), 7)


@pytest.mark.parametrize("number", ["", "-1", "x", "٣", "9" * 5_000])
def test_what_is_no_number_is_no_task(number: str) -> None:
    with pytest.raises(LocalError) as caught:
        parse_id(f"6f9619ff/{number}")
    assert caught.value.code is ErrorCode.BAD_OPTIONS
