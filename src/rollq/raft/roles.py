"""Changes of role and of configuration: the only code that changes `role`, `term` and `config`.

Each function leaves the whole record consistent. Whether a change is due is decided elsewhere
(`election` for roles, the applied log for configurations).
"""

from __future__ import annotations

from rollq.base.errors import ErrorCode, RemoteError
from rollq.base.ids import MemberId
from rollq.raft import reads, replication
from rollq.raft.codec import encode_change
from rollq.raft.membership import bootstrap_change, voter_ids
from rollq.raft.progress import Progress
from rollq.raft.state import RaftState
from rollq.raft.types import NO_MEMBER, Config, EntryKind, Role


def become_follower(state: RaftState, term: int, leader_id: MemberId) -> None:
    """Follow `leader_id` (NO_MEMBER: none is known yet) in `term`."""
    _reset(state, term)
    state.role = Role.FOLLOWER
    state.leader_id = leader_id


def become_pre_candidate(state: RaftState) -> None:
    """Start a pre-vote, which changes neither term nor vote."""
    _reset(state, state.term)
    state.role = Role.PRE_CANDIDATE


def become_candidate(state: RaftState) -> None:
    """Start an election in a new term, with our own vote."""
    _reset(state, state.term + 1)
    state.role = Role.CANDIDATE
    state.vote = state.id


def become_leader(state: RaftState) -> None:
    """Become leader: assume nothing about the others' logs, append the first entry of the term."""
    _reset(state, state.term)
    state.role = Role.LEADER
    state.leader_id = state.id
    log = state.log
    state.term_start = log.last_index + 1
    for member in (*state.config.voters, *state.config.learners):
        if member.id != state.id:
            state.progress[member.id] = _new_progress(state, log.last_index + 1)
    _mark_learners(state)
    if log.last_index == 0:
        # The members of a new group start with its configuration; later members learn it from the
        # log.
        bootstrap = encode_change(bootstrap_change(state.config))
        replication.append(state, int(EntryKind.CONFIG), bootstrap)
    else:
        replication.append(state, int(EntryKind.NORMAL), b"")
    state.uncommitted_bytes = 0


def follow(state: RaftState, leader_id: MemberId) -> None:
    """A message of this term's leader arrived: follow it, and restart the election timeout.

    Raises:
        RemoteError: BAD_PAYLOAD, if this term has another leader.
    """
    if state.leader_id == NO_MEMBER:
        become_follower(state, state.term, leader_id)
    elif state.leader_id != leader_id:
        raise RemoteError(
            ErrorCode.BAD_PAYLOAD,
            f"members {state.leader_id} and {leader_id} both claim leadership in term {state.term}",
            "two members may run under one id: stop and compare their disks",
        )
    state.election_elapsed = 0
    state.deferred_vote = None


def switch_config(state: RaftState, config: Config) -> None:
    """Put a configuration into effect; a leader that no longer votes steps down."""
    state.config = config
    state.voters = voter_ids(config)
    if state.role is not Role.LEADER:
        return
    if state.id not in state.voters:
        become_follower(state, state.term, NO_MEMBER)
        return
    members = {member.id for member in (*config.voters, *config.learners)}
    for gone in [member_id for member_id in state.progress if member_id not in members]:
        del state.progress[gone]
    for member_id in sorted(members - state.progress.keys() - {state.id}):
        state.progress[member_id] = _new_progress(state, max(state.log.last_index, 1))
        # It has had no time to respond: do not fail the next quorum check for it.
        state.progress[member_id].active = True
    _mark_learners(state)
    if state.transferee not in state.voters:
        state.transferee = NO_MEMBER
    if replication.commit_by_counting(state):
        replication.broadcast(state)
    else:
        for member_id, progress in state.progress.items():
            replication.send_append(state, member_id, progress, even_empty=False)
    reads.confirm(state)


def draw_election_ticks(state: RaftState) -> None:
    """Draw the next election timeout."""
    options = state.options
    state.election_ticks = state.jitter.draw(options.election_ticks_min, options.election_ticks_max)


def _reset(state: RaftState, term: int) -> None:
    """Reset everything that belongs to the current role."""
    reads.fail(state)
    if term != state.term:
        state.term = term
        state.vote = NO_MEMBER
    state.leader_id = NO_MEMBER
    state.election_elapsed = state.heartbeat_elapsed = 0
    draw_election_ticks(state)
    state.deferred_vote = None
    state.votes.clear()
    state.progress.clear()
    state.transferee = NO_MEMBER
    state.uncommitted_bytes = 0


def _new_progress(state: RaftState, next_index: int) -> Progress:
    options = state.options
    return Progress(next_index, options.inflight_appends_max, options.inflight_bytes_max)


def _mark_learners(state: RaftState) -> None:
    for member_id, progress in state.progress.items():
        progress.learner = member_id not in state.voters
