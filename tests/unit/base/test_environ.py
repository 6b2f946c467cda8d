"""Names of environment variables: which may be, and which are passed on."""

from __future__ import annotations

import pytest

from rollq.base.environ import check_env, check_loads_nothing, fits, is_name, is_pattern
from rollq.base.errors import RemoteError
from rollq.base.limits import JOB_ENV_BYTES_MAX, JOB_ENV_MAX


def test_names_and_patterns() -> None:
    for name in ("A", "_a1", "LC_ALL"):
        assert is_name(name)
        assert is_pattern(name)
        assert is_pattern(f"{name}*")
    for bad in ("", "1A", "A B", "A=B", "A-B", "é", "A\n"):
        assert not is_name(bad)
        assert not is_pattern(bad)
    assert is_pattern("*")
    assert not is_pattern("A*B")


def test_a_pattern_fits_what_begins_so() -> None:
    assert fits("LC_TIME", ("PATH", "LC_*"))
    assert not fits("LC", ("PATH", "LC_*"))
    assert not fits("PATHS", ("PATH", "LC_*"))
    assert fits("ANY", ("*",))


def test_bounds_are_told() -> None:
    check_env({f"A{number}": "" for number in range(JOB_ENV_MAX)})
    check_env({"A": "x" * (JOB_ENV_BYTES_MAX - 3)})
    for bad in (
        {f"A{number}": "" for number in range(JOB_ENV_MAX + 1)},
        {"A": "x" * (JOB_ENV_BYTES_MAX - 2)},
        {"ROLLQ_TASK": "1"},
        {"A": "\ud800"},
        {"A": "\0"},
        {"A B": ""},
    ):
        with pytest.raises(RemoteError):
            check_env(bad)


def test_what_loads_code_is_named() -> None:
    check_loads_nothing({"MODE": "fast", "HOME": "/", "LANG": "C"})
    for name in ("LD_PRELOAD", "LD_AUDIT", "PATH", "PYTHONSTARTUP", "BASH_ENV", "NODE_OPTIONS"):
        with pytest.raises(RemoteError, match=name):
            check_loads_nothing({name: "x"})
