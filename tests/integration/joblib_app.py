"""Functions that joblib calls."""

from __future__ import annotations

from rollq import task


@task
def square(n: int, plus: int = 0) -> int:
    """A value of a value."""
    return n * n + plus


@task
def refuse(n: int, bad: int) -> int:
    """Not this one."""
    if n == bad:
        raise ValueError(f"not {bad}")
    return n
