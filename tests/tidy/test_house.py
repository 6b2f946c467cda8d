"""`make house` finds what is there."""

from __future__ import annotations

import pytest

from tests.tidy.house import FINDERS


@pytest.mark.parametrize(
    ("key", "place"),
    [
        ("names-on-client", "submit"),
        ("exit-code-fields", "AckJob"),
        ("class-names-in-modules", "AckJob"),
        ("class-names-in-packages", "AckJob"),
        ("long-calls", "to "),
        ("type-ignores", "type: ignore"),
        ("comments-in-policy", "src/rollq/policy/"),
        ("comments-in-grid", "src/rollq/grid/"),
        ("patched-constants", "CHUNK_JOBS"),
    ],
)
def test_a_figure_has_places(key: str, place: str) -> None:
    assert any(place in found for found in FINDERS[key]())
