"""Faults of disks: failures that stop a member, and damage within the limits of `nemesis`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rollq.store.record import find_headers
from rollq.store.synced import read_vouched
from rollq.testing.sim_member import SimMember

if TYPE_CHECKING:
    from rollq.testing.nemesis import Nemesis

FULL_MARGIN_BYTES = 2_000
ROTTEN_BYTES_MAX = 4_096  # a page
ROT_FOLDERS = ("wal", "wal", "snapshots", "history", "bodies")


def sync_fails(nemesis: Nemesis) -> bool:
    """The next sync of a disk fails and loses its pages."""
    member = nemesis.some_up()
    if member is not None:
        member.disk.fail_next_sync = True
    return member is not None


def write_fails(nemesis: Nemesis) -> bool:
    """The next write to a disk fails."""
    member = nemesis.some_up()
    if member is not None:
        member.disk.fail_next_write = True
    return member is not None


def disk_full(nemesis: Nemesis) -> bool:
    """A disk is full for a while."""
    member = nemesis.some_up()
    if member is None:
        return False
    margin = nemesis.chance.draw(0, FULL_MARGIN_BYTES)
    member.disk.bytes_max = member.disk.used_bytes + margin

    def make_room() -> None:
        member.disk.bytes_max = -1

    nemesis.later(500, 4_000, make_room)
    return True


def disk_slow(nemesis: Nemesis) -> bool:
    """A disk is slow for a while."""
    member = nemesis.chance.pick(nemesis.cluster.members)
    member.disk_ms_max = nemesis.chance.pick((50, 300, 1_000))

    def fast() -> None:
        member.disk_ms_max = 2

    nemesis.later(500, 5_000, fast)
    return True


def rot(nemesis: Nemesis) -> bool:
    """Flip a bit on a disk."""
    member = nemesis.may_damage()
    if member is None:
        return False
    disk, chance = member.disk, nemesis.cluster.streams.disk
    folder = chance.pick(ROT_FOLDERS)
    names = [name for name in disk.names(folder) if not name.endswith(".spare")]
    if not names:
        return False
    name = f"{folder}/{chance.pick(names)}"
    data = disk.read(name, 0, disk.size(name))
    if folder == "wal":
        data = data[: marked_bytes(data, number_of(name), read_vouched(disk).seq)]
    places = [place for place, byte in enumerate(data) if byte]
    if not places:
        return False
    member.damaged = True
    member.rotten_life = member.life
    disk.rot(name, chance.pick(places), chance.draw(0, 8))
    if folder == "history":
        member.rotten_history = (name, disk.read(name, 0, disk.size(name)))
    nemesis.cluster.trace.note(member.name, "rot", name)
    if chance.chance(700) and member.driver is not None:
        member.crash("rotten", power=True)
    return True


def rot_tail(nemesis: Nemesis) -> bool:
    """Corrupt the last synced page of the log, which the mark beside the log covers."""
    member = nemesis.may_damage()
    if member is None:
        return False
    disk, chance = member.disk, nemesis.cluster.streams.disk
    name = f"wal/{[one for one in disk.names('wal') if one.endswith('.log')][-1]}"
    data = disk.read(name, 0, disk.size(name))
    end = marked_bytes(data, number_of(name), read_vouched(disk).seq)
    if end == 0 or data[end:].strip(b"\0"):
        return False  # records newer than the mark: the log decides alone
    member.damaged = True
    member.rotten_life = member.life
    for place in range(max(0, end - chance.draw(1, ROTTEN_BYTES_MAX)), end):
        disk.rot(name, place, chance.draw(0, 8))
    nemesis.cluster.trace.note(member.name, "rot of the tail", name)
    if chance.chance(700) and member.driver is not None:
        member.crash("rotten", power=True)
    return True


def number_of(name: str) -> int:
    """The number of a segment of the log."""
    return int(name.removeprefix("wal/").partition(".")[0])


def marked_bytes(data: bytes, segment: int, vouched_seq: int) -> int:
    """How much of a segment is known to be synced, by a later record or by the mark beside the log.

    Rot in a batch that neither covers looks like a torn write: the log is truncated there, and
    acknowledged data is lost without notice. This is a limit of the format, so the nemesis avoids
    it.
    """
    headers = list(find_headers(data, 0, segment))
    marked = max((header.synced_seq for _, header in headers), default=0)
    marked = max(marked, vouched_seq)
    return max(
        (offset + header.record_bytes for offset, header in headers if header.seq <= marked),
        default=0,
    )


def empty_disk(nemesis: Nemesis) -> bool:
    """Replace a disk by an empty one."""
    member = nemesis.may_damage()
    if member is None:
        return False
    member.damaged = True
    member.replace_disk()
    return True


def old_disk(nemesis: Nemesis) -> bool:
    """Restore the disk of a machine from an earlier image."""
    member = nemesis.may_damage()
    if member is None:
        return False
    images = [image for image, life in member.images if life < member.present_life]
    if not images or member.driver is None or not has_witnesses(nemesis, member):
        return False
    member.damaged = True
    member.past_id = member.driver.raft.member_id
    member.crash("to go back in time", power=False)
    member.disk.restore(nemesis.chance.pick(images))
    return True


def has_witnesses(nemesis: Nemesis, member: SimMember) -> bool:
    """Whether every majority contains a member that knows the boot number of the newer disk. The
    restored member itself does not know it."""
    assert member.driver is not None
    member_id, boot = member.driver.raft.member_id, member.boot
    witnesses = [other for other in nemesis.cluster.members if other.boot_noted(member_id) == boot]
    count = len(nemesis.cluster.members)
    return len(witnesses) >= count - count // 2
