"""The rules that every message passes first: terms, leases and who leads; then its handler.

What a message does beyond that is in `election`, `replication`, `snapshots` and `reads`.
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
# Only the leader of a term sends these, so they name it.
_FROM_LEADER: Final = (AppendEntries, RaftHeartbeat, InstallSnapshot)


def take(state: RaftState, message: RaftMessage) -> None:
    """Settle terms, then hand the message to its handler.

    Raises:
        RemoteError: BAD_PAYLOAD, if its term leaps implausibly, or if no correct member sent it.
    """
    if message.term > state.term + TERM_LEAP_MAX:
        _refuse_leap(state, message)
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
    if isinstance(message, RequestVote) and not message.transfer and _in_lease(state):
        state.asked = message if message.pre else None
        return False
    if _is_question(message):
        return True
    leader_id = message.sender if isinstance(message, _FROM_LEADER) else NO_MEMBER
    roles.become_follower(state, message.term, leader_id)
    return True


def _is_question(message: RaftMessage) -> bool:
    """Whether a term is only asked about: by a pre-vote, or by the answer that grants it."""
    if isinstance(message, RequestVote):
        return message.pre
    return isinstance(message, VoteResponse) and message.pre and message.granted


def _refuse_leap(state: RaftState, message: RaftMessage) -> NoReturn:
    """A term far ahead of ours is a forgery, or we were away for years. While a leader is heard the
    message changes nothing. Else our term moves a bounded step towards it, which is always safe: a
    member that really is so far behind catches up message by message, and a forger would need 2**43
    of them to use all terms up. The step is less than a leap, so that one forgery does not set us
    apart from the others."""
    term = state.term
    if not _hears_leader(state) and not _is_question(message):
        roles.become_follower(state, min(term + TERM_STEP, TERM_MAX), NO_MEMBER)
    raise RemoteError(
        ErrorCode.BAD_PAYLOAD,
        f"{type(message).__name__} of member {message.sender} has term {message.term}, ours is "
        f"{term}: terms do not leap by more than {TERM_LEAP_MAX}",
        "find out who sends it; a member that was away for long catches up by itself",
    )


def _hears_leader(state: RaftState) -> bool:
    """Whether we lead, or heard a leader within an election timeout. A learner never stands for
    election, so the leader that it knows of may be long gone."""
    is_recent = state.election_elapsed < state.election_ticks
    return state.leader_id != NO_MEMBER and (is_recent or state.role is Role.LEADER)


def _in_lease(state: RaftState) -> bool:
    """Whether a leader was heard so recently that no member has a reason to replace it."""
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
    RaftHeartbeat: replication.take_heartbeat,
    RaftHeartbeatResponse: replication.take_heartbeat_response,
    InstallSnapshot: snapshots.receive,
    InstallSnapshotResponse: replication.take_snapshot_response,
    TimeoutNow: election.take_timeout_now,
    ReadIndex: reads.serve,
    ReadIndexResponse: reads.take_answer,
}
