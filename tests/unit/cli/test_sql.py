"""What `rollq sql` writes."""

from __future__ import annotations

import datetime
import decimal
import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from rollq.cli.sql import sql, write_rows
from rollq.spark.asking.queries import TABLES, QueryAnswer

NOON = datetime.datetime(2026, 11, 15, 12, 0, 0, 7_000)
ODD: list[tuple[Any, ...]] = [
    ("a,b", 1, 0.1234567, NOON, None, True),
    ('say "x"\n', -2, 5.0, NOON, [1, {"k": decimal.Decimal("1.50")}], False),
]
ANSWER = QueryAnswer(["text", "n", "share", "at", "more", "on"], ODD, False)


def test_help_names_every_table() -> None:
    help_text = " ".join((sql.__doc__ or "").split())
    assert f"Tables: {', '.join(TABLES.values())};" in help_text


def written(capsys: pytest.CaptureFixture[str], **form: bool) -> str:
    write_rows(ANSWER, **({"as_csv": False, "as_json": False} | form))
    return capsys.readouterr().out


def test_json_is_one_object_a_row(capsys: pytest.CaptureFixture[str]) -> None:
    first, second = map(json.loads, written(capsys, as_json=True).splitlines())
    assert first == {
        "text": "a,b",
        "n": 1,
        "share": 0.1234567,
        "at": "2026-11-15 12:00:00.007",
        "more": None,
        "on": True,
    }
    assert second["more"] == [1, {"k": "1.50"}]


def test_csv_has_a_header_and_quotes(capsys: pytest.CaptureFixture[str]) -> None:
    head, first, *rest = written(capsys, as_csv=True).splitlines()
    assert head == "text,n,share,at,more,on"
    assert first == '"a,b",1,0.1234567,2026-11-15 12:00:00.007,,true'
    assert rest[0] == '"say ""x""'


def test_a_table_keeps_a_row_on_a_line(capsys: pytest.CaptureFixture[str]) -> None:
    head, first, second = written(capsys).splitlines()
    assert head.split() == ["text", "n", "share", "at", "more", "on"]
    assert first.split() == ["a,b", "1", "0.123", "2026-11-15", "12:00:00.007", "true"]
    assert second.startswith('say "x"  -2    5.0')


@pytest.fixture
def on_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[[QueryAnswer], list[str]]:
    """The lines of an answer on a terminal of 60 columns."""

    def lines_of(answer: QueryAnswer) -> list[str]:
        monkeypatch.setattr("sys.stdout.isatty", lambda: True)
        write_rows(answer, as_csv=False, as_json=False)
        return re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().out).splitlines()

    monkeypatch.setenv("COLUMNS", "60")
    return lines_of


def test_a_terminal_gets_a_table_that_folds(
    on_terminal: Callable[[QueryAnswer], list[str]],
) -> None:
    lines = on_terminal(QueryAnswer(["id", "[b]x"], [("y" * 100, 7)], False))
    assert max(map(len, lines)) <= 60
    assert any("[b]x" in line for line in lines)
    assert sum(line.count("y") for line in lines) == 100


def test_a_row_is_a_list_where_its_columns_do_not_fit(
    on_terminal: Callable[[QueryAnswer], list[str]],
) -> None:
    names = [f"column{n}" for n in range(12)]
    rows = [("[b]y\n" + "z" * 100, *range(1, 11), None), tuple(range(12))]
    lines = on_terminal(QueryAnswer(names, rows, False))
    assert lines[:2] == ["column0   [b]y " + "z" * 100, "column1   1"]
    assert lines[10:15] == ["column10  10", "column11", "─" * 60, "column0   0", "column1   1"]
    assert len(lines) == 25


def test_columns_that_fold_are_not_narrower_than_a_moment(
    on_terminal: Callable[[QueryAnswer], list[str]],
) -> None:
    lines = on_terminal(QueryAnswer(["id", "at"], [("y" * 100, NOON)], False))
    assert any("2026-11-15 12:00:00.007" in line for line in lines)
    three = on_terminal(QueryAnswer(["id", "at", "b"], [("y" * 100, NOON, "z" * 50)], False))
    assert three == ["id  " + "y" * 100, "at  2026-11-15 12:00:00.007", "b   " + "z" * 50]


def test_an_answer_without_rows_names_its_columns(
    on_terminal: Callable[[QueryAnswer], list[str]],
) -> None:
    assert on_terminal(QueryAnswer(["id", "at"], [], False)) == ["id  at"]
