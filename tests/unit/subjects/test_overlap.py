"""Overlap and cover: known cases, typed in by hand."""

from __future__ import annotations

import pytest

from rollq.base.errors import RemoteError
from rollq.subjects.overlap import covers, overlaps

# (a, b, overlap, a covers b, b covers a)
CASES = [
    ("a", "a", True, True, True),
    ("a", "A", True, True, True),
    ("a", "b", False, False, False),
    ("a", "a.b", False, False, False),
    ("a.*", "a.b", True, True, False),
    ("a.*", "*.b", True, False, False),
    ("a.*", "*.b.c", False, False, False),
    ("a.*", "a.*.b.>", False, False, False),
    ("a.b.>", "*.b.c", True, False, False),
    ("a.>", "a", True, True, False),  # `>` also stands for nothing
    ("a.>", "a.*", True, True, False),
    ("a.>", "a.*.>", True, True, False),
    ("a.*", "a.>", True, False, True),
    ("a.>", "b.>", False, False, False),
    ("a.>", "*.b", True, False, False),
    ("a.>", "*.>", True, False, True),
    (">", "", True, True, False),
    (">", "*", True, True, False),
    (">", ">.x", True, True, True),
    ("", "", True, True, True),
    ("", "*", False, False, False),
    ("*.*", "*", False, False, False),
    ("a..b", "a.b", True, True, True),
    ("a*", "ab", False, False, False),  # a star inside a token is a plain character
    # A CachePut for all workers of group A, and the patterns such workers have.
    ("job.assign.A.>", "job.assign.a.*", True, True, False),
    ("job.assign.A.>", "job.assign.>", True, False, True),
    ("job.assign.A.>", "job.assign.b.>", False, False, False),
    ("job.assign.*", "job.assign.a.worker-1", False, False, False),
]


@pytest.mark.parametrize(("a", "b", "overlap", "a_covers", "b_covers"), CASES)
def test_known_cases(a: str, b: str, overlap: bool, a_covers: bool, b_covers: bool) -> None:
    assert overlaps(a, b) is overlap
    assert overlaps(b, a) is overlap
    assert covers(a, b) is a_covers
    assert covers(b, a) is b_covers


def test_broken_patterns_are_refused_on_either_side() -> None:
    for compare in (overlaps, covers):
        with pytest.raises(RemoteError):
            compare("a b", "a")
        with pytest.raises(RemoteError):
            compare("a", "a\n")
