"""Status of the group: its members, and the progress of each. Only the leader knows the progress of
the others."""

from __future__ import annotations

from typing import Final

import msgspec

from rollq.base.disk_use import DiskUse
from rollq.base.ids import MemberId
from rollq.grid.state import GridState
from rollq.raft.node import RaftNode
from rollq.raft.progress import ProgressState, ProgressView
from rollq.roles.member.reports import Alarm, Reports

UNKNOWN: Final = "unknown"


class MemberView(msgspec.Struct, frozen=True):
    """One member. `match` is the last log index that it is known to hold, `lag` how many entries it
    lacks, which means nothing unless it is active. If `state` is UNKNOWN, `match`, `lag` and
    `active` mean nothing: only the leader knows."""

    member_id: MemberId
    address: str
    role: str  # leader, follower, learner
    match: int
    lag: int
    active: bool  # a message arrived lately
    state: str  # probe, replicate, snapshot, unknown
    skew_ms: int = 0  # how far its clock is ahead of the members' median
    disk: dict[str, int] | None = None  # `used_bytes` and the fields of `DiskUse`; None: unknown


class ClusterView(msgspec.Struct, frozen=True):
    """The group. `log_hash` is of the log alone, `state_hash` of the state applied from it."""

    leader_id: MemberId
    leader: str
    term: int
    commit: int
    applied: int
    last_index: int
    log_hash: bytes
    members: list[MemberView]
    alarms: list[Alarm] = []
    state_hash: bytes = b""  # the same on every member at the same `applied`


def cluster_view(state: GridState, raft: RaftNode, reports: Reports) -> ClusterView:
    """The group, as known to this member."""
    config = raft.config
    progress = raft.progress  # of a leader alone
    skews_ms = reports.skews_ms(raft.member_id, config)
    disks = reports.disks(raft.member_id)
    members = []
    for learns, group in ((False, config.voters), (True, config.learners)):
        for member in group:
            leads = member.id == raft.leader_id
            role = "learner" if learns else "leader" if leads else "follower"
            known = _progress(raft, member.id, progress.get(member.id))
            skew_ms, disk = skews_ms.get(member.id, 0), _disk(disks.get(member.id))
            members.append(MemberView(member.id, member.address, role, *known, skew_ms, disk))
    return ClusterView(
        raft.leader_id,
        raft.leader_address,
        term=raft.term,
        commit=raft.commit,
        applied=state.applied_index,
        last_index=raft.last_index,
        log_hash=state.log_hash,
        members=members,
        alarms=reports.alarms(raft.member_id, config),
        state_hash=state.state_hash,
    )


def _disk(use: DiskUse | None) -> dict[str, int] | None:
    if use is None:
        return None
    return {"used_bytes": use.used_bytes, **msgspec.structs.asdict(use)}


def _progress(
    raft: RaftNode, member_id: MemberId, known: ProgressView | None
) -> tuple[int, int, bool, str]:
    """`match`, `lag`, `active` and `state` of a member, as far as known here."""
    if known is not None:
        lag = max(0, raft.commit - known.match)
        return known.match, lag, known.active, known.state.name.lower()
    if member_id == raft.member_id:
        lag = max(0, raft.commit - raft.last_index)
        return raft.last_index, lag, True, ProgressState.REPLICATE.name.lower()
    return 0, 0, False, UNKNOWN
