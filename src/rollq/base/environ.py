"""Environment variables of jobs: which names they may have, and which a worker passes on. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Final

from rollq.base.errors import ErrorCode, RemoteError
from rollq.base.limits import JOB_ENV_BYTES_MAX, JOB_ENV_MAX

NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
OURS: Final = "ROLLQ_"  # set by the worker only
# Variables that programs commonly need. TMPDIR is set by the worker.
PASSED: Final = ("PATH", "HOME", "LANG", "LC_*", "TZ")
# With these a job could make a program of the exec directory load code that came with the job. The
# list cannot be complete.
LOADING: Final = (
    *("PATH", "LD_*", "DYLD_*", "GCONV_PATH", "BASH_ENV", "ENV", "SHELLOPTS", "BASHOPTS", "IFS"),
    *("PYTHON*", "PERL5*", "PERLLIB", "RUBY*", "GEM_*", "NODE_*", "LUA_*", "CLASSPATH"),
    *("JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS", "DOTNET_*", "CORECLR_*", "COR_*"),
    *("R_*", "JULIA_*", "OPENSSL_*", "GIT_*"),
)


def is_name(name: str) -> bool:
    """Whether a variable can have this name."""
    return NAME.fullmatch(name) is not None


def is_pattern(text: str) -> bool:
    """Whether this is a name, or a prefix of names followed by *."""
    return text == "*" or is_name(text.removesuffix("*"))


def fits(name: str, patterns: Iterable[str]) -> bool:
    """Whether a name equals one of these, or starts with a prefix that ends with *."""
    return any(name.startswith(one[:-1]) if one.endswith("*") else name == one for one in patterns)


def check_env(env: Mapping[str, str]) -> None:
    """What a job asks for must be possible everywhere.

    Raises:
        RemoteError: BAD_PAYLOAD.
    """
    if len(env) > JOB_ENV_MAX:
        raise _bad(f"{len(env)} environment variables", f"use up to {JOB_ENV_MAX}")
    size = 0
    for name, value in env.items():
        if not is_name(name):
            raise _bad(
                f"no environment variable can be named {name[:64]!r}",
                "use a-z, A-Z, 0-9 and _, and no digit first",
            )
        if name.startswith(OURS):
            raise _bad(f"{name[:64]} is set by rollq itself", "choose another name")
        try:
            size += len(name) + len(value.encode()) + 2
        except UnicodeEncodeError:
            raise _bad(f"the value of {name[:64]} is not text", "encode it as text") from None
        if "\0" in value:
            raise _bad(f"the value of {name[:64]} holds a NUL", "leave it out")
    if size > JOB_ENV_BYTES_MAX:
        raise _bad(
            f"the environment takes {size} bytes, more than {JOB_ENV_BYTES_MAX}",
            "put long values into a file of the job",
        )


def check_loads_nothing(env: Mapping[str, str]) -> None:
    """For a worker that runs no programs that come with their jobs.

    Raises:
        RemoteError: BAD_PAYLOAD.
    """
    for name in env:
        if fits(name, LOADING):
            raise _bad(
                f"the variable {name[:64]} could make a program load code of the job",
                "leave it out, or start the worker with --allow-shipped-execs",
            )


def _bad(what: str, hint: str) -> RemoteError:
    return RemoteError(ErrorCode.BAD_PAYLOAD, what, hint)
