"""Durations, measured by the given clock."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from rollq.base.counters import STEP_US, Histogram
from rollq.base.ids import MemberId
from rollq.base.stamp import Clock

LOST_US: Final = 1_000_000  # after so long a heartbeat counts as lost


class StepTimer:
    """Measures consecutive steps of a turn.

    Args:
        clock: Measures.
        step_us: Histograms by step.
    """

    __slots__ = ("_began_us", "_clock", "_step_us")

    def __init__(self, clock: Clock, step_us: Mapping[str, Histogram]) -> None:
        self._clock = clock
        self._step_us = step_us
        self._began_us = 0

    def begin(self) -> None:
        """Start the first step."""
        self._began_us = self._clock.now_us()

    def over(self, step: str) -> None:
        """End a step; the next one starts."""
        now_us = self._clock.now_us()
        self._step_us[step].add(now_us - self._began_us)
        self._began_us = now_us


class RoundTrips:
    """Measures from a heartbeat to a member until its response; one at a time for each.

    Args:
        clock: Measures.
        round_trip_us: Histograms by member.
    """

    __slots__ = ("_clock", "_round_trip_us", "_sent_us")

    def __init__(self, clock: Clock, round_trip_us: dict[MemberId, Histogram]) -> None:
        self._clock = clock
        self._round_trip_us = round_trip_us
        self._sent_us: dict[MemberId, int] = {}  # unanswered heartbeats

    def sent(self, member_id: MemberId) -> None:
        """A heartbeat was sent to a member."""
        now_us = self._clock.now_us()
        if now_us - self._sent_us.get(member_id, 0) > LOST_US:
            self._sent_us[member_id] = now_us

    def answered(self, member_id: MemberId) -> None:
        """A member has responded to a heartbeat."""
        sent_us = self._sent_us.pop(member_id, None)
        if sent_us is not None:
            trips = self._round_trip_us.get(member_id)
            if trips is None:
                trips = self._round_trip_us[member_id] = Histogram(STEP_US)
            trips.add(self._clock.now_us() - sent_us)
