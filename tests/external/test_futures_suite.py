"""Python's own tests of executors end with `rollq.Executor` as is known."""

from __future__ import annotations

import pytest

from tests.external.futures_suite import DIFFERS, NAME, find_tests, run, surprises


# The suite's own waits and a grid's threads are not ours to tidy.
@pytest.mark.filterwarnings("default")
def test_the_suite_of_python() -> None:
    folder = find_tests()
    if folder is None:
        pytest.skip(f"no Python here has {NAME}")
    ended = run(folder)
    assert surprises(ended) == []
    assert len(ended) - len(DIFFERS) >= 20
