"""Faults of workers and clients, and what operators do to a group under load."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rollq.raft.types import Role
from rollq.testing.clock import MS
from rollq.testing.workload import BLOB_NUMBERS, TOOLS, blob

if TYPE_CHECKING:
    from rollq.testing.nemesis import Nemesis

BLOBS_MISSING_MAX = 8


def worker_crash(nemesis: Nemesis) -> bool:
    """A worker dies, sometimes with its table."""
    worker = nemesis.chance.pick(nemesis.cluster.workers)
    worker.crash(lose_table=nemesis.chance.chance(300))
    nemesis.later(100, 4_000, worker.start)
    return True


def worker_pause(nemesis: Nemesis) -> bool:
    """A worker is suspended: perhaps beyond its leases."""
    worker = nemesis.chance.pick(nemesis.cluster.workers)
    worker.pause()
    life = worker.life
    nemesis.timeline.after(nemesis.chance.draw(200, 6_000) * MS, lambda: worker.resume(life))
    return True


def worker_drain(nemesis: Nemesis) -> bool:
    """A worker is asked to leave, and comes back later."""
    worker = nemesis.chance.pick(nemesis.cluster.workers)
    worker.drain()
    nemesis.later(1_000, 4_000, worker.start)
    return True


def worker_programs(nemesis: Nemesis) -> bool:
    """Programs come to a worker or go. The first one keeps all, so that every job can run."""
    worker = nemesis.chance.pick(nemesis.cluster.workers[1:])
    worker.find(frozenset(tool for tool in TOOLS if nemesis.chance.chance(500)))
    return True


def worker_rot(nemesis: Nemesis) -> bool:
    """A blob on the disk of a worker rots."""
    return nemesis.chance.pick(nemesis.cluster.workers).files.rot(nemesis.chance)


def blobs_missing(nemesis: Nemesis) -> bool:
    """The group lacks some blobs, until they are uploaded again or found."""
    files = nemesis.cluster.world.files
    for _ in range(nemesis.chance.draw(1, BLOBS_MISSING_MAX)):
        files.missing[blob(nemesis.chance.draw(1, BLOB_NUMBERS)).digest] = None
    nemesis.later(200, 3_000, files.missing.clear)
    return True


def blobs_damaged(nemesis: Nemesis) -> bool:
    """What is fetched from the group often comes damaged, for a while."""
    files = nemesis.cluster.world.files
    files.damaged_per_mille = nemesis.chance.draw(100, 1_000)

    def mend() -> None:
        files.damaged_per_mille = 0

    nemesis.later(200, 3_000, mend)
    return True


def worker_busy(nemesis: Nemesis) -> bool:
    """The machine of a worker is busy."""
    worker = nemesis.chance.pick(nemesis.cluster.workers)
    worker.cpu(busy=True)
    nemesis.later(200, 2_000, lambda: worker.cpu(busy=False))
    return True


def client_crash(nemesis: Nemesis) -> bool:
    """A client dies and comes back under its name."""
    client = nemesis.chance.pick(list(nemesis.cluster.clients.values()))
    client.crash()
    nemesis.later(100, 5_000, client.start)
    return True


def transfer(nemesis: Nemesis) -> bool:
    """An operator hands leadership over."""
    to = nemesis.chance.pick(nemesis.cluster.members)
    if to.driver is None:
        return False
    arguments = {"member_id": to.driver.raft.member_id, "address": to.address}
    nemesis.chance.pick(nemesis.cluster.applications).admin("transfer", arguments)
    return True


def remove_member(nemesis: Nemesis) -> bool:
    """An operator takes a member out, and brings the machine back with an empty disk."""
    member = nemesis.may_damage()
    if member is None or member.driver is None or member.driver.raft.role is Role.LEADER:
        return False
    member.damaged = member.doomed = True
    arguments = {"member_id": member.driver.raft.member_id, "address": member.address}
    nemesis.chance.pick(nemesis.cluster.applications).admin("remove_member", arguments)
    nemesis.later(300, 4_000, member.replace_disk)
    return True
