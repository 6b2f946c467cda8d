"""References to secrets in jobs."""

from __future__ import annotations

import pytest

from rollq.base.errors import ErrorCode, RemoteError
from rollq.base.job_secrets import asked_for, check_secrets, is_secret_name, secrets_of
from rollq.base.jobs import JobSecret
from rollq.base.limits import SECRET_NAME_BYTES_MAX, SECRETS_PER_JOB_MAX

MARKER = "hunter2/very secret"


def test_a_reference_is_a_variable_and_a_name() -> None:
    asked = {"TOKEN": "github", "KEY": "file:site.key"}
    made = secrets_of(asked)
    assert made == (JobSecret("KEY", "site.key", as_file=True), JobSecret("TOKEN", "github"))
    assert asked_for(made) == asked
    assert secrets_of(dict(reversed(asked.items()))) == made


LONG = "x" * (SECRET_NAME_BYTES_MAX + 1)


@pytest.mark.parametrize("name", ["", "..", "../x", "a/b", ".hidden", "a b", "a\n", "é", LONG])
def test_a_name_is_no_way_to_somewhere_else(name: str) -> None:
    assert not is_secret_name(name)
    with pytest.raises(RemoteError) as caught:
        secrets_of({"TOKEN": name})
    assert caught.value.code is ErrorCode.BAD_PAYLOAD


@pytest.mark.parametrize("variable", ["", "1A", "A=B", "A-B", "ROLLQ_JOB_ID", "X" * 129])
def test_a_variable_must_be_one(variable: str) -> None:
    with pytest.raises(RemoteError):
        secrets_of({variable: "github"})


def test_a_value_in_place_of_a_name_is_not_shown() -> None:
    with pytest.raises(RemoteError) as caught:
        secrets_of({"TOKEN": MARKER})
    assert MARKER not in str(caught.value)
    assert "TOKEN" in str(caught.value)


def test_a_variable_has_one_value() -> None:
    check_secrets(secrets_of({"TOKEN": "a"}), {"MODE"})
    with pytest.raises(RemoteError):
        check_secrets(secrets_of({"TOKEN": "a"}), {"TOKEN"})
    with pytest.raises(RemoteError):
        check_secrets((JobSecret("TOKEN", "a"), JobSecret("TOKEN", "b")))


def test_there_is_a_bound() -> None:
    most = {f"V{number}": "a" for number in range(SECRETS_PER_JOB_MAX)}
    assert len(secrets_of(most)) == SECRETS_PER_JOB_MAX
    with pytest.raises(RemoteError):
        secrets_of(most | {"MORE": "a"})
