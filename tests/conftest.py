"""Options of the whole test tree."""

from __future__ import annotations

import signal

import pytest
from hypothesis import HealthCheck, settings

# No test fails because the machine is busy: how long an example takes says nothing about the code.
PATIENT = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("rollq", PATIENT, max_examples=50)
settings.register_profile("thorough", PATIENT, max_examples=1_000)  # make properties
settings.load_profile("rollq")

# A shell that starts tests in the background has them ignore it, and with them all whom they
# start and interrupt.
signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--rewrite`: scenarios write what they print now, for review of the diff. `--spark`: which
    kind of Spark the tests of it run against."""
    parser.addoption(
        "--rewrite",
        action="store_true",
        default=False,
        help="rewrite the expectations of text scenarios instead of checking them",
    )
    parser.addoption(
        "--spark",
        choices=("local", "standalone", "connect"),
        default="local",
        help="run the tests of Spark in this process, on a master and a worker, or by Connect",
    )


@pytest.fixture
def rewrite(request: pytest.FixtureRequest) -> bool:
    """Whether scenarios shall be rewritten."""
    return bool(request.config.getoption("--rewrite"))
