"""Counters of one member, beside those of its jobs: each part counts its own.

The process around the driver counts here too, and adds by `shell` the values that only it has."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rollq.base.counters import JOB_MS, RARE_MS, STEP_US, Family, Histogram
from rollq.base.ids import MemberId

# Steps of a turn, in order.
STEPS: Final = ("decide", "propose", "apply", "answer")
# Phases of a snapshot, in order.
SNAPSHOT_PHASES: Final = ("write", "publish")


class MemberCounters:
    """Counters since this process began.

    Attributes:
        step_us: Durations of the steps of turns, by step.
        sync_us: Duration of each write to the log with its sync.
        sync_failed: Failed writes to the log; the member stops after one.
        round_trip_us: By member: from a heartbeat to its response.
        tick_late_us: Delay of each tick of the loop.
        snapshot_ms: By phase.
        snapshots_failed: Failed snapshots; they are retried later.
        seal_ms: Duration of sealing each part of the history.
        seals_failed: Failed ones.
        led: How often this member was elected.
        leader_changes: How often the known leader changed.
        shell: Returns the metrics of the process.
    """

    __slots__ = (
        "_leader_id",
        "leader_changes",
        "led",
        "round_trip_us",
        "seal_ms",
        "seals_failed",
        "shell",
        "snapshot_ms",
        "snapshots_failed",
        "step_us",
        "sync_failed",
        "sync_us",
        "tick_late_us",
    )

    def __init__(self) -> None:
        self.step_us = {step: Histogram(STEP_US) for step in STEPS}
        self.sync_us = Histogram(STEP_US)
        self.sync_failed = 0
        self.round_trip_us: dict[MemberId, Histogram] = {}
        self.tick_late_us = Histogram(STEP_US)
        self.snapshot_ms = {phase: Histogram(RARE_MS) for phase in SNAPSHOT_PHASES}
        self.snapshots_failed = 0
        self.seal_ms = Histogram(RARE_MS)
        self.seals_failed = 0
        self.led = 0
        self._leader_id: MemberId = 0  # the last known one
        self.leader_changes = 0
        self.shell: Callable[[], list[Family]] = list

    def follow_leader(self, leader_id: MemberId) -> None:
        """Note the present leader; 0: unknown."""
        if leader_id and leader_id != self._leader_id:
            self.leader_changes += 1
            self._leader_id = leader_id


class LeaderCounters:
    """Counters of a member while it leads.

    Attributes:
        commit_us: Its entries, from proposal until applied here.
        wait_ms: Jobs, from runnable until assigned to a worker.
    """

    __slots__ = ("commit_us", "wait_ms")

    def __init__(self) -> None:
        self.commit_us = Histogram(STEP_US)
        self.wait_ms = Histogram(JOB_MS)
