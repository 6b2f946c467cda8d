"""When a reader tells members how far it has read. No IO, no clock.

What is told is an entry of the log, so it is told seldom: when it began, when it has read much
since, and in time for members not to forget the reader. A reader of an idle group writes nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rollq.base.limits import READER_HOLD_MS_MAX

PAUSE_S: Final = 30.0  # at least, between two words
INDEXES: Final = 1_000  # so many more are kept than need be
RENEW_S: Final = READER_HOLD_MS_MAX / 7 / 1000  # members forget a reader after seven of these


class Holding:
    """What one reader has told."""

    def __init__(self) -> None:
        self._told: dict[str, int] = {}
        self._told_s: float | None = None  # when; None: never

    def is_due(self, offsets: Mapping[str, int], now_s: float) -> bool:
        """Whether it is time to tell that everything before these was read."""
        if self._told_s is None or now_s - self._told_s >= RENEW_S:
            return True
        has_much = any(
            index - self._told.get(group, 0) >= INDEXES for group, index in offsets.items()
        )
        return has_much and now_s - self._told_s >= PAUSE_S

    def tried(self, offsets: Mapping[str, int], now_s: float) -> None:
        """It is being told now; if no member can be reached, a later message will do."""
        self._told = dict(offsets)
        self._told_s = now_s
