"""Closed descriptors of stdin, stdout and stderr."""

from __future__ import annotations

import os
from typing import Final

STANDARD: Final = range(3)


def hold_standard_descriptors() -> None:
    """Open closed ones to /dev/null. Otherwise a file or socket would get their numbers, and output
    for a terminal would be written into it."""
    for number in STANDARD:
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # gets the lowest free number
