"""Faults of processes and clocks: crashes at any point, suspension, and clock jumps."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rollq.testing.clock import MS
from rollq.testing.injectors import network
from rollq.testing.sim_member import SimMember

if TYPE_CHECKING:
    from rollq.testing.nemesis import Nemesis

HOUR_MS = 3_600_000
JUMPS_MS = (-HOUR_MS, HOUR_MS, -500, 24 * HOUR_MS, -24 * HOUR_MS)
CRASH_POINTS = (
    "turn_begun",
    "ready_taken",
    "applied_meanwhile",
    "written_not_synced",
    "synced",
    "persisted",
    "sent_after_persist",
    "applied",
    "snapshot_written",
    "history_sealed",
    "snapshot_saved",
    "log_compacted",
    "snapshot_received",
)


def crash_power(nemesis: Nemesis) -> bool:
    """Power cut of a member's machine."""
    return crash(nemesis, nemesis.some_up(), power=True)


def crash_kill(nemesis: Nemesis) -> bool:
    """Kill a member's process; unsynced data survives in the page cache."""
    return crash(nemesis, nemesis.some_up(), power=False)


def crash(nemesis: Nemesis, member: SimMember | None, *, power: bool) -> bool:
    """Crash a member now."""
    if member is None:
        return False
    member.crash("by the nemesis", power=power)
    tell_links(nemesis, member)
    return True


def tell_links(nemesis: Nemesis, dead: SimMember) -> None:
    """The kernel closes the connections of a killed process; after a power cut nobody does."""
    for member in nemesis.cluster.members:
        if member is not dead and nemesis.chance.chance(500):
            member.link_broke(dead.address)


def crash_point(nemesis: Nemesis) -> bool:
    """Crash a member at a named point of its loop, later."""
    member = nemesis.some_up()
    if member is not None:
        member.armed_point = nemesis.chance.pick(CRASH_POINTS)
    return False  # counted at the crash, by the name of the point


def crash_disk_op(nemesis: Nemesis) -> bool:
    """Power cut of a machine at a later disk operation."""
    member = nemesis.some_up()
    if member is None:
        return False
    member.disk.crash_at(member.disk.op_count + nemesis.chance.draw(1, 40))
    return True


def crash_all(nemesis: Nemesis) -> bool:
    """Crash all members at once."""
    power = nemesis.chance.chance(700)
    for member in nemesis.cluster.members:
        if member.driver is not None:
            member.crash("all at once", power=power)
    return True


def pause(nemesis: Nemesis) -> bool:
    """Suspend a process for a while."""
    member = nemesis.some_up()
    if member is None:
        return False
    member.pause()
    life = member.life
    nemesis.timeline.after(nemesis.chance.draw(100, 5_000) * MS, lambda: member.resume(life))
    return True


def freeze_leader(nemesis: Nemesis) -> bool:
    """Suspend the leader's process for long: its sockets stay open."""
    leader = nemesis.cluster.leader()
    if leader is None:
        return False
    leader.pause()
    life = leader.life
    nemesis.later(6_000, 15_000, lambda: leader.resume(life))
    return True


def sleep_alone(nemesis: Nemesis) -> bool:
    """Isolate and suspend the leader; it resumes still isolated, and believes that it leads."""
    leader = nemesis.cluster.leader()
    if leader is None:
        return False
    others = [m.address for m in nemesis.cluster.members if m is not leader]
    network.block(nemesis, [(leader.address, other) for other in others], both=True, low_ms=2_500)
    leader.pause()
    life = leader.life
    wakes_ms = nemesis.chance.draw(900, 2_400)
    nemesis.timeline.after(wakes_ms * MS, lambda: leader.resume(life))
    return True


def clock_jump(nemesis: Nemesis) -> bool:
    """Set the wall clock of a member."""
    chance = nemesis.cluster.streams.clock
    chance.pick(nemesis.cluster.members).clock.jump(chance.pick(JUMPS_MS))
    return True


def clock_stall(nemesis: Nemesis) -> bool:
    """Suspend a machine: its monotonic clock leaps."""
    chance = nemesis.cluster.streams.clock
    chance.pick(nemesis.cluster.members).clock.stall(chance.draw(100, 5_000))
    return True
