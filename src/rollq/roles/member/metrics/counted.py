"""The numbers of one member, beside those of its jobs: whoever does a thing counts it.

The driver and what belongs to it count for themselves; what the process around it does, it counts
here too, and it says by `shell` what only it knows of this moment.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from rollq.base.counters import JOB_MS, RARE_MS, STEP_US, Family, Histogram
from rollq.base.ids import MemberId

# Of a turn, in their order.
STEPS: Final = ("decide", "propose", "apply", "answer")
# Of a snapshot, in their order.
SNAPSHOT_PHASES: Final = ("write", "publish")


class MemberCounters:
    """Numbers since this process began.

    Attributes:
        step_us: By the steps of a turn that were taken.
        sync_us: Each write to the log with its sync.
        sync_failed: Writes to the log that failed; the member stops after one.
        round_trip_us: By member: from a heartbeat to its answer.
        tick_late_us: How late each tick of the loop came.
        snapshot_ms: By phase.
        snapshots_failed: Those that came to nothing, and are tried again later.
        seal_ms: Each piece of history that got its place among the sealed.
        seals_failed: Those that did not.
        led: How often this member began to lead.
        leader_changes: How often it heard of another leader than before.
        shell: What the process knows of this moment.
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
        self._leader_id: MemberId = 0  # the last that was known
        self.leader_changes = 0
        self.shell: Callable[[], list[Family]] = list

    def follow_leader(self, leader_id: MemberId) -> None:
        """Who leads now, as far as this member knows; 0: nobody."""
        if leader_id and leader_id != self._leader_id:
            self.leader_changes += 1
            self._leader_id = leader_id


class LeaderCounters:
    """Numbers of a member while it leads.

    Attributes:
        commit_us: Its entries, from their proposal until they were applied here.
        wait_ms: Jobs, from the moment when they could start until they were given to a worker.
    """

    __slots__ = ("commit_us", "wait_ms")

    def __init__(self) -> None:
        self.commit_us = Histogram(STEP_US)
        self.wait_ms = Histogram(JOB_MS)
