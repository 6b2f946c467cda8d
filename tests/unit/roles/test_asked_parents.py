"""What callers may give as `after`."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from rollq.base.errors import ErrorCode, LocalError
from rollq.base.flow_limits import PARENTS_PER_JOB_MAX
from rollq.base.ids import guid_to_text
from rollq.base.jobs import Condition, JobOptions, ParentRef
from rollq.roles.client.jobs.options import job_options

ID = bytes(range(16))
TEXT = guid_to_text(ID)
OTHER = bytes(range(1, 17))


@pytest.mark.parametrize(
    "given",
    [ID, TEXT, f"{TEXT}:ok", (ID, "ok"), SimpleNamespace(job_id=ID), SimpleNamespace(array_id=ID)],
)
def test_a_job_is_named_in_many_ways(given: Any) -> None:
    assert job_options({"after": [given]}) == JobOptions(after=(ParentRef(ID),))


@pytest.mark.parametrize("given", [(TEXT, "ended"), [ID, "ended"], f"{TEXT}:ended"])
def test_with_a_condition(given: Any) -> None:
    assert job_options({"after": [given]}) == JobOptions(after=(ParentRef(ID, Condition.ENDED),))


def test_twice_is_once_and_none_is_nothing() -> None:
    assert job_options({"after": [ID, TEXT]}) == JobOptions(after=(ParentRef(ID),))
    assert job_options({"after": []}) is None


def test_whoever_has_the_result_waits_for_it_to_end_ok() -> None:
    wanted = JobOptions(after=(ParentRef(ID, Condition.RESULT),))
    assert job_options({"after": [ID, (ID, "result")]}) == wanted
    assert job_options({"after": [(ID, "result"), TEXT]}) == wanted


@pytest.mark.parametrize(
    "given",
    [
        TEXT,
        7,
        ["nonsense"],
        [b"short"],
        [bytes(16)],
        [None],
        [SimpleNamespace(first_id=ID, array_id=b"")],
        [(ID, "perhaps")],
        [(ID, 3)],
        [ID, (ID, "ended")],
        [(ID, "result"), (ID, "ended")],
        [number.to_bytes(16, "big") for number in range(1, PARENTS_PER_JOB_MAX + 2)],
    ],
)
def test_anything_else_is_refused(given: Any) -> None:
    with pytest.raises(LocalError) as error:
        job_options({"after": given})
    assert error.value.code is ErrorCode.BAD_OPTIONS
    assert error.value.hint
