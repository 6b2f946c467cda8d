"""The checks that every message passes first: terms, leases and the leader; then its handler.

The handlers are in `election`, `replication`, `snapshots` and `reads`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NoReturn

from rollq.base.errors import ErrorCode, RemoteError
from rollq.base.limits import TERM_LEAP_MAX, TERM_MAX
from rollq.raft import election, reads, replication, roles, snapshots
from rollq.raft.state import RaftState
from rollq.raft.types import (
    NO_MEMBER,
    AppendEntries,
    AppendResponse,
    InstallSnapshot,
    InstallSnapshotResponse,
    RaftHeartbeat,
    RaftHeartbeatResponse,
    RaftMessage,
    ReadIndex,
    ReadIndexResponse,
    RequestVote,
    Role,
    TimeoutNow,
    VoteResponse,
)

TERM_STEP: Final = TERM_LEAP_MAX // 2
# Only the leader of a term sends these, so they identify it.
_FROM_LEADER: Final = (AppendEntries, RaftHeartbeat, InstallSnapshot)


def handle(state: RaftState, message: RaftMessage) -> None:
    """Handle terms, then pass the message to its handler.

    Raises:
        RemoteError: BAD_PAYLOAD, if its term is implausibly far ahead, or if no correct member can
        have sent it.
    """
    if message.term > state.term + TERM_LEAP_MAX:
        _refuse_leap(state, message)
    if message.term != state.term and not _handle_other_term(state, message):
        return
    if isinstance(message, _FROM_LEADER):
        roles.follow(state, message.sender)
    _HANDLERS[type(message)](state, message)


def _handle_other_term(state: RaftState, message: RaftMessage) -> bool:
    """Handle a different term; returns whether the message is still to be handled."""
    if message.term < state.term:
        _refuse_old_term(state, message)
        return False
    if isinstance(message, RequestVote) and not message.transfer and _in_lease(state):
        state.deferred_vote = message if message.pre else None
        return False
    if _is_pre_vote(message):
        return True
    leader_id = message.sender if isinstance(message, _FROM_LEADER) else NO_MEMBER
    roles.become_follower(state, message.term, leader_id)
    return True


def _is_pre_vote(message: RaftMessage) -> bool:
    """Whether the term is that of a pre-vote: a request, or the response that grants it."""
    if isinstance(message, RequestVote):
        return message.pre
    return isinstance(message, VoteResponse) and message.pre and message.granted


def _refuse_leap(state: RaftState, message: RaftMessage) -> NoReturn:
    """A term far ahead of ours is forged, or we were away for years. While there is a leader the
    message changes nothing. Else our term advances a bounded step towards it, which is always safe:
    a member that really is so far behind catches up message by message, and an attacker would need
    2**43 of them to use up all terms. The step is less than a leap, so that one forged message does
    not cut us off from the others."""
    term = state.term
    if not _has_recent_leader(state) and not _is_pre_vote(message):
        roles.become_follower(state, min(term + TERM_STEP, TERM_MAX), NO_MEMBER)
    raise RemoteError(
        ErrorCode.BAD_PAYLOAD,
        f"{type(message).__name__} of member {message.sender} has term {message.term}, ours is "
        f"{term}: terms do not leap by more than {TERM_LEAP_MAX}",
        "find out who sends it; a member that was away for long catches up by itself",
    )


def _has_recent_leader(state: RaftState) -> bool:
    """Whether we lead, or got a message of a leader within an election timeout. A learner never
    campaigns, so the leader that it knows may be long gone."""
    is_recent = state.election_elapsed < state.election_ticks
    return state.leader_id != NO_MEMBER and (is_recent or state.role is Role.LEADER)


def _in_lease(state: RaftState) -> bool:
    """Whether a leader was active so recently that no member has a reason to replace it."""
    return (
        state.options.check_quorum
        and state.leader_id != NO_MEMBER
        and (
            state.election_elapsed < state.options.election_ticks_min
            or state.role is Role.LEADER  # it steps down by itself without a majority
        )
    )


def _refuse_old_term(state: RaftState, message: RaftMessage) -> None:
    """Report the newer term to the sender of an older one, where silence could leave it stuck."""
    options = state.options
    if isinstance(message, _FROM_LEADER) and (options.check_quorum or options.pre_vote):
        # Its lease blocks vote requests, so this response has to depose it.
        state.send_after_persist.append(
            AppendResponse(to=message.sender, sender=state.id, term=state.term, index=0)
        )
    elif isinstance(message, RequestVote) and message.pre:
        election.refuse_vote(state, message)


_HANDLERS: dict[type[Any], Callable[[RaftState, Any], object]] = {
    RequestVote: election.handle_vote_request,
    VoteResponse: election.handle_vote_response,
    AppendEntries: replication.handle_append,
    AppendResponse: replication.handle_append_response,
    RaftHeartbeat: replication.handle_heartbeat,
    RaftHeartbeatResponse: replication.handle_heartbeat_response,
    InstallSnapshot: snapshots.handle_chunk,
    InstallSnapshotResponse: replication.handle_snapshot_response,
    TimeoutNow: election.handle_timeout_now,
    ReadIndex: reads.handle_read_index,
    ReadIndexResponse: reads.handle_read_index_response,
}
