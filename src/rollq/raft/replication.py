"""Log replication: what a leader sends to followers, and how a follower handles it.

The leader's part begins with `append`, the follower's with `handle_append`. `step` has checked
terms and roles before any of these functions runs.
"""

from __future__ import annotations

from rollq.base.errors import ErrorCode, RemoteError
from rollq.base.ids import MemberId
from rollq.raft import reads, snapshots
from rollq.raft.progress import Progress, ProgressState
from rollq.raft.quorum import committed_index
from rollq.raft.state import RaftState
from rollq.raft.types import (
    AppendEntries,
    AppendResponse,
    Entry,
    InstallSnapshotResponse,
    RaftHeartbeat,
    RaftHeartbeatResponse,
    Role,
    TimeoutNow,
)


def append(state: RaftState, kind: int, data: bytes) -> int:
    """Leader: append an entry of its term, replicate it, and return its index."""
    index = state.log.last_index + 1
    state.log.append(Entry(state.term, index, kind, data))
    state.uncommitted_bytes += len(data)
    broadcast(state)
    return index


def broadcast(state: RaftState) -> None:
    """Leader: send new entries, or at least the commit index, to every follower that is not
    blocked."""
    for member_id, progress in state.progress.items():
        send_append(state, member_id, progress, even_empty=True)


def send_append(state: RaftState, to: MemberId, progress: Progress, *, even_empty: bool) -> bool:
    """Leader: send the next append, or start a snapshot; returns whether anything was sent."""
    if progress.blocked:
        return False
    log = state.log
    prev_index = progress.next - 1
    prev_term = log.term_at(prev_index)
    if prev_term is None:
        return snapshots.begin(state, to, progress)
    entries: list[Entry] = []
    # With a full window an empty append still goes (triggered by a heartbeat response): if all
    # appends of the window were lost, it is rejected, and that empties the window.
    if prev_index < log.last_index and not progress.full:
        entries = log.slice(progress.next, log.last_index + 1, state.options.append_bytes_max)
    if not entries and not even_empty:
        return False
    state.send_now.append(
        AppendEntries(
            to=to,
            sender=state.id,
            term=state.term,
            prev_index=prev_index,
            prev_term=prev_term,
            commit=log.commit,
            entries=tuple(entries),
        )
    )
    progress.sent(len(entries), sum(len(entry.data) for entry in entries), log.commit)
    return True


def commit_by_counting(state: RaftState) -> bool:
    """Leader: advance the commit index to what a majority has on disk; returns whether it changed.

    Only an entry of the leader's term commits by counting (§5.4.2); older ones commit with it.
    """
    log = state.log
    held = {member_id: progress.match for member_id, progress in state.progress.items()}
    held[state.id] = log.stable
    index = committed_index(state.voters, held)
    if index < state.term_start or not log.commit_to(index):
        return False
    reads.start_rounds(state)
    return True


def handle_append_response(state: RaftState, message: AppendResponse) -> None:
    """Leader: a follower has accepted or rejected an append."""
    progress = _progress_of(state, message.sender)
    if progress is None:
        return
    if not message.rejected:
        _handle_match(state, message.sender, progress, message.index)
        return
    hint = message.hint_index
    if message.hint_term:
        # The follower's term at the hint is an upper bound for its terms before it: skip newer ones
        # of ours.
        hint, _ = state.log.conflict_hint(hint, message.hint_term)
    if progress.refuse(message.index, hint):
        send_append(state, message.sender, progress, even_empty=True)


def handle_snapshot_response(state: RaftState, message: InstallSnapshotResponse) -> None:
    """Leader: a follower requests the next chunk, or has installed the snapshot."""
    progress = _progress_of(state, message.sender)
    if progress is None:
        return
    if message.installed:
        _handle_match(state, message.sender, progress, message.index)
    else:
        snapshots.handle_offset(state, progress, message)


def handle_heartbeat_response(state: RaftState, message: RaftHeartbeatResponse) -> None:
    """Leader: a follower is alive; resume stuck replication and count the response for reads."""
    progress = _progress_of(state, message.sender)
    if progress is None:
        return
    progress.paused = False
    if progress.state is ProgressState.SNAPSHOT:
        snapshots.resend_if_lost(state, message.sender, progress)
    elif progress.match < state.log.last_index or progress.state is ProgressState.PROBE:
        send_append(state, message.sender, progress, even_empty=True)
    reads.acknowledge(state, message.sender, message.context)


def handle_append(state: RaftState, message: AppendEntries) -> None:
    """Follower: append if the logs agree at prev, else reject with a hint."""
    if state.installing:
        return  # acknowledged entries would be lost with the log
    log = state.log
    _check_entries(message)
    if message.prev_index < log.commit:
        _respond(state, message, log.commit)
    elif log.term_at(message.prev_index) == message.prev_term:
        last = log.merge(message.prev_index, message.entries)
        log.commit_to(min(message.commit, last))
        if state.incoming is not None and log.commit >= state.incoming.meta.index:
            snapshots.abandon(state)
        _respond(state, message, last)
    else:
        hint_index, hint_term = log.conflict_hint(message.prev_index, message.prev_term)
        state.send_after_persist.append(
            AppendResponse(
                to=message.sender,
                sender=state.id,
                term=state.term,
                index=message.prev_index,
                rejected=True,
                hint_index=hint_index,
                hint_term=hint_term,
            )
        )


def handle_heartbeat(state: RaftState, message: RaftHeartbeat) -> None:
    """Follower: advance the commit index as far as our log is known to match, and respond. It
    matches up to what we acknowledged; a suspect log may have lost some of that and hold other
    entries in its place."""
    if not state.installing and state.suspect is None:
        state.log.commit_to(message.commit)
    state.send_after_persist.append(
        RaftHeartbeatResponse(
            to=message.sender, sender=state.id, term=state.term, context=message.context
        )
    )


def _progress_of(state: RaftState, sender: MemberId) -> Progress | None:
    """Leader: the sender's progress, marked active; None if we do not lead, or it is no member."""
    progress = state.progress.get(sender) if state.role is Role.LEADER else None
    if progress is not None:
        progress.active = True
    return progress


def _handle_match(state: RaftState, sender: MemberId, progress: Progress, index: int) -> None:
    log = state.log
    if index > log.last_index:
        raise RemoteError(
            ErrorCode.BAD_PAYLOAD,
            f"member {sender} acknowledged {index}, past our last index {log.last_index}",
        )
    advanced = progress.accept(index)
    if not advanced and not (progress.state is ProgressState.PROBE and index == progress.match):
        return
    if progress.state is ProgressState.REPLICATE:
        progress.free(index)
    elif progress.state is ProgressState.PROBE or progress.match >= log.base_index:
        # Out of SNAPSHOT too: the log reaches the follower again.
        progress.become_replicate()
    if commit_by_counting(state):
        broadcast(state)
    elif progress.wants_commit(log.commit):
        send_append(state, sender, progress, even_empty=True)
    while send_append(state, sender, progress, even_empty=False):
        pass
    if sender == state.transferee and progress.match == log.last_index:
        state.send_now.append(TimeoutNow(to=sender, sender=state.id, term=state.term))


def _check_entries(message: AppendEntries) -> None:
    """Refuse entries that no correct leader would send, before any is stored."""
    index, term = message.prev_index, message.prev_term
    for entry in message.entries:
        index += 1
        if entry.index != index or not term <= entry.term <= message.term:
            raise RemoteError(
                ErrorCode.BAD_PAYLOAD,
                f"append of term {message.term} holds entry {entry.index} of term {entry.term} "
                f"in place of {index}",
            )
        term = entry.term


def _respond(state: RaftState, message: AppendEntries, index: int) -> None:
    state.send_after_persist.append(
        AppendResponse(to=message.sender, sender=state.id, term=state.term, index=index)
    )
