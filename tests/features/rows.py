"""The features that rollq was asked for, as `features.toml` has them."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Final

import msgspec

FILE: Final = Path(__file__).with_name("features.toml")
PAGE: Final = FILE.parents[2] / "docs" / "features.md"
HEAD: Final = """\
# Features

What rollq was asked for, and the tests that show it. `make features` runs these tests and prints
this table with what became of each. Made by `python -m tests.features --page` from
`tests/features/features.toml`; the last column says what is not so, or not shown by the tests.

"""


class Row(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One feature. `limit` says what is not so, or not shown."""

    area: str
    feature: str
    tests: list[str]
    how: str
    limit: str = ""


def rows() -> dict[str, Row]:
    """All of them by their ids, in their order."""
    return msgspec.convert(tomllib.loads(FILE.read_text(encoding="utf-8")), dict[str, Row])


def page() -> str:
    """The page docs/features.md."""
    parts = [HEAD.rstrip("\n") + "\n"]
    area = ""
    for name, row in rows().items():
        if row.area != area:
            area = row.area
            parts.append(f"\n## {area}\n\n| | Feature | How it is shown | Tests | But |\n")
            parts.append("|---|---|---|---|---|\n")
        tests = "<br>".join(f"`{_short(test)}`" for test in row.tests)
        parts.append(f"| {name} | {row.feature} | {row.how} | {tests} | {row.limit} |\n")
    return "".join(parts)


def _short(test: str) -> str:
    """Folder, file and name."""
    path, *_, name = test.removeprefix("tests/").split("::")
    return f"{path.removesuffix('.py').replace('/test_', '/')}: {name.removeprefix('test_')}"
