"""Every guarantee names tests, and these exist."""

from __future__ import annotations

import re

from tests.features.__main__ import is_there
from tests.tidy.source import ROOT

PAGE = (ROOT / "docs/guarantees.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| (\*\*.*?) \| (.*) \|$", re.MULTILINE)
TEST = re.compile(r"`(tests/[\w./]+)(?:::(\w+))?`")


def test_every_guarantee_names_a_test() -> None:
    rows = ROW.findall(PAGE)
    assert len(rows) == PAGE.count("\n| **")
    assert [promise for promise, shown_by in rows if not TEST.search(shown_by)] == []


def test_the_tests_of_guarantees_are_there() -> None:
    named = TEST.findall(PAGE)
    assert named
    gone = [
        f"{file}::{name}"
        for file, name in named
        if not (is_there(f"{file}::{name}") if name else (ROOT / file).exists())
    ]
    assert gone == []
