"""The one who breaks things: strikes at drawn times with the faults that the swarm allows.

The fault atlas: a disk that loses what it promised (rot, emptied, an older copy) is *damaged* until
its member is a whole voter again, and never so many at once that a majority could have lost the
same entry. So after the heal both safety and liveness may be demanded.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from rollq.raft.types import Role
from rollq.roles.member.rollcall import Phase
from rollq.testing.clock import MS
from rollq.testing.sim_member import SimMember

if TYPE_CHECKING:
    from rollq.testing.cluster import Cluster

CRASH_POINTS = (
    "turn_begun",
    "ready_taken",
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
FULL_MARGIN_BYTES = 2_000
ROT_FOLDERS = ("wal", "wal", "snapshots", "history")


class Nemesis:
    """Strikes until it is told to stop."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._chance = cluster.streams.schedule
        self._timeline = cluster.timeline
        self._active = False
        self._choke_next = False
        cluster.one_leader.on_elected = self._elected

    def start(self) -> None:
        """Begin to strike."""
        self._active = True
        swarm = self._cluster.swarm
        self._cluster.network.faults = swarm.net
        if swarm.faults:
            self._timeline.after(swarm.fault_ms_max * MS, self._strike)

    def stop(self) -> None:
        """No more faults."""
        self._active = False

    def _strike(self) -> None:
        if not self._active:
            return
        swarm, chance = self._cluster.swarm, self._chance
        self._timeline.after(chance.draw(swarm.fault_ms_min, swarm.fault_ms_max) * MS, self._strike)
        kind = chance.pick(swarm.faults)
        if STRIKES[kind](self):
            self._cluster.count(kind)
            self._cluster.trace.note("nemesis", kind)

    def _later(self, low_ms: int, high_ms: int, action: Callable[[], None]) -> None:
        """Undo a fault after a while; the heal undoes all of them anyway."""
        self._timeline.after(self._chance.draw(low_ms, high_ms) * MS, self._if_active, action)

    def _if_active(self, action: Callable[[], None]) -> None:
        if self._active:
            action()

    # --- network

    def _partition(self) -> bool:
        addresses = self._shuffled([member.address for member in self._cluster.members])
        cut = self._chance.draw(1, len(addresses))
        self._block([(a, b) for a in addresses[:cut] for b in addresses[cut:]], both=True)
        return True

    def _one_way(self) -> bool:
        addresses = self._shuffled([member.address for member in self._cluster.members])
        self._block([(addresses[0], other) for other in addresses[1:]], both=False)
        return True

    def _isolate_leader(self) -> bool:
        leader = self._cluster.leader()
        if leader is None:
            return False
        others = [m.address for m in self._cluster.members if m is not leader]
        pairs = [(leader.address, other) for other in others]
        self._block(pairs, both=self._chance.chance(700))
        return True

    def _choke_leader(self) -> bool:
        """Whoever is elected next speaks to nobody, or to one member only, from its first word."""
        self._choke_next = True
        leader = self._cluster.leader()
        if leader is not None and self._chance.chance(700):
            self._isolate_leader()
        return True

    def _elected(self, member: SimMember) -> None:
        if not self._active or not self._choke_next:
            return
        self._choke_next = False
        others = self._shuffled([m.address for m in self._cluster.members if m is not member])
        heard = self._chance.draw(0, 2)
        self._block([(member.address, other) for other in others[heard:]], both=False)

    def _flap(self) -> bool:
        a, b = self._shuffled([member.address for member in self._cluster.members])[:2]
        for time in range(self._chance.draw(2, 6)):
            self._timeline.after(time * 300 * MS, self._if_active, lambda: self._toggle(a, b))
        return True

    def _toggle(self, a: str, b: str) -> None:
        blocked = self._cluster.network.blocked
        for pair in ((a, b), (b, a)):
            if pair in blocked:
                del blocked[pair]
            else:
                blocked[pair] = None

    def _block(self, pairs: list[tuple[str, str]], *, both: bool) -> None:
        pairs = pairs + [(b, a) for a, b in pairs] if both else pairs
        blocked = self._cluster.network.blocked
        for pair in pairs:
            blocked[pair] = None
            if self._chance.chance(300):  # some connections notice at once
                self._cluster.by_address[pair[1]].link_broke(pair[0])

        def unblock() -> None:
            for pair in pairs:
                blocked.pop(pair, None)

        self._later(200, 4_000, unblock)

    def _cut_sessions(self) -> bool:
        links = list(self._cluster.network.links.values())
        for link in links:
            if self._chance.chance(500):
                self._cluster.network.cut(link)
        return bool(links)

    def _shut_out(self) -> bool:
        """No client and no worker reaches this member for a while."""
        network = self._cluster.network
        address = self._chance.pick(self._cluster.members).address
        network.shut[address] = None
        for link in [link for link in network.links.values() if link.member.address == address]:
            network.cut(link)

        def let_in() -> None:
            network.shut.pop(address, None)

        self._later(300, 3_000, let_in)
        return True

    # --- processes

    def _crash_power(self) -> bool:
        return self._crash(self._some_up(), power=True)

    def _crash_kill(self) -> bool:
        return self._crash(self._some_up(), power=False)

    def _crash(self, member: SimMember | None, *, power: bool) -> bool:
        if member is None:
            return False
        member.crash("by the nemesis", power=power)
        self._tell_links(member)
        return True

    def _tell_links(self, dead: SimMember) -> None:
        """A process that ends closes its connections; a machine that ends does not."""
        for member in self._cluster.members:
            if member is not dead and self._chance.chance(500):
                member.link_broke(dead.address)

    def _crash_point(self) -> bool:
        member = self._some_up()
        if member is not None:
            member.armed_point = self._chance.pick(CRASH_POINTS)
        return False  # counted when it strikes, by the name of the point

    def _crash_disk_op(self) -> bool:
        member = self._some_up()
        if member is None:
            return False
        member.disk.crash_at(member.disk.op_count + self._chance.draw(1, 40))
        return True

    def _crash_all(self) -> bool:
        power = self._chance.chance(700)
        for member in self._cluster.members:
            if member.driver is not None:
                member.crash("all at once", power=power)
        return True

    def _pause(self) -> bool:
        member = self._some_up()
        if member is None:
            return False
        member.pause()
        life = member.life
        self._timeline.after(self._chance.draw(100, 5_000) * MS, lambda: member.resume(life))
        return True

    def _clock_jump(self) -> bool:
        chance = self._cluster.streams.clock
        chance.pick(self._cluster.members).clock.jump(chance.pick((-3_600_000, 3_600_000, -500)))
        return True

    def _clock_stall(self) -> bool:
        chance = self._cluster.streams.clock
        chance.pick(self._cluster.members).clock.stall(chance.draw(100, 5_000))
        return True

    # --- disks

    def _sync_fails(self) -> bool:
        member = self._some_up()
        if member is not None:
            member.disk.fail_next_sync = True
        return member is not None

    def _write_fails(self) -> bool:
        member = self._some_up()
        if member is not None:
            member.disk.fail_next_write = True
        return member is not None

    def _disk_full(self) -> bool:
        member = self._some_up()
        if member is None:
            return False
        margin = self._chance.draw(0, FULL_MARGIN_BYTES)
        member.disk.bytes_max = member.disk.used_bytes + margin

        def make_room() -> None:
            member.disk.bytes_max = -1

        self._later(500, 4_000, make_room)
        return True

    def _disk_slow(self) -> bool:
        member = self._chance.pick(self._cluster.members)
        member.disk_ms_max = self._chance.pick((50, 300, 1_000))

        def fast() -> None:
            member.disk_ms_max = 2

        self._later(500, 5_000, fast)
        return True

    def _rot(self) -> bool:
        member = self._may_damage()
        if member is None:
            return False
        disk, chance = member.disk, self._cluster.streams.disk
        folder = chance.pick(ROT_FOLDERS)
        names = disk.names(folder)
        if not names:
            return False
        name = f"{folder}/{chance.pick(names)}"
        data = disk.read(name, 0, disk.size(name))
        places = [place for place, byte in enumerate(data) if byte] or [0]
        if not data:
            return False
        member.damaged = True
        member.rotten_life = member.life
        disk.rot(name, chance.pick(places), chance.draw(0, 8))
        self._cluster.trace.note(member.name, "rot", name)
        if chance.chance(700) and member.driver is not None:
            member.crash("rotten", power=True)
        return True

    def _empty_disk(self) -> bool:
        member = self._may_damage()
        if member is None:
            return False
        member.damaged = True
        member.replace_disk()
        return True

    def _old_disk(self) -> bool:
        member = self._may_damage()
        if member is None:
            return False
        images = [image for image, life in member.images if life < member.present_life]
        if not images or member.driver is None or not self._has_witnesses(member):
            return False
        member.damaged = True
        member.past_id = member.driver.raft.member_id
        member.crash("to go back in time", power=False)
        member.disk.restore(self._chance.pick(images))
        return True

    def _has_witnesses(self, member: SimMember) -> bool:
        """Whether no majority could form around an older copy without somebody who knows better.
        The copy itself has forgotten, so it is no witness."""
        assert member.driver is not None
        member_id, boot = member.driver.raft.member_id, member.boot
        witnesses = [
            other for other in self._cluster.members if other.boot_noted(member_id) == boot
        ]
        count = len(self._cluster.members)
        return len(witnesses) >= count - count // 2

    def _may_damage(self) -> SimMember | None:
        """A member whose disk may be damaged now without breaking the atlas."""
        cluster = self._cluster
        for member in cluster.members:
            # Rot is found when the disk is read, so a life that began before it proves nothing.
            latent = member.doomed or member.life <= member.rotten_life
            if member.damaged and not latent and cluster.is_whole(member):
                member.damaged = False
        damaged = [member for member in cluster.members if member.damaged]
        if len(damaged) + 1 > (len(cluster.members) - 1) // 2 or not cluster.all_voters():
            return None
        whole = [member for member in cluster.members if cluster.is_whole(member)]
        return self._chance.pick(whole) if whole else None

    # --- people

    def _worker_crash(self) -> bool:
        worker = self._chance.pick(self._cluster.workers)
        worker.crash(lose_table=self._chance.chance(300))
        self._later(100, 4_000, worker.start)
        return True

    def _worker_pause(self) -> bool:
        worker = self._chance.pick(self._cluster.workers)
        worker.pause()
        life = worker.life
        self._timeline.after(self._chance.draw(200, 6_000) * MS, lambda: worker.resume(life))
        return True

    def _worker_drain(self) -> bool:
        worker = self._chance.pick(self._cluster.workers)
        worker.drain()
        self._later(1_000, 4_000, worker.start)
        return True

    def _worker_busy(self) -> bool:
        worker = self._chance.pick(self._cluster.workers)
        worker.cpu(busy=True)
        self._later(200, 2_000, lambda: worker.cpu(busy=False))
        return True

    def _client_crash(self) -> bool:
        client = self._chance.pick(list(self._cluster.clients.values()))
        client.crash()
        self._later(100, 5_000, client.start)
        return True

    def _transfer(self) -> bool:
        to = self._chance.pick(self._cluster.members)
        if to.driver is None:
            return False
        arguments = {"member_id": to.driver.raft.member_id, "address": to.address}
        self._chance.pick(self._cluster.applications).admin("transfer", arguments)
        return True

    def _remove_member(self) -> bool:
        """An operator takes a member out, and brings the machine back with an empty disk."""
        member = self._may_damage()
        if member is None or member.driver is None or member.driver.raft.role is Role.LEADER:
            return False
        member.damaged = member.doomed = True
        arguments = {"member_id": member.driver.raft.member_id, "address": member.address}
        self._chance.pick(self._cluster.applications).admin("remove_member", arguments)
        self._later(300, 4_000, member.replace_disk)
        return True

    # --- helpers

    def _some_up(self) -> SimMember | None:
        up = [m for m in self._cluster.members if m.driver is not None]
        leader = self._cluster.leader()
        if leader is not None and self._chance.chance(350):
            return leader
        return self._chance.pick(up) if up else None

    def _shuffled(self, items: list[str]) -> list[str]:
        items = items[:]
        for place in range(len(items) - 1, 0, -1):
            other = self._chance.draw(0, place + 1)
            items[place], items[other] = items[other], items[place]
        return items


def is_present(member: SimMember) -> bool:
    """Whether a member takes part in consensus with a sound log."""
    driver = member.driver
    return driver is not None and driver.roll.phase is Phase.PRESENT and driver.raft.suspect is None


STRIKES: dict[str, Callable[[Nemesis], bool]] = {
    "partition": Nemesis._partition,
    "one_way": Nemesis._one_way,
    "flap": Nemesis._flap,
    "isolate_leader": Nemesis._isolate_leader,
    "choke_leader": Nemesis._choke_leader,
    "cut_sessions": Nemesis._cut_sessions,
    "shut_out": Nemesis._shut_out,
    "crash_power": Nemesis._crash_power,
    "crash_kill": Nemesis._crash_kill,
    "crash_point": Nemesis._crash_point,
    "crash_disk_op": Nemesis._crash_disk_op,
    "crash_all": Nemesis._crash_all,
    "pause": Nemesis._pause,
    "clock_jump": Nemesis._clock_jump,
    "clock_stall": Nemesis._clock_stall,
    "sync_fails": Nemesis._sync_fails,
    "write_fails": Nemesis._write_fails,
    "disk_full": Nemesis._disk_full,
    "disk_slow": Nemesis._disk_slow,
    "rot": Nemesis._rot,
    "empty_disk": Nemesis._empty_disk,
    "old_disk": Nemesis._old_disk,
    "worker_crash": Nemesis._worker_crash,
    "worker_pause": Nemesis._worker_pause,
    "worker_drain": Nemesis._worker_drain,
    "worker_busy": Nemesis._worker_busy,
    "client_crash": Nemesis._client_crash,
    "transfer": Nemesis._transfer,
    "remove_member": Nemesis._remove_member,
}
