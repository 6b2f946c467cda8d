from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rollq.base.globs import Glob

TABLE = [
    ("*.csv", "a.csv", True),
    ("*.csv", "b/a.csv", False),
    ("**/*.csv", "a.csv", True),
    ("**/*.csv", "b/c/a.csv", True),
    ("b/**/a.csv", "b/a.csv", True),
    ("b/**/a.csv", "b/c/d/a.csv", True),
    ("out/**", "out/a/b", True),
    ("out/**", "output/a", False),
    ("a?c", "abc", True),
    ("a?c", "a/c", False),
    ("[ab].txt", "a.txt", True),
    ("[ab].txt", "c.txt", False),
    ("[!ab].txt", "c.txt", True),
    ("[!ab].txt", "a.txt", False),
    ("x[!a]y", "x/y", False),
    ("**", "a/b", True),
    ("[0-9]*", "7up", True),
    ("[0-9]*", "up", False),
    ("[a-]", "-", True),
    ("[", "[", True),
    ("[!]", "[!]", True),
    ("a.b", "axb", False),
    ("a|b", "a", False),
    ("(a)", "(a)", True),
]


@pytest.mark.parametrize(("pattern", "name", "meant"), TABLE)
def test_patterns(pattern: str, name: str, meant: bool) -> None:
    assert Glob(pattern).matches(name) == meant


@given(st.text(), st.text())
def test_any_text_is_a_pattern(text: str, name: str) -> None:
    assert Glob(text).matches(name) in (True, False)


@given(st.text(alphabet="ab./-", max_size=20))
def test_a_plain_name_means_itself(name: str) -> None:
    assert Glob(name).matches(name)
    assert Glob(f"**/{name}").matches(f"x/y/{name}")


def test_many_stars_take_no_longer() -> None:
    assert not Glob("*a" * 500 + "b").matches("a" * 1_000)
    assert not Glob("**/" * 500 + "b").matches("a/" * 500)
