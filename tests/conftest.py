"""Options of the whole test tree."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--rewrite`: scenarios write what they print now, for review of the diff."""
    parser.addoption(
        "--rewrite",
        action="store_true",
        default=False,
        help="rewrite the expectations of text scenarios instead of checking them",
    )


@pytest.fixture
def rewrite(request: pytest.FixtureRequest) -> bool:
    """Whether scenarios shall be rewritten."""
    return bool(request.config.getoption("--rewrite"))
