"""Changes of the group's configuration, on the leader.

A newcomer calls until the leader admits it as a learner, in place of the member that had its
address before; the leader promotes a learner that has caught up. Only one change at a time is
possible; a refused change is proposed again at the next call.
"""

from __future__ import annotations

from rollq.base.errors import ErrorCode, RemoteError, StateError
from rollq.base.ids import MemberId
from rollq.raft.node import RaftNode
from rollq.raft.types import ChangeKind, Config, ConfigChange, Member, MemberChange, RaftMessage


def admit(raft: RaftNode, newcomer: Member) -> None:
    """Admit a newcomer as a learner, and remove the member that it replaces."""
    config = raft.config
    if any(member.id == newcomer.id for member in config.voters + config.learners):
        return
    change = [MemberChange(ChangeKind.ADD_LEARNER, newcomer)]
    change += [
        MemberChange(ChangeKind.REMOVE, member)
        for member in config.voters + config.learners
        if member.address == newcomer.address
    ]
    try_change(raft, ConfigChange(tuple(change)))


def promote_caught_up(raft: RaftNode) -> None:
    """Make a voter of one learner that holds all committed entries."""
    progress = raft.progress  # empty if leadership was lost within this tick
    for learner in raft.config.learners:
        if learner.id in progress and progress[learner.id].match >= raft.commit:
            try_change(raft, ConfigChange((MemberChange(ChangeKind.ADD_VOTER, learner),)))
            return


def try_change(raft: RaftNode, change: ConfigChange) -> bool:
    """Propose a change; false if raft cannot accept it now."""
    try:
        raft.propose_config(change)
    except StateError:
        return False
    return True


def check_sender(raft: RaftNode, message: RaftMessage) -> None:
    """Raises RemoteError BAD_PAYLOAD if this member is the only voter and the sender is unknown."""
    if [voter.id for voter in raft.config.voters] == [raft.member_id] and not find(
        raft.config, message.sender
    ):
        raise RemoteError(
            ErrorCode.BAD_PAYLOAD,
            f"{type(message).__name__} of {message.sender}, which is not a member of this group",
            "check the addresses of the members",
        )


def find(config: Config, member_id: MemberId) -> Member | None:
    """The member with this id."""
    for member in config.voters + config.learners:
        if member.id == member_id:
            return member
    return None


def is_current(raft: RaftNode, applied_index: int) -> bool:
    """Whether a leader is known, and all entries of earlier terms are applied here."""
    return raft.leader_id != 0 and raft.term_at(applied_index) == raft.term
