"""The descriptors of stdin, stdout and stderr, which whoever starts a process may have closed."""

from __future__ import annotations

import os
from typing import Final

STANDARD: Final = range(3)


def hold_standard_descriptors() -> None:
    """Make those that are closed lead nowhere. A file or socket would get their numbers else, and
    what is meant for a terminal would be written into it."""
    for number in STANDARD:
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest that is free
