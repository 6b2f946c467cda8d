"""Names of tasks on the command line."""

from __future__ import annotations

import pytest

from rollq.base.errors import ErrorCode, LocalError, RollqError
from rollq.cli.ids import TaskName, digits_in_tables, filter_id, parse_id
from rollq.grid.pages import IdFilter


def test_a_task_is_an_array_and_a_number() -> None:
    assert parse_id("6f9619ff/07") == TaskName(IdFilter("6f9619ff", ""), 7)


@pytest.mark.parametrize("number", ["", "-1", "x", "٣", "9" * 5_000])
def test_what_is_no_number_is_no_task(number: str) -> None:
    with pytest.raises(LocalError) as caught:
        parse_id(f"6f9619ff/{number}")
    assert caught.value.code is ErrorCode.BAD_OPTIONS


def test_without_a_member_a_task_has_no_number() -> None:
    assert digits_in_tables("6F9619FF..2a") == ("6f9619ff", "2a")
    with pytest.raises(LocalError, match="'6f9619ff/7' is the number of a task") as caught:
        digits_in_tables("6f9619ff/7")
    assert "`rollq job 6f9619ff/7`" in caught.value.hint


def test_a_filter_asks_the_group_about_names_of_tasks_alone() -> None:
    nowhere = "127.0.0.1:1"
    for text in ("", "6f9619ff", "6f9619ff..2a"):
        assert filter_id(nowhere, 0.1, text) == text
    with pytest.raises(RollqError) as caught:
        filter_id(nowhere, 0.1, "6f9619ff/7")
    assert caught.value.code is ErrorCode.TIMED_OUT
