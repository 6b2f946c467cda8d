"""The fixture that users' tests ask for, in a run of pytest as they have it."""

from __future__ import annotations

import pytest

from rollq import pytest_plugin

pytest_plugins = ["pytester"]

TASKS = """
from rollq import task

@task
def double(n: int) -> int:
    return 2 * n

@task
async def triple(n: int) -> int:
    return 3 * n
"""
TESTS = """
import pytest

@pytest.mark.rollq("their_tasks", slots=1)
def test_functions(rollq_grid):
    with rollq_grid.client() as client:
        assert client.submit("double", ["21"]).result(timeout=60).json() == 42
        assert client.submit("triple", ["14"]).result(timeout=60).json() == 42
        assert [worker.slots for worker in client.admin.workers()] == [1]

def test_a_program(rollq_grid):
    rollq_grid.add_program("greet", "#!/bin/sh\\necho hello $1\\n")
    with rollq_grid.client() as client:
        assert client.submit("greet", ["you"]).result(timeout=60).stdout == "hello you\\n"

def test_a_member_that_is_started_again_has_what_it_accepted(rollq_grid):
    with rollq_grid.client() as client:
        job = client.submit("nobody-has-this")
        rollq_grid.stop_member()
        rollq_grid.start_member()
        assert client.status(job.id).state == "waiting"
"""


def test_tests_of_users_have_a_grid(pytester: pytest.Pytester) -> None:
    pytester.makeconftest(f"pytest_plugins = [{pytest_plugin.__name__!r}]")
    pytester.makepyfile(their_tasks=TASKS, test_theirs=TESTS)
    run = pytester.runpytest_subprocess("--strict-markers")
    run.assert_outcomes(passed=3)
