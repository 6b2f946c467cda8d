"""Elections: when to campaign, how to vote, how votes are counted, leadership transfer, and the
leader's check for a majority.

Roles change only through `roles`. A vote is a promise about the disk: requests and responses are
sent after the persist step, and our own vote counts only then too.
"""

from __future__ import annotations

from typing import Final

from rollq.base.errors import ErrorCode, StateError
from rollq.base.ids import MemberId
from rollq.raft import reads, replication, roles
from rollq.raft.quorum import VoteResult, vote_result
from rollq.raft.state import RaftState
from rollq.raft.types import (
    NO_MEMBER,
    Position,
    RequestVote,
    Role,
    TimeoutNow,
    VoteResponse,
)

APPLY_BATCHES_MAX: Final = (
    16  # committed and not applied yet, up to which a member may lead at once
)


def tick(state: RaftState) -> None:
    """One tick of the shell's clock."""
    state.ticks += 1
    state.election_elapsed += 1
    if state.role is Role.LEADER:
        _tick_leader(state)
        return
    reads.expire(state)
    overdue = state.election_elapsed >= state.election_ticks or is_sole_leader(state)
    if overdue and promotable(state) and not _waits_for_own_vote(state):
        state.election_elapsed = 0
        campaign(state)


def campaign(state: RaftState) -> None:
    """Start an election, by a pre-vote if that is on; no effect if this member may not lead."""
    if not _may_campaign(state):
        return
    state.campaigns += 1
    if not state.options.pre_vote:
        _request_votes(state, transfer=False)
        return
    roles.become_pre_candidate(state)
    # A pre-vote is no promise, so our own need not wait for the disk.
    if not _count_vote(state, state.id, True):
        _send_vote_requests(state, state.term + 1, pre=True, transfer=False)


def promotable(state: RaftState) -> bool:
    """Whether this member may lead: a voter with its complete log, none of it suspect."""
    return state.id in state.voters and not state.installing and state.suspect is None


def is_sole_leader(state: RaftState) -> bool:
    """Whether this member is the fixed leader of a group of one: there is no vote to wait for."""
    return state.options.fixed_leader and state.voters == (state.id,)


def leader_lost(state: RaftState, member_id: MemberId) -> None:
    """The link to a member broke. If it led, its lease is over: answer votes, and campaign."""
    if state.role is not Role.FOLLOWER or state.leader_id != member_id or not member_id:
        return
    reads.fail(state)
    state.leader_id = NO_MEMBER
    # Without the pre-vote, a short failure of one link would depose a healthy leader.
    if not state.options.pre_vote:
        return
    deferred, state.deferred_vote = state.deferred_vote, None
    if deferred is not None and handle_vote_request(state, deferred):
        return  # it detected the loss before us
    if _lags_in_applying(state):
        # We could not serve before all of it is applied: let another member campaign first.
        rest = state.election_ticks - state.options.heartbeat_ticks
        state.election_elapsed = max(state.election_elapsed, rest)
    else:
        campaign(state)


def handle_vote_request(state: RaftState, message: RequestVote) -> bool:
    """Grant the vote if it is unused in this term and the candidate's log is at least as recent."""
    free = (
        state.vote == message.sender
        or (state.vote == NO_MEMBER and state.leader_id == NO_MEMBER)
        or (message.pre and message.term > state.term)
    )
    theirs = Position(message.last_term, message.last_index)
    ours = Position(state.log.last_term, state.log.last_index)
    if state.suspect is not None:
        # We may have acknowledged up to this position, so no shorter log may win with our vote.
        ours = max(ours, state.suspect)
    granted = free and theirs >= ours and not (theirs == ours and _has_priority(state, message))
    if granted and not message.pre:
        state.vote = message.sender
        state.election_elapsed = 0
    if granted:
        # A granted pre-vote carries the requested term: with ours it would be ignored as old.
        response = VoteResponse(
            to=message.sender, sender=state.id, term=message.term, granted=True, pre=message.pre
        )
        state.send_after_persist.append(response)
    else:
        refuse_vote(state, message)
        if message.pre and state.role is Role.PRE_CANDIDATE and message.sender not in state.votes:
            # A candidate follows no leader any more. It may have been in its leader's lease when we
            # sent our request and not have responded: without this both of us would wait for a
            # timeout.
            _send_vote_request(state, message.sender, state.term + 1, pre=True, transfer=False)
    return granted


def refuse_vote(state: RaftState, message: RequestVote) -> None:
    """Refuse, with our commit index.

    Otherwise a group could stall: a leader that commits its own removal and stops may be the only
    one to know, while the others still need its vote, which its longer log refuses.
    """
    log = state.log
    response = VoteResponse(
        to=message.sender,
        sender=state.id,
        term=state.term,
        granted=False,
        pre=message.pre,
        commit=log.commit,
        commit_term=log.term_at(log.commit) or 0,
    )
    state.send_after_persist.append(response)


def handle_vote_response(state: RaftState, message: VoteResponse) -> None:
    """Count a response if it belongs to the current election."""
    if message.commit and not state.installing:
        _learn_commit(state, message)
    if message.pre:
        current = state.role is Role.PRE_CANDIDATE and (
            not message.granted or message.term == state.term + 1
        )
    else:
        current = state.role is Role.CANDIDATE
    if current:
        _count_vote(state, message.sender, message.granted)


def count_own_vote(state: RaftState) -> None:
    """Candidate: our own vote is on disk, so it counts."""
    own = state.persisted
    if state.role is Role.CANDIDATE and own.term == state.term and own.vote == state.id:
        _count_vote(state, state.id, True)


def transfer(state: RaftState, to: MemberId) -> None:
    """Leader: transfer leadership to `to` as soon as it has all of our log.

    Raises:
        StateError: NOT_LEADER, or WRONG_STATE if `to` cannot lead.
    """
    if state.role is not Role.LEADER:
        raise StateError(ErrorCode.NOT_LEADER, "only the leader can transfer leadership")
    if to in (state.id, state.transferee):
        return
    progress = state.progress.get(to)
    if progress is None or progress.learner:
        raise StateError(ErrorCode.WRONG_STATE, f"member {to} does not vote", "transfer to a voter")
    state.transferee = to
    state.election_elapsed = 0
    if progress.match == state.log.last_index:
        state.send_now.append(TimeoutNow(to=to, sender=state.id, term=state.term))
    else:
        replication.send_append(state, to, progress, even_empty=True)


def handle_timeout_now(state: RaftState, _message: TimeoutNow) -> None:
    """The leader transfers leadership to us: campaign at once, without pre-vote, despite its
    lease."""
    if state.role is Role.FOLLOWER and _may_campaign(state):
        _request_votes(state, transfer=True)


def _lags_in_applying(state: RaftState) -> bool:
    log = state.log
    batch = log.slice(
        log.applied + 1, log.commit + 1, APPLY_BATCHES_MAX * state.options.apply_bytes_max
    )
    return len(batch) < log.commit - log.applied


def _has_priority(state: RaftState, message: RequestVote) -> bool:
    """Whether our own pre-vote for the same term has priority.

    When a leader dies, its followers detect it together. If each granted the other's pre-vote,
    their votes would split and a whole timeout be lost, so the higher id goes first; only for a
    short time, in case it reaches fewer members than the other.
    """
    return (
        message.pre
        and state.role is Role.PRE_CANDIDATE
        and message.term == state.term + 1
        and message.sender < state.id
        and state.election_elapsed < state.options.heartbeat_ticks
    )


def _learn_commit(state: RaftState, message: VoteResponse) -> None:
    """Where the logs agree, and before it, the sender's commit index holds for us too."""
    if state.log.term_at(message.commit) == message.commit_term:
        state.log.commit_to(message.commit)


def _tick_leader(state: RaftState) -> None:
    state.heartbeat_elapsed += 1
    options = state.options
    if state.election_elapsed >= (options.quorum_ticks or options.election_ticks_min):
        state.election_elapsed = 0
        # A transfer that is not complete by now will not be.
        state.transferee = NO_MEMBER
        if options.check_quorum and not _has_active_majority(state):
            roles.become_follower(state, state.term, NO_MEMBER)
            return
    if state.heartbeat_elapsed >= options.heartbeat_ticks:
        state.heartbeat_elapsed = 0
        reads.send_heartbeats(state)


def _has_active_majority(state: RaftState) -> bool:
    """Whether a majority has responded since the last check; starts the next period."""
    responded = {member_id: progress.active for member_id, progress in state.progress.items()}
    responded[state.id] = True
    for progress in state.progress.values():
        progress.was_active, progress.active = progress.active, False
    return vote_result(state.voters, responded) is VoteResult.WON


def _waits_for_own_vote(state: RaftState) -> bool:
    """Whether the only voter is a candidate, and wins once its vote is on disk: a new term would
    only add another write."""
    is_standing = state.role is Role.CANDIDATE and state.voters == (state.id,)
    return is_standing and state.persisted.term != state.term


def _may_campaign(state: RaftState) -> bool:
    # A committed change of configuration that is not applied yet may change the voters.
    change_due = state.log.holds_change(state.log.commit)
    return state.role is not Role.LEADER and promotable(state) and not change_due


def _request_votes(state: RaftState, *, transfer: bool) -> None:
    roles.become_candidate(state)
    _send_vote_requests(state, state.term, pre=False, transfer=transfer)


def _send_vote_requests(state: RaftState, term: int, *, pre: bool, transfer: bool) -> None:
    for voter in state.voters:
        if voter != state.id:
            _send_vote_request(state, voter, term, pre=pre, transfer=transfer)


def _send_vote_request(
    state: RaftState, voter: MemberId, term: int, *, pre: bool, transfer: bool
) -> None:
    request = RequestVote(
        to=voter,
        sender=state.id,
        term=term,
        last_index=state.log.last_index,
        last_term=state.log.last_term,
        pre=pre,
        transfer=transfer,
    )
    state.send_after_persist.append(request)


def _count_vote(state: RaftState, voter: MemberId, granted: bool) -> bool:
    """Record a response; returns whether it decided the vote."""
    state.votes.setdefault(voter, granted)
    result = vote_result(state.voters, state.votes)
    if result is VoteResult.PENDING:
        return False
    if result is VoteResult.LOST:
        roles.become_follower(state, state.term, NO_MEMBER)
    elif state.role is Role.PRE_CANDIDATE:
        _request_votes(state, transfer=False)
    else:
        roles.become_leader(state)
    return True
