"""Injects faults at random times, of the kinds enabled in the swarm.

Limits: a disk that lost acknowledged data (rot, emptied, an older copy) is *damaged* until its
member is a complete voter again, and a majority is never damaged at once, so that no entry can be
lost everywhere. Nor is a disk damaged that may have the only copy of a part of the history: a
member that installed a snapshot must fetch the history it never applied, and rot is found only when
it is read. So both safety and liveness can be demanded after the heal.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from rollq.roles.member.rollcall import JoinPhase
from rollq.testing.clock import MS
from rollq.testing.injectors import disks, network, operations, processes
from rollq.testing.sim_member import SimMember

if TYPE_CHECKING:
    from rollq.testing.cluster import SimCluster


class Nemesis:
    """Injects faults between `start` and `stop`."""

    def __init__(self, cluster: SimCluster) -> None:
        self.cluster = cluster
        self.chance = cluster.streams.schedule
        self.timeline = cluster.timeline
        self.active = False
        self.choke_next = False  # the next leader is isolated at once
        cluster.one_leader.on_elected = partial(network.elected, self)

    def start(self) -> None:
        """Begin to inject faults."""
        self.active = True
        swarm = self.cluster.swarm
        self.cluster.network.faults = swarm.net
        if swarm.faults:
            self.timeline.after(swarm.fault_ms_max * MS, self._inject)

    def stop(self) -> None:
        """Stop injecting faults."""
        self.active = False

    def _inject(self) -> None:
        if not self.active:
            return
        swarm, chance = self.cluster.swarm, self.chance
        self.timeline.after(chance.draw(swarm.fault_ms_min, swarm.fault_ms_max) * MS, self._inject)
        kind = chance.pick(swarm.faults)
        if INJECTORS[kind](self):
            self.cluster.count(kind)
            self.cluster.trace.note("nemesis", kind)

    def later(self, low_ms: int, high_ms: int, action: Callable[[], None]) -> None:
        """Schedule the end of a fault; the heal ends all of them anyway."""
        self.timeline.after(self.chance.draw(low_ms, high_ms) * MS, self.if_active, action)

    def if_active(self, action: Callable[[], None]) -> None:
        """Run an action, unless the heal has begun."""
        if self.active:
            action()

    # --- helpers of the injectors

    def some_up(self) -> SimMember | None:
        """A running member; the leader with a higher probability."""
        up = [m for m in self.cluster.members if m.driver is not None]
        leader = self.cluster.leader()
        if leader is not None and self.chance.chance(350):
            return leader
        return self.chance.pick(up) if up else None

    def shuffled(self, items: list[str]) -> list[str]:
        """A shuffled copy."""
        items = items[:]
        for place in range(len(items) - 1, 0, -1):
            other = self.chance.draw(0, place + 1)
            items[place], items[other] = items[other], items[place]
        return items

    def may_damage(self) -> SimMember | None:
        """A member whose disk may be damaged now within the limits."""
        cluster = self.cluster
        for member in cluster.members:
            # Rot is found when the disk is read, so only a later life proves that it is gone.
            latent = member.doomed or member.life <= member.rotten_life
            if member.damaged and not latent and cluster.is_whole(member):
                member.damaged = False
        damaged = [member for member in cluster.members if member.damaged]
        if len(damaged) + 1 > (len(cluster.members) - 1) // 2 or not cluster.all_voters():
            return None
        whole = [member for member in cluster.members if cluster.is_whole(member)]
        known = [member for member in whole if holds_history(member)]
        spared = known if len(known) == 1 else []
        may = [member for member in whole if known and member not in spared]
        return self.chance.pick(may) if may else None


def is_present(member: SimMember) -> bool:
    """Whether a member takes part in consensus with an intact log."""
    driver = member.driver
    return (
        driver is not None
        and driver.roll.phase is JoinPhase.PRESENT
        and driver.raft.suspect is None
    )


def holds_history(member: SimMember) -> bool:
    """Whether a member that applied everything has the whole history, without rot."""
    driver = member.driver
    if driver is None or driver.replica.history.gaps(driver.state.applied_index):
        return False
    name, content = member.rotten_history
    is_there = bool(name) and member.disk.size(name) == len(content)
    return not is_there or member.disk.read(name, 0, len(content)) != content


INJECTORS: dict[str, Callable[[Nemesis], bool]] = {
    "partition": network.partition,
    "one_way": network.one_way,
    "flap": network.flap,
    "isolate_leader": network.isolate_leader,
    "choke_leader": network.choke_leader,
    "cut_sessions": network.cut_sessions,
    "shut_out": network.shut_out,
    "blackhole": network.blackhole,
    "forge": network.forge,
    "crash_power": processes.crash_power,
    "crash_kill": processes.crash_kill,
    "crash_point": processes.crash_point,
    "crash_disk_op": processes.crash_disk_op,
    "crash_all": processes.crash_all,
    "pause": processes.pause,
    "freeze_leader": processes.freeze_leader,
    "sleep_alone": processes.sleep_alone,
    "clock_jump": processes.clock_jump,
    "clock_stall": processes.clock_stall,
    "sync_fails": disks.sync_fails,
    "write_fails": disks.write_fails,
    "disk_full": disks.disk_full,
    "disk_slow": disks.disk_slow,
    "rot": disks.rot,
    "rot_tail": disks.rot_tail,
    "empty_disk": disks.empty_disk,
    "old_disk": disks.old_disk,
    "worker_crash": operations.worker_crash,
    "worker_pause": operations.worker_pause,
    "worker_drain": operations.worker_drain,
    "worker_busy": operations.worker_busy,
    "worker_programs": operations.worker_programs,
    "worker_rot": operations.worker_rot,
    "blobs_missing": operations.blobs_missing,
    "blobs_damaged": operations.blobs_damaged,
    "client_crash": operations.client_crash,
    "transfer": operations.transfer,
    "remove_member": operations.remove_member,
}
