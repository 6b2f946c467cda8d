"""New ids: chance is asked for many at once, because each question is a call into the system."""

from __future__ import annotations

import os
import secrets
from typing import Final

from rollq.base.ids import GUID_BYTES, JobId

DRAWN_AT_ONCE: Final = 256
_left: list[JobId] = []
os.register_at_fork(after_in_child=_left.clear)  # two processes must not draw the same


def draw_id() -> JobId:
    """Sixteen random bytes that nobody else has."""
    try:
        return _left.pop()
    except IndexError:
        drawn = secrets.token_bytes(GUID_BYTES * DRAWN_AT_ONCE)
        first, *others = (drawn[at : at + GUID_BYTES] for at in range(0, len(drawn), GUID_BYTES))
        _left.extend(others)
        return first
