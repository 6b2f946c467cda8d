"""What a job is given, and in which form."""

from __future__ import annotations

from typing import Any

import pytest

from rollq.base.errors import ErrorCode, RemoteError
from rollq.base.jobs import JobOptions, JobSecret
from rollq.roles.worker.given_secrets import (
    NONE_GIVEN,
    GivenSecrets,
    find_secrets,
    no_file_for_function,
)
from rollq.security.secret import Secret
from rollq.security.vault import NoSecretError, Vault
from rollq.wire.messages import AssignJob

VALUES = {"a": b"value\r\n", "nul": b"a\0b", "raw": b"\xff\n", "h": b"hidden"}
VAULT = Vault(kept={name: Secret(value) for name, value in VALUES.items()})


def found(*asked: JobSecret, env: tuple[str, ...] = (), **how: Any) -> GivenSecrets:
    fence, may_load = how.get("fence", 1), how.get("may_load", False)
    options = JobOptions(secrets=asked) if asked else None
    job = AssignJob(bytes(16), 1, fence, 1, "q", "exe", b"", options)
    return find_secrets(job, how.get("vault", VAULT), env, may_load=may_load)


def test_a_job_that_asks_for_none_is_given_none() -> None:
    assert found() is NONE_GIVEN
    assert not found()
    assert found(vault=None) is NONE_GIVEN


def test_a_variable_has_a_line_and_a_file_has_all() -> None:
    files: dict[str, bytes] = {}

    def make_file(name: str, content: bytes) -> str:
        files[name] = content
        return f"/its/own/{name}"

    given = found(JobSecret("A", "a"), JobSecret("F", "a", True), JobSecret("R", "raw", True))
    assert given.variables(make_file) == {"A": "value", "F": "/its/own/F", "R": "/its/own/R"}
    assert files == {"F": b"value\r\n", "R": b"\xff\n"}
    assert given.masker().mask(b"<value>") == b"<***>"


@pytest.mark.parametrize("name", ["nul", "raw"])
def test_what_a_variable_cannot_hold_is_told_by_its_name(name: str) -> None:
    with pytest.raises(NoSecretError) as caught:
        found(JobSecret("A", name)).variables(no_file_for_function)
    assert caught.value.code is ErrorCode.NO_SECRET
    assert f"A=file:{name}" in str(caught.value)


def test_values_are_not_shown() -> None:
    assert "hidden" not in repr(found(JobSecret("A", "h")))


def test_a_job_of_a_legacy_leader_is_given_none() -> None:
    """Its options are in its body, which no member has looked at."""
    with pytest.raises(RemoteError) as caught:
        found(JobSecret("A", "a"), fence=0)
    assert "legacy" in str(caught.value)


def test_names_are_checked_again_where_they_are_used() -> None:
    for wrong in (JobSecret("A", "../a"), JobSecret("A=B", "a"), JobSecret("ROLLQ_JOB_ID", "a")):
        with pytest.raises(RemoteError):
            found(wrong)
    with pytest.raises(RemoteError):
        found(JobSecret("A", "a"), env=("A",))
    with pytest.raises(RemoteError):
        found(JobSecret("LD_PRELOAD", "a"))
    assert found(JobSecret("LD_PRELOAD", "a"), may_load=True)
    with pytest.raises(NoSecretError):
        found(JobSecret("A", "a"), vault=None)
