"""Faults of workers and clients, and actions of operators under load."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rollq.raft.types import Role
from rollq.testing.clock import MS
from rollq.testing.workload import BLOB_NUMBERS, TOOLS, blob

if TYPE_CHECKING:
    from rollq.testing.nemesis import Nemesis

BLOBS_MISSING_MAX = 8


def worker_crash(nemesis: Nemesis) -> bool:
    """Crash a worker, sometimes with the loss of its table."""
    worker = nemesis.chance.pick(nemesis.cluster.workers)
    worker.crash(lose_table=nemesis.chance.chance(300))
    nemesis.later(100, 4_000, worker.start)
    return True


def worker_pause(nemesis: Nemesis) -> bool:
    """Suspend a worker, perhaps for longer than its leases."""
    worker = nemesis.chance.pick(nemesis.cluster.workers)
    worker.pause()
    life = worker.life
    nemesis.timeline.after(nemesis.chance.draw(200, 6_000) * MS, lambda: worker.resume(life))
    return True


def worker_drain(nemesis: Nemesis) -> bool:
    """Drain a worker; it restarts later."""
    worker = nemesis.chance.pick(nemesis.cluster.workers)
    worker.drain()
    nemesis.later(1_000, 4_000, worker.start)
    return True


def worker_programs(nemesis: Nemesis) -> bool:
    """Change the programs of a worker. The first worker keeps all, so that every job can run."""
    worker = nemesis.chance.pick(nemesis.cluster.workers[1:])
    worker.find(frozenset(tool for tool in TOOLS if nemesis.chance.chance(500)))
    return True


def worker_rot(nemesis: Nemesis) -> bool:
    """Corrupt a blob in the cache of a worker."""
    return nemesis.chance.pick(nemesis.cluster.workers).files.rot(nemesis.chance)


def blobs_missing(nemesis: Nemesis) -> bool:
    """The group lacks some blobs until they are uploaded again or recovered."""
    files = nemesis.cluster.world.files
    for _ in range(nemesis.chance.draw(1, BLOBS_MISSING_MAX)):
        files.missing[blob(nemesis.chance.draw(1, BLOB_NUMBERS)).digest] = None
    nemesis.later(200, 3_000, files.missing.clear)
    return True


def blobs_damaged(nemesis: Nemesis) -> bool:
    """Fetches from the group are often corrupt, for a while."""
    files = nemesis.cluster.world.files
    files.damaged_per_mille = nemesis.chance.draw(100, 1_000)

    def mend() -> None:
        files.damaged_per_mille = 0

    nemesis.later(200, 3_000, mend)
    return True


def worker_busy(nemesis: Nemesis) -> bool:
    """The machine of a worker is above its CPU cap for a while."""
    worker = nemesis.chance.pick(nemesis.cluster.workers)
    worker.cpu(busy=True)
    nemesis.later(200, 2_000, lambda: worker.cpu(busy=False))
    return True


def client_crash(nemesis: Nemesis) -> bool:
    """Crash a client; it restarts under its name."""
    client = nemesis.chance.pick(list(nemesis.cluster.clients.values()))
    client.crash()
    nemesis.later(100, 5_000, client.start)
    return True


def transfer(nemesis: Nemesis) -> bool:
    """Transfer leadership."""
    to = nemesis.chance.pick(nemesis.cluster.members)
    if to.driver is None:
        return False
    arguments = {"member_id": to.driver.raft.member_id, "address": to.address}
    nemesis.chance.pick(nemesis.cluster.applications).admin("transfer", arguments)
    return True


def remove_member(nemesis: Nemesis) -> bool:
    """Remove a member; its machine returns later with an empty disk."""
    member = nemesis.may_damage()
    if member is None or member.driver is None or member.driver.raft.role is Role.LEADER:
        return False
    member.damaged = member.doomed = True
    arguments = {"member_id": member.driver.raft.member_id, "address": member.address}
    nemesis.chance.pick(nemesis.cluster.applications).admin("remove_member", arguments)
    nemesis.later(300, 4_000, member.replace_disk)
    return True
