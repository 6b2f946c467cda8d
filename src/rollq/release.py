"""The version of this installation, and the commit that it was built from, if known.

The build writes the file COMMIT into the package (`hatch_build.py`), so git is not needed here.
"""

from __future__ import annotations

from functools import cache
from importlib.metadata import version
from importlib.resources import files


@cache
def release() -> str:
    """The version, as `0.1.0 (commit 0123456789ab)`, or `0.1.0` in a clone."""
    built_from = files("rollq") / "COMMIT"
    number = version("rollq")
    if not built_from.is_file():
        return number
    return f"{number} (commit {built_from.read_text(encoding='ascii').strip()})"
