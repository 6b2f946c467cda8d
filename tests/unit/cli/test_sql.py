"""What `rollq sql` writes."""

from __future__ import annotations

import datetime
import decimal
import json
import re
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


def test_a_terminal_gets_a_table_that_folds(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "60")
    write_rows(QueryAnswer(["id", "[b]x"], [("y" * 100, 7)], False), as_csv=False, as_json=False)
    lines = re.sub(r"\x1b\[[\d;]*m", "", capsys.readouterr().out).splitlines()
    assert max(map(len, lines)) <= 60
    assert any("[b]x" in line for line in lines)
    assert sum(line.count("y") for line in lines) == 100
