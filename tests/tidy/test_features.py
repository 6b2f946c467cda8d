"""The table of features: complete, with tests that exist, and on its page."""

from __future__ import annotations

from tests.features.__main__ import OK, is_there, read_report, tell
from tests.features.rows import PAGE, Row, page, rows

# How many there are under each letter.
COUNTS = {"A": 10, "B": 12, "C": 7, "D": 16, "E": 11, "F": 10, "G": 14, "H": 14, "I": 13}
COUNTS |= {"J": 7, "K": 2}

REPORT = """<testsuites><testsuite>
<testcase classname="tests.unit.test_a" name="test_one[1]"/>
<testcase classname="tests.unit.test_a" name="test_one[2]"><failure/></testcase>
<testcase classname="tests.unit.test_a" name="test_two"/>
<testcase classname="tests.unit.test_a.TestIt" name="test_two"><error/></testcase>
<testcase classname="tests.unit.test_a" name="test_three"><skipped/></testcase>
</testsuite></testsuites>"""


def test_every_feature_has_its_row() -> None:
    assert list(rows()) == [f"{k}{n}" for k, count in COUNTS.items() for n in range(1, count + 1)]
    assert len(rows()) == 116


def test_every_test_of_a_feature_is_there() -> None:
    named = {test for row in rows().values() for test in row.tests}
    assert sorted(test for test in named if not is_there(test)) == []
    assert [name for name, row in rows().items() if not row.tests] == []


def test_a_test_is_found_where_it_is_named() -> None:
    here = "tests/tidy/test_features.py"
    assert is_there(f"{here}::test_every_feature_has_its_row")
    assert not is_there(f"{here}::test_nothing")
    assert not is_there(f"{here}::TestIt::test_every_feature_has_its_row")
    assert not is_there("tests/tidy/nowhere.py::test_every_feature_has_its_row")
    in_class = "tests/unit/policy/test_expiry.py::TestLeases::test_backoff_grows_with_the_attempts"
    assert is_there(in_class)
    assert not is_there(in_class.replace("::TestLeases", ""))


def test_the_page_is_that_of_the_table() -> None:
    assert PAGE.read_text(encoding="utf-8") == page(), "run python -m tests.features --page"


def test_a_row_is_well_if_all_of_its_tests_passed() -> None:
    outcomes = read_report(REPORT)
    path = "tests/unit/test_a.py::test_"
    in_class = "tests/unit/test_a.py::TestIt::test_two"
    assert outcomes.pop(in_class) == "error"
    assert outcomes == {f"{path}one": "failure", f"{path}two": OK, f"{path}three": "skipped"}
    for tests, code in (
        ([f"{path}two"], 0),
        ([f"{path}two", f"{path}one"], 1),
        ([f"{path}three"], 1),
        ([f"{path}four"], 1),
        ([], 1),
    ):
        assert tell({"A1": Row("a", "b", tests, "c")}, outcomes) == code
