"""References to secrets in jobs. Pure; no value of a secret is handled here.

`{"TOKEN": "github"}` sets the variable TOKEN to the secret `github` in the vault of the worker;
`{"KEY": "file:site.key"}` writes it to a file, whose path is in the variable KEY.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Final

from rollq.base.environ import OURS, is_name
from rollq.base.errors import ErrorCode, RemoteError
from rollq.base.jobs import JobSecret
from rollq.base.limits import SECRET_NAME_BYTES_MAX, SECRETS_PER_JOB_MAX

AS_FILE: Final = "file:"
# No slash, and no leading dot: a name is never a path to somewhere else.
NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def secrets_of(asked: Mapping[str, str]) -> tuple[JobSecret, ...]:
    """The references that variables are to be given, by the order of the variables: the same
    secrets are equal.

    Raises:
        RemoteError: BAD_PAYLOAD; no worker can give these.
    """
    made = tuple(
        JobSecret(variable, said.removeprefix(AS_FILE), said.startswith(AS_FILE))
        for variable, said in sorted(asked.items())
    )
    check_secrets(made)
    return made


def asked_for(secrets: Collection[JobSecret]) -> dict[str, str]:
    """The inverse of `secrets_of`."""
    return {one.variable: AS_FILE * one.as_file + one.name for one in secrets}


def check_secrets(secrets: Collection[JobSecret], env: Collection[str] = ()) -> None:
    """What a job asks for must be possible everywhere.

    Args:
        secrets: Its references.
        env: The names of its own environment variables.

    Raises:
        RemoteError: BAD_PAYLOAD.
    """
    if len(secrets) > SECRETS_PER_JOB_MAX:
        raise _bad(f"{len(secrets)} secrets", f"use up to {SECRETS_PER_JOB_MAX}")
    taken = set(env)
    for one in secrets:
        # It is not shown: somebody may have written the secret itself in the place of its name.
        if not is_secret_name(one.name):
            raise _bad(
                f"the name of the secret for {one.variable[:64]!r} is not valid",
                "give the name of a secret of the vault, not its value: a-z, A-Z, 0-9, . _ -",
            )
        variable = one.variable
        if not is_name(variable) or len(variable) > SECRET_NAME_BYTES_MAX:
            raise _bad(
                f"no environment variable can be named {variable[:64]!r}",
                "use a-z, A-Z, 0-9 and _, and no digit first",
            )
        if variable.startswith(OURS):
            raise _bad(f"{variable[:64]} is set by rollq itself", "choose another name")
        if variable in taken:
            raise _bad(f"{variable[:64]} is given two values", "name it once")
        taken.add(variable)


def is_secret_name(name: str) -> bool:
    """Whether a vault can have a secret of this name."""
    return len(name) <= SECRET_NAME_BYTES_MAX and NAME.fullmatch(name) is not None


def _bad(what: str, hint: str) -> RemoteError:
    return RemoteError(ErrorCode.BAD_PAYLOAD, what, hint)
