"""How many inputs property tests draw."""

from __future__ import annotations

from hypothesis import settings

WHOLE = 100  # the `max_examples` of a profile with which a test draws what it says


def examples(count: int) -> int:
    """So many, in proportion to the profile: half of it in `make test`, ten times as many in
    `make properties`."""
    return max(1, count * settings().max_examples // WHOLE)
