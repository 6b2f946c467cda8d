"""The encoding of submits: what consecutive jobs share is not what the caller changes later."""

from __future__ import annotations

from typing import Any

import pytest

from rollq.roles.client.jobs.specs import JobSpec
from rollq.roles.client.jobs.supply import SubmitMaker


@pytest.mark.parametrize(
    ("name", "first", "change"),
    [
        ("resources", {"cpu": 1}, lambda given: given.update(cpu=2)),
        ("secrets", {"TOKEN": "one"}, lambda given: given.update(TOKEN="two")),
        ("labels", {"zone=a"}, lambda given: given.add("gpu")),
        ("labels", ["zone=a"], lambda given: given.append("gpu")),
        ("limits", (["db", 1],), lambda given: given[0].__setitem__(1, 2)),
    ],
)
def test_options_that_the_caller_changes_between_two_submits_count(
    name: str, first: Any, change: Any
) -> None:
    make = SubmitMaker("me").make
    before = make(JobSpec("calc", options={name: first}))  # type: ignore[misc]
    change(first)
    after = make(JobSpec("calc", options={name: first}))  # type: ignore[misc]
    assert (
        after.options
        == SubmitMaker("me")
        .make(
            JobSpec("calc", options={name: first})  # type: ignore[misc]
        )
        .options
    )
    assert after.options != before.options


@pytest.mark.parametrize("given", [{"labels": ["gpu"]}, {"resources": {"cpu": 1}}, {"priority": 3}])
def test_equal_options_of_consecutive_jobs_are_encoded_once(given: Any) -> None:
    make = SubmitMaker("me").make
    assert (
        make(JobSpec("calc", options=given)).options is make(JobSpec("calc", options=given)).options
    )
