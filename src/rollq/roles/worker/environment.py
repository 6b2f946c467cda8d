"""The environment of jobs: a clean one, and the variables of the job.

A worker may have secrets in its environment, and a job that depends on the variables of one machine
fails on the next. So a program gets the variables that every program needs (`PASSED`), those that
the worker was configured to pass on, and its own.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Final

from rollq.base.environ import PASSED, check_env, check_loads_nothing, fits
from rollq.base.traces import VARIABLE, is_traceparent
from rollq.wire.models import JobRequest

# For processes of functions, which must find the same Python packages as the worker.
INTERPRETER: Final = ("PYTHON*", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "TMPDIR")
NO_ENV: Final[dict[str, str]] = {}


def clean_environ(environ: Mapping[str, str], passed: Sequence[str]) -> list[bytes]:
    """The environment of every program, as NAME=value."""
    names = (*PASSED, *passed)
    return [os.fsencode(f"{name}={value}") for name, value in environ.items() if fits(name, names)]


def env_of(request: JobRequest | None, *, may_load: bool, traceparent: str = "") -> dict[str, str]:
    """The variables of a job, with its trace.

    Args:
        request: The job.
        may_load: Whether variables that make a program load code are permitted.
        traceparent: The span of this attempt; empty: that of the submit.

    Raises:
        RemoteError: BAD_PAYLOAD: a variable is not permitted, on any worker or on this one.
    """
    if request is None:
        return NO_ENV
    env = request.env or NO_ENV
    if env:
        check_env(env)
        if not may_load:
            check_loads_nothing(env)
    traceparent = traceparent or request.traceparent or ""
    if traceparent and is_traceparent(traceparent):
        return {VARIABLE: traceparent} | env
    return env
