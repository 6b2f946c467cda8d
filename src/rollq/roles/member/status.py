"""How the group stands, as its leader sees it: who belongs to it, and how far each one is."""

from __future__ import annotations

import msgspec

from rollq.base.ids import MemberId
from rollq.grid.state import GridState
from rollq.raft.node import RaftNode
from rollq.roles.member.reports import Alarm, Reports


class MemberView(msgspec.Struct, frozen=True):
    """One member. `match` is the last log index that it is known to hold, `lag` what it lacks."""

    member_id: MemberId
    address: str
    role: str  # leader, follower, learner
    match: int
    lag: int
    active: bool  # heard from lately
    state: str  # probe, replicate, snapshot
    skew_ms: int = 0  # how far its clock is ahead of the middle of the members'


class ClusterView(msgspec.Struct, frozen=True):
    """The group. `log_hash` is of the log alone, `state_hash` of what was made of it."""

    leader_id: MemberId
    leader: str
    term: int
    commit: int
    applied: int
    last_index: int
    log_hash: bytes
    members: list[MemberView]
    alarms: list[Alarm] = []  # what an operator must look after
    state_hash: bytes = b""  # the same on every member that has applied as much


def cluster_view(state: GridState, raft: RaftNode, reports: Reports) -> ClusterView:
    """The group, read on the leader."""
    config = raft.config
    progress = raft.progress
    skews_ms = reports.skews_ms(raft.member_id, config)
    members = []
    for learns, group in ((False, config.voters), (True, config.learners)):
        for member in group:
            known = progress[member.id]
            leads = member.id == raft.member_id
            members.append(
                MemberView(
                    member.id,
                    member.address,
                    "learner" if learns else "leader" if leads else "follower",
                    known.match,
                    max(0, raft.commit - known.match),
                    known.active,
                    known.state.name.lower(),
                    skews_ms.get(member.id, 0),
                )
            )
    return ClusterView(
        raft.member_id,
        raft.leader_address,
        raft.term,
        raft.commit,
        state.applied_index,
        raft.last_index,
        state.log_hash,
        members,
        reports.alarms(raft.member_id, config),
        state.state_hash,
    )
