"""Runs the tests of all features and prints what became of each: `make features`.

A row is well if it has tests, all of them ran and all passed; a test that is skipped or missing is
a failure. The exit code is 0 if every row is well. `--page` writes docs/features.md instead.
"""

from __future__ import annotations

import argparse
import ast
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final
from xml.etree import ElementTree

from tests.features.rows import PAGE, Row, page, rows

OK: Final = "ok"
MISSING: Final = "missing"
ROOT: Final = PAGE.parents[1]


def main() -> int:
    """Run and print."""
    parser = argparse.ArgumentParser(prog="python -m tests.features", description=__doc__)
    parser.add_argument("--jobs", type=int, default=2, help="processes (2)")
    parser.add_argument("--only", default="", metavar="ID,…", help="these features alone")
    parser.add_argument("--page", action="store_true", help="write docs/features.md")
    options = parser.parse_args()
    if options.page:
        PAGE.write_text(page(), encoding="utf-8")
        return 0
    chosen = rows()
    if options.only:
        chosen = {name: chosen[name] for name in options.only.split(",")}
    tests = dict.fromkeys(test for row in chosen.values() for test in row.tests)
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        argv = [sys.executable, "-m", "pytest", "-n", str(options.jobs), "--dist", "loadfile"]
        # What is printed meanwhile is of pytest; a test that is not there is found by its absence.
        subprocess.run([*argv, f"--junitxml={report}", *_known(tests)], cwd=ROOT, check=False)
        outcomes = read_report(report.read_text(encoding="utf-8") if report.exists() else "")
    return tell(chosen, outcomes)


def tell(chosen: Mapping[str, Row], outcomes: Mapping[str, str]) -> int:
    """Print the table; 0 if every row is well."""
    well_count = 0
    for name, row in chosen.items():
        bad = [
            f"{outcomes.get(test, MISSING)}: {test}"
            for test in row.tests
            if outcomes.get(test, MISSING) != OK
        ]
        is_well = bool(row.tests) and not bad
        well_count += is_well
        print(f"{name:4} {OK if is_well else 'FAILED':7} {row.feature}")
        for line in bad or ([] if row.tests else ["no test"]):
            print(f"     {line}")
        if row.limit:
            print(f"     but: {row.limit}")
    limits = sum(1 for row in chosen.values() if row.limit)
    print(f"\n{well_count} of {len(chosen)}; {limits} with a limit, as said above")
    return 0 if well_count == len(chosen) else 1


def read_report(text: str) -> dict[str, str]:
    """What became of each test, by its node id without parameters: the worst of all of these."""
    found: defaultdict[str, set[str]] = defaultdict(set)
    for case in ElementTree.fromstring(text).iter("testcase") if text else ():
        *folders, file = _before_class(case.get("classname", "").split("."))
        classes = case.get("classname", "").split(".")[len(folders) + 1 :]
        name = case.get("name", "").partition("[")[0]
        bad = {child.tag for child in case if child.tag in ("failure", "error", "skipped")}
        found["::".join(("/".join((*folders, f"{file}.py")), *classes, name))] |= bad or {OK}
    order = ("error", "failure", "skipped", OK)
    return {test: next(word for word in order if word in words) for test, words in found.items()}


def _known(tests: Iterable[str]) -> list[str]:
    """Those that pytest can be asked for: it runs nothing at all if one is not there."""
    return [test for test in tests if is_there(test)]


def _before_class(words: list[str]) -> list[str]:
    """Folders and file of what pytest calls the name of a class."""
    at = next((n for n, word in enumerate(words) if word.startswith("Test")), len(words))
    return words[:at]


def is_there(test: str) -> bool:
    """Whether a file has a test of this name, in the class that is named or in none."""
    path, *names = test.split("::")
    file = ROOT / path
    if not file.is_file():
        return False
    body: list[ast.stmt] = ast.parse(file.read_text(encoding="utf-8")).body
    for name in names:
        found = [one for one in body if getattr(one, "name", "") == name]
        if not found:
            return False
        body = found[0].body if isinstance(found[0], ast.ClassDef) else []
    return bool(names)


if __name__ == "__main__":
    sys.exit(main())
