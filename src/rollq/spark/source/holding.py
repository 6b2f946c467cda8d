"""Decides when a reader reports its position to the group. No IO, no clock.

Each report is a log entry, so reports are infrequent: at the start, after much progress, and in
time to renew the hold. A reader of an idle group writes nothing more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rollq.base.limits import READER_HOLD_MS_MAX

PAUSE_S: Final = 30.0  # the least time between two reports
INDEXES: Final = 1_000  # the least progress between two reports
RENEW_S: Final = READER_HOLD_MS_MAX / 7 / 1000  # a hold expires after seven of these


class Holding:
    """The last report of one reader."""

    def __init__(self) -> None:
        self._reported: dict[str, int] = {}
        self._reported_s: float | None = None  # time of the report; None: never

    def is_due(self, offsets: Mapping[str, int], now_s: float) -> bool:
        """Whether to report that everything before these offsets was read."""
        if self._reported_s is None or now_s - self._reported_s >= RENEW_S:
            return True
        has_much = any(
            index - self._reported.get(group, 0) >= INDEXES for group, index in offsets.items()
        )
        return has_much and now_s - self._reported_s >= PAUSE_S

    def tried(self, offsets: Mapping[str, int], now_s: float) -> None:
        """Record an attempt to report; if it fails, a later one will do."""
        self._reported = dict(offsets)
        self._reported_s = now_s
