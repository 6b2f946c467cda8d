"""Checks a state directory: problems and what to do about them. Read only.

Use it on a `LookDisk`. A running member writes at the same time: then the end of its log may look
torn.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from rollq.raft.types import Position
from rollq.store.disk import BROKEN, Disk
from rollq.store.repair import SnapshotRelation, link
from rollq.store.snapshots import Snapshots
from rollq.store.walk import Walk, read_log, segment_numbers

PROBLEM: Final = "problem"  # an operator must act
NOTE: Final = "note"  # for information

REJOIN: Final = (
    "if the group has other members: move the state directory away and start again, the member "
    "then joins as a new one and fetches everything; if it is the only one: restore a backup"
)


@dataclass(slots=True, frozen=True)
class Finding:
    """One finding."""

    severity: str
    what: str
    todo: str = ""


def check(disk: Disk) -> list[Finding]:
    """All findings about identity, log and snapshots.

    Raises:
        DiskError: it cannot be read, or a newer rollq wrote it.
    """
    findings: list[Finding] = []
    snapshots = Snapshots(disk)
    newest = snapshots.newest()
    for name in snapshots.corrupt:
        findings.append(
            Finding(
                PROBLEM,
                f"the snapshot {name} is damaged",
                "start the member: it uses the one before, or fetches one from its peers",
            )
        )
    if not segment_numbers(disk):
        findings.append(_without_log(has_snapshot=newest is not None))
        return findings
    position = Position(newest.term, newest.index) if newest is not None else Position()
    walk = read_log(disk, position.index)
    findings += _judge_head(walk)
    findings += _judge_log(walk, position)
    kept = disk.names(BROKEN)
    if kept:
        findings.append(
            Finding(
                NOTE,
                f"{len(kept)} damaged files are kept in {BROKEN}/",
                "remove them when they are no longer needed for analysis",
            )
        )
    return findings


def _without_log(*, has_snapshot: bool) -> Finding:
    if has_snapshot:
        return Finding(PROBLEM, "there is a snapshot, but the log is gone", REJOIN)
    return Finding(NOTE, "the directory is empty: a member that starts here is a new one")


def _judge_head(walk: Walk) -> list[Finding]:
    head = walk.head
    if head is None:
        return [Finding(PROBLEM, "the log does not say which member it belongs to", REJOIN)]
    identity = head.identity
    group = f"group {head.group}, " if head.group else ""
    findings = [
        Finding(
            NOTE,
            f"member {identity.member_id} at {identity.address} of {group}cluster "
            f"{identity.cluster_id.hex()}, term {walk.hard_state.term}, "
            f"commit {walk.hard_state.commit}, log up to {walk.log.last.index}",
        )
    ]
    if head.suspect is not None:
        findings.append(
            Finding(
                PROBLEM,
                f"corruption destroyed entries up to index {head.suspect.index} that may have been "
                "accepted",
                "start it with its peers: it takes no part in elections until it has them again; "
                "if it is the only member, restore a backup",
            )
        )
    return findings


def _judge_log(walk: Walk, snapshot: Position) -> list[Finding]:
    findings = []
    if walk.corrupt or walk.hole:
        findings.append(
            Finding(
                PROBLEM,
                f"the log is damaged at segment {walk.number}, byte {walk.offset}, where it may "
                "hold accepted jobs",
                "start it with its peers, from whom it fetches them; check the disk; if it is the "
                "only member, restore a backup",
            )
        )
    elif walk.torn:
        findings.append(
            Finding(
                NOTE,
                f"the log ends in a torn write at segment {walk.number}, byte {walk.offset}: it "
                "was never acknowledged",
                "no action is needed: the next start cuts it off and keeps a copy",
            )
        )
    if walk.damage_skipped:
        findings.append(
            Finding(
                NOTE,
                "a damaged record was skipped; all that it held is known from elsewhere",
                "check the disk: the next start writes the log anew",
            )
        )
    if link(walk.log, snapshot) is SnapshotRelation.GAP:
        findings.append(
            Finding(
                PROBLEM,
                f"entries between the snapshot ({snapshot.index}) and the log "
                f"({walk.log.base.index + 1}) are missing",
                REJOIN,
            )
        )
    return findings
