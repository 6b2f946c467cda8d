"""Snapshot transfer: the leader's side (which chunk is sent next) and the follower's.

One chunk is in flight at a time. The follower requests the next offset, so an interrupted transfer
resumes where it stopped, also under a new leader that has the same snapshot. The shell handles the
bytes: it reads a chunk just before sending and writes the chunks that a `Ready` carries.
"""

from __future__ import annotations

from rollq.base.ids import MemberId
from rollq.raft.progress import Progress
from rollq.raft.ready import SnapshotChunk
from rollq.raft.state import IncomingSnapshot, RaftState
from rollq.raft.types import (
    NO_MEMBER,
    InstallSnapshot,
    InstallSnapshotResponse,
    SnapshotMeta,
)

# A chunk counts as lost if the follower responds to a heartbeat that was sent this many heartbeats
# after it.
_RESEND_HEARTBEATS = 2


def begin(state: RaftState, to: MemberId, progress: Progress) -> bool:
    """Leader: start to send the newest snapshot; not to an inactive member."""
    if not progress.active or state.snapshot.index == 0:
        return False
    progress.become_snapshot(state.snapshot)
    _send_chunk(state, to, progress, meta=state.snapshot, offset=0)
    return True


def handle_offset(state: RaftState, progress: Progress, message: InstallSnapshotResponse) -> None:
    """Leader: the follower requests an offset."""
    meta = progress.snapshot
    if meta is None or meta.index != message.index:
        return
    if meta != state.snapshot:
        # A newer one exists: the old file may be deleted.
        begin(state, message.sender, progress)
    elif message.offset != progress.chunk_offset and message.offset < meta.size_bytes:
        _send_chunk(state, message.sender, progress, meta=meta, offset=message.offset)


def resend_if_lost(state: RaftState, to: MemberId, progress: Progress) -> None:
    """Leader: the follower is alive; send the chunk again if it has not responded to it."""
    meta = progress.snapshot
    if meta is None or progress.chunk_heartbeats < _RESEND_HEARTBEATS:
        return
    if meta != state.snapshot:
        begin(state, to, progress)
    else:
        _send_chunk(state, to, progress, meta=meta, offset=progress.chunk_offset)


def handle_chunk(state: RaftState, message: InstallSnapshot) -> None:
    """Follower: accept a chunk if it is the next one, and request the one after it."""
    meta, log = message.meta, state.log
    if state.installing:
        return  # the response follows when the log has been replaced
    if meta.index <= log.commit:
        _respond(state, message.sender, meta, 0, installed=True)
        return
    # Entries of the snapshot's term were appended by the leader of that term, before the one at its
    # end: they are committed. So they are applied, with their events, before it replaces them.
    known, term = log.conflict_hint(meta.index, meta.term)
    if term == meta.term:
        log.commit_to(known)
    if log.commit == meta.index:
        # All its entries are here already; only their commit was unknown.
        abandon(state)
        _respond(state, message.sender, meta, 0, installed=True)
        return
    incoming = _incoming_for(state, message)
    if incoming is None:
        return
    offset, data = message.offset, message.data
    fits = offset == incoming.offset and offset + len(data) <= meta.size_bytes
    if not fits or len(data) != message.length or (not data and meta.size_bytes):
        _respond(state, message.sender, meta, incoming.offset)
        return
    incoming.offset += len(data)
    incoming.complete = incoming.offset == meta.size_bytes
    state.chunks.append(SnapshotChunk(meta, offset, data, done=incoming.complete))
    if not incoming.complete:
        _respond(state, message.sender, meta, incoming.offset)


def install(state: RaftState, meta: SnapshotMeta) -> None:
    """Follower: the snapshot is on disk and loaded; the log starts after it."""
    state.log.restore(meta.index, meta.term)
    state.snapshot = meta
    abandon(state)
    if state.leader_id not in (NO_MEMBER, state.id):
        _respond(state, state.leader_id, meta, 0, installed=True)


def abandon(state: RaftState) -> None:
    """Follower: drop a snapshot that was being received."""
    state.incoming = None
    state.chunks.clear()


def _send_chunk(
    state: RaftState, to: MemberId, progress: Progress, meta: SnapshotMeta, offset: int
) -> None:
    progress.chunk_offset = offset
    progress.chunk_heartbeats = 0
    length = min(state.options.snapshot_chunk_bytes_max, meta.size_bytes - offset)
    state.send_now.append(
        InstallSnapshot(
            to=to, sender=state.id, term=state.term, meta=meta, offset=offset, length=length
        )
    )


def _incoming_for(state: RaftState, message: InstallSnapshot) -> IncomingSnapshot | None:
    """The transfer of a chunk; None if a newer one replaced it."""
    incoming = state.incoming
    if incoming is not None and incoming.meta == message.meta:
        incoming.term = message.term
        return incoming
    if (
        incoming is not None
        and message.term == incoming.term
        and message.meta.index <= incoming.meta.index
    ):
        return None
    abandon(state)
    state.incoming = IncomingSnapshot(meta=message.meta, term=message.term)
    return state.incoming


def _respond(
    state: RaftState, to: MemberId, meta: SnapshotMeta, offset: int, installed: bool = False
) -> None:
    state.send_after_persist.append(
        InstallSnapshotResponse(
            to=to,
            sender=state.id,
            term=state.term,
            index=meta.index,
            offset=offset,
            installed=installed,
        )
    )
