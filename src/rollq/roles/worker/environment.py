"""The environment of jobs: a clean one, and what the job itself asks for.

A worker may hold secrets in its own environment, and a job that depends on what happens to be there
runs on one machine and fails on the next. So a program sees what it needs to run at all (`PASSED`),
what the worker was told to pass on, and its own.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Final

from rollq.base.environ import PASSED, check_env, check_loads_nothing, fits
from rollq.base.traces import VARIABLE, is_traceparent
from rollq.wire.models import JobRequest

# Of processes for functions: they are Python, and must find what the worker's own Python finds.
INTERPRETER: Final = ("PYTHON*", "VIRTUAL_ENV", "LD_LIBRARY_PATH", "TMPDIR")
NO_ENV: Final[dict[str, str]] = {}


def clean_environ(environ: Mapping[str, str], passed: Sequence[str]) -> list[bytes]:
    """What every program sees, as NAME=value."""
    names = (*PASSED, *passed)
    return [os.fsencode(f"{name}={value}") for name, value in environ.items() if fits(name, names)]


def env_of(request: JobRequest | None, *, may_load: bool, traceparent: str = "") -> dict[str, str]:
    """What a job asks for, and the trace that it belongs to.

    Args:
        request: The job.
        may_load: Whether it may also name what makes a program load code.
        traceparent: The span of this attempt; empty: that of the submit is all there is.

    Raises:
        RemoteError: BAD_PAYLOAD; no worker, or not this kind of worker, gives it to a program.
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
