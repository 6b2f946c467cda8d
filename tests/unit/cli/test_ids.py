"""Names of tasks on the command line."""

from __future__ import annotations

import pytest
from typer.testing import CliRunner

from rollq.base.errors import ErrorCode, LocalError, RollqError
from rollq.base.ids import guid_from_text, guid_to_text, task_id
from rollq.base.jobs import DEFAULT_OPTIONS
from rollq.cli import dlq
from rollq.cli.ids import TaskName, digits_in_tables, filter_id, names_of, parse_id
from rollq.cli.main import app
from rollq.grid.pages import IdFilter
from rollq.grid.views import RawEndView, RawJobView

ARRAY = guid_from_text("5d1f0c3e-9a41-7f60-2c77-3f0a00000000")


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


def test_a_table_names_tasks_by_array_and_number() -> None:
    array, job = guid_to_text(ARRAY), guid_to_text(task_id(ARRAY, 43))
    task = {"id": job, "array": array, "task": 42}
    alone = {"id": "6f9619ff-8b86-d011-b42d-00c04fc964ff"}
    assert names_of([task, alone]) == ["5d1f0c3e/42", "6f9619ff"]


def test_dead_tasks_are_named_as_in_other_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    end = RawEndView(1, b"", 0, 0, 0, 0, 3, "", confirmed=False)

    async def collect(*_: object) -> tuple[list[RawJobView], bool]:
        fixed = "c", "q", "e", "dead", 1, DEFAULT_OPTIONS, 0, 0
        return [RawJobView(task_id(ARRAY, 43), *fixed, array_id=ARRAY, task=42, end=end)], False

    monkeypatch.setattr(dlq, "_collect", collect)
    result = CliRunner().invoke(app, ["dlq", "list"])
    assert result.exit_code == 0
    assert result.stdout.splitlines()[1].startswith("5d1f0c3e/42  e     q")
