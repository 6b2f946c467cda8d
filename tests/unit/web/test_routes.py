"""The table of routes, its page and its OpenAPI document say the same."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from rollq.web.openapi import make_document
from rollq.web.routes import API, ROUTES, ApiRoute

PAGE = Path(__file__).parents[3] / "docs" / "api.md"
PLAIN = [f"{row.method} {re.sub(':path', '', row.path)}" for row in ROUTES]


@pytest.mark.parametrize("row", ROUTES, ids=PLAIN)
def test_a_route_stands_on_the_page(row: ApiRoute) -> None:
    shown = f"| `{row.method} {row.path.replace(':path', '')}` |"
    assert PAGE.read_text(encoding="utf-8").count(shown) == 1


def test_the_page_has_no_route_that_is_gone() -> None:
    told = re.findall(r"^\| `((?:GET|POST|PUT|DELETE) [^`]*)` \|", PAGE.read_text("utf-8"), re.M)
    assert Counter(told) == Counter(PLAIN)


def test_the_document_has_every_route() -> None:
    document = make_document(ROUTES, API)
    listed = {
        f"{method.upper()} {path}"
        for path, methods in document["paths"].items()
        for method in methods
    }
    assert listed == set(PLAIN)
    assert msgspec.json.encode(document)


def test_operations_have_names_of_their_own() -> None:
    document = make_document(ROUTES, API)
    names = Counter(
        operation["operationId"]
        for methods in document["paths"].values()
        for operation in methods.values()
    )
    assert max(names.values()) == 1, names.most_common(1)


def test_what_changes_something_asks_for_an_action() -> None:
    """But for sessions, which change nothing of the group."""
    free = {"POST /login", "POST /logout"}
    for row, shown in zip(ROUTES, PLAIN, strict=True):
        assert row.method == "GET" or row.action is not None or shown in free, shown
