"""Read-index: reads that see everything committed before they were requested.

A leader may answer a read at its commit index once a majority has responded to a heartbeat that was
sent after the read arrived: no other member can have been leader, and committed more, before that.
Reads that arrive while a round is under way share the next one. A new leader first commits an entry
of its own term, since until then it does not know how far its predecessor had committed.

Every round has a new number, so that a late response confirms only reads requested before it. A
response to round n confirms every round up to n.
"""

from __future__ import annotations

from rollq.base.ids import MemberId
from rollq.raft.quorum import committed_index
from rollq.raft.ready import ReadReady
from rollq.raft.state import RaftState, ReadRound
from rollq.raft.types import (
    NO_MEMBER,
    RaftHeartbeat,
    ReadIndex,
    ReadIndexResponse,
    Role,
)

# Tickets start at a random number below this, so that a response to an earlier process of this
# member does not match.
_TICKET_START_MAX = 2**48


def ask(state: RaftState, request: int) -> None:
    """A read of our own: queue it on the leader, else forward it to the leader."""
    if state.role is Role.LEADER:
        _enqueue(state, state.id, request)
        return
    reads = state.reads
    if state.leader_id == NO_MEMBER or len(reads.forwarded) >= state.options.reads_pending_max:
        reads.done.append(ReadReady(request, 0))
        return
    if not reads.ticket:
        reads.ticket = state.jitter.draw(0, _TICKET_START_MAX)
    reads.ticket += 1
    reads.forwarded[reads.ticket] = (request, state.ticks)
    state.send_after_persist.append(
        ReadIndex(to=state.leader_id, sender=state.id, term=state.term, request=reads.ticket)
    )


def handle_read_index(state: RaftState, message: ReadIndex) -> None:
    """A follower's read: queue it if we lead, else respond that it must be retried."""
    if state.role is Role.LEADER:
        _enqueue(state, message.sender, message.request)
    else:
        _respond(state, message.sender, message.request, 0)


def handle_read_index_response(state: RaftState, message: ReadIndexResponse) -> None:
    """The leader responded to a forwarded read."""
    forwarded = state.reads.forwarded.pop(message.request, None)
    if forwarded is not None:
        state.reads.done.append(ReadReady(forwarded[0], message.index))


def send_heartbeats(state: RaftState) -> None:
    """Send the regular heartbeats; they also retry the reads that are not confirmed yet."""
    reads = state.reads
    if reads.waiting and state.committed_own_term:
        _open_round(state)
    elif reads.rounds:
        reads.number += 1
        _broadcast(state, reads.number)
    else:
        _broadcast(state, 0)


def start_rounds(state: RaftState) -> None:
    """Leader: start a round for waiting reads if none is under way."""
    if state.reads.waiting and not state.reads.rounds and state.committed_own_term:
        _open_round(state)


def acknowledge(state: RaftState, sender: MemberId, number: int) -> None:
    """Leader: a member responded to the heartbeat of round `number` (0: of none)."""
    reads = state.reads
    if reads.answered.get(sender, 0) < number <= reads.number:
        reads.answered[sender] = number
        confirm(state)


def confirm(state: RaftState) -> None:
    """Leader: answer the reads of every round that a majority has confirmed."""
    reads = state.reads
    if not reads.rounds:
        return
    reads.answered[state.id] = reads.number
    confirmed = committed_index(state.voters, reads.answered)
    while reads.rounds and reads.rounds[0].number <= confirmed:
        done = reads.rounds.popleft()
        reads.pending -= len(done.requests)
        for requester, request in done.requests:
            _respond(state, requester, request, done.index)
    start_rounds(state)


def expire(state: RaftState) -> None:
    """Fail forwarded reads that got no response in time: a message was lost."""
    forwarded = state.reads.forwarded
    while forwarded:
        ticket = next(iter(forwarded))
        request, asked_tick = forwarded[ticket]
        if state.ticks - asked_tick < state.options.election_ticks_max:
            return
        del forwarded[ticket]
        state.reads.done.append(ReadReady(request, 0))


def fail(state: RaftState) -> None:
    """Leadership changed: all pending reads must be retried."""
    reads = state.reads
    for requests in (*(r.requests for r in reads.rounds), reads.waiting):
        for requester, request in requests:
            _respond(state, requester, request, 0)
    reads.rounds.clear()
    reads.waiting = []
    reads.pending = 0
    reads.answered.clear()
    reads.done.extend(ReadReady(request, 0) for request, _ in reads.forwarded.values())
    reads.forwarded.clear()


def _enqueue(state: RaftState, requester: MemberId, request: int) -> None:
    reads = state.reads
    if reads.pending >= state.options.reads_pending_max:
        _respond(state, requester, request, 0)
        return
    reads.pending += 1
    reads.waiting.append((requester, request))
    start_rounds(state)


def _open_round(state: RaftState) -> None:
    """Move all waiting reads into a new round."""
    reads = state.reads
    reads.number += 1
    reads.rounds.append(ReadRound(reads.number, state.log.commit, reads.waiting))
    reads.waiting = []
    if state.voters == (state.id,):
        confirm(state)
    else:
        _broadcast(state, reads.number)


def _broadcast(state: RaftState, context: int) -> None:
    for member_id, progress in state.progress.items():
        # Never past the known match: beyond it, the follower's entries may differ from ours.
        commit = min(progress.match, state.log.commit)
        progress.sent_commit = max(progress.sent_commit, commit)
        progress.chunk_heartbeats += 1
        state.send_now.append(
            RaftHeartbeat(
                to=member_id, sender=state.id, term=state.term, commit=commit, context=context
            )
        )


def _respond(state: RaftState, requester: MemberId, request: int, index: int) -> None:
    if requester == state.id:
        state.reads.done.append(ReadReady(request, index))
        return
    response = ReadIndexResponse(
        to=requester, sender=state.id, term=state.term, request=request, index=index
    )
    # A confirmed index is no promise about our disk.
    (state.send_now if state.role is Role.LEADER else state.send_after_persist).append(response)
