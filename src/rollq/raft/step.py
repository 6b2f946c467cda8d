"""The rules that every message passes first: terms, leases and who leads; then its handler.

What a message does beyond that is in `election`, `replication`, `snapshots` and `reads`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from rollq.raft import election, reads, replication, roles, snapshots
from rollq.raft.state import RaftState
from rollq.raft.types import (
    NO_MEMBER,
    AppendEntries,
    AppendResponse,
    Heartbeat,
    HeartbeatResponse,
    InstallSnapshot,
    InstallSnapshotResponse,
    RaftMessage,
    ReadIndex,
    ReadIndexResponse,
    RequestVote,
    Role,
    TimeoutNow,
    VoteResponse,
)

# Only the leader of a term sends these, so they name it.
_FROM_LEADER: Final = (AppendEntries, Heartbeat, InstallSnapshot)


def take(state: RaftState, message: RaftMessage) -> None:
    """Settle terms, then hand the message to its handler."""
    if message.term != state.term and not _settle_term(state, message):
        return
    if isinstance(message, _FROM_LEADER):
        roles.follow(state, message.sender)
    _HANDLERS[type(message)](state, message)


def _settle_term(state: RaftState, message: RaftMessage) -> bool:
    """Deal with a message of another term; says whether it is still to be handled."""
    if message.term < state.term:
        _refuse_old_term(state, message)
        return False
    if isinstance(message, RequestVote):
        if not message.transfer and _in_lease(state):
            state.asked = message if message.pre else None
            return False
        if message.pre:
            return True  # a question only: it moves no term
    elif isinstance(message, VoteResponse) and message.pre and message.granted:
        return True  # it carries the term that we asked about
    leader_id = message.sender if isinstance(message, _FROM_LEADER) else NO_MEMBER
    roles.become_follower(state, message.term, leader_id)
    return True


def _in_lease(state: RaftState) -> bool:
    """Whether a leader was heard so recently that nobody has reason to replace it."""
    return (
        state.options.check_quorum
        and state.leader_id != NO_MEMBER
        and (
            state.election_elapsed < state.options.election_ticks_min
            or state.role is Role.LEADER  # it steps down by itself when it hears of no majority
        )
    )


def _refuse_old_term(state: RaftState, message: RaftMessage) -> None:
    """Let a sender of an older term know the newer one, where silence could leave it stuck."""
    options = state.options
    if isinstance(message, _FROM_LEADER) and (options.check_quorum or options.pre_vote):
        # Its lease keeps vote requests from deposing it, so this must.
        state.send_after_persist.append(
            AppendResponse(to=message.sender, sender=state.id, term=state.term, index=0)
        )
    elif isinstance(message, RequestVote) and message.pre:
        election.refuse_vote(state, message)


_HANDLERS: dict[type[Any], Callable[[RaftState, Any], object]] = {
    RequestVote: election.answer_vote,
    VoteResponse: election.take_vote,
    AppendEntries: replication.take_entries,
    AppendResponse: replication.take_append_response,
    Heartbeat: replication.take_heartbeat,
    HeartbeatResponse: replication.take_heartbeat_response,
    InstallSnapshot: snapshots.receive,
    InstallSnapshotResponse: replication.take_snapshot_response,
    TimeoutNow: election.take_timeout_now,
    ReadIndex: reads.serve,
    ReadIndexResponse: reads.take_answer,
}
