"""Where statements end, and which words may come next."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollq.spark.asking.typing_help import candidates, split_statements


@pytest.mark.parametrize(
    ("text", "statements", "rest"),
    [
        ("", [], ""),
        ("SELECT 1", [], "SELECT 1"),
        ("SELECT 1;", ["SELECT 1"], ""),
        ("SELECT 1; SELECT 2;\n", ["SELECT 1", "SELECT 2"], ""),
        ("SELECT ';'; SELECT 2", ["SELECT ';'"], " SELECT 2"),
        (r"SELECT '\';'; x", [r"SELECT '\';'"], " x"),
        ('SELECT ";" AS `;`;', ['SELECT ";" AS `;`'], ""),
        ("-- not; this\nSELECT 1;", ["-- not; this\nSELECT 1"], ""),
        ("/* a;\nb */ ; ;; -- end", [], ""),
        ("SELECT 'open; x", [], "SELECT 'open; x"),
        ("SELECT 1; /* open; x", ["SELECT 1"], " /* open; x"),
    ],
)
def test_a_semicolon_ends_a_statement(text: str, statements: list[str], rest: str) -> None:
    assert split_statements(text) == (statements, rest)


@given(st.lists(st.text(alphabet="a;'\"`-/*\\ \n", max_size=12), max_size=4))
def test_what_was_split_is_not_split_again(parts: list[str]) -> None:
    statements, _ = split_statements(";".join(parts))
    for one in statements:
        assert split_statements(f"{one}\n;") == ([one], "")


def words(before: str, after: str = "") -> list[str]:
    return [one.text for one in candidates(before, before + after)[1]]


def test_tables_come_where_a_table_is_meant() -> None:
    assert words("SELECT * FROM att") == ["attempts"]
    assert words("select 1 from jobs join gold_e") == ["gold_execs"]
    assert words(r"\d ut") == ["utilisation"]


def test_columns_are_those_of_the_tables_that_are_named() -> None:
    assert words("SELECT run_ms_p9", " FROM execs") == ["run_ms_p95", "run_ms_p99"]
    assert words("SELECT gr", " FROM execs") == ["`group`", "GROUP BY"]
    assert words("SELECT `gr", " FROM execs") == ["`group`", "GROUP BY"]
    assert words("SELECT * FROM execs WHERE execs.wait_ms_p5") == ["wait_ms_p50"]
    assert "worker_id" in words("SELECT work")  # before a table is named, any may be meant


def test_keywords_do_not_follow_a_dot() -> None:
    assert words("SELECT sel") == ["SELECT"]
    assert words("SELECT jobs.sel", " FROM jobs") == []
