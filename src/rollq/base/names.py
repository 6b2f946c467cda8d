"""The rule for names of programs and functions. One place, because they become file names."""

from __future__ import annotations

import re
from typing import Final

EXEC_NAME_CHARS_MAX: Final = 64
_EXEC_NAME: Final = re.compile(rf"[A-Za-z0-9_.-]{{1,{EXEC_NAME_CHARS_MAX}}}")


def is_exec_name(name: str) -> bool:
    """Whether a worker would look for a program or function of this name at all."""
    return _EXEC_NAME.fullmatch(name) is not None
