"""Snapshots on their way: the leader's side (which chunk goes next) and the follower's.

One chunk is under way at a time. The follower says which offset it wants next, so a transfer that
was cut goes on where it stopped, also under a new leader that has the same snapshot. The bytes
themselves are the shell's: it reads a chunk just before sending and writes what a `Ready` carries.
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

# A chunk counts as lost when a heartbeat is answered that went out this many heartbeats after it.
_RESEND_BEATS = 2


def begin(state: RaftState, to: MemberId, progress: Progress) -> bool:
    """Leader: start to send the newest snapshot; not to a member that gives no sign of life."""
    if not progress.active or state.snapshot.index == 0:
        return False
    progress.become_snapshot(state.snapshot)
    _send_chunk(state, to, progress, state.snapshot, 0)
    return True


def take_offset(state: RaftState, progress: Progress, message: InstallSnapshotResponse) -> None:
    """Leader: the follower says which offset it wants next."""
    meta = progress.snapshot
    if meta is None or meta.index != message.index:
        return
    if meta != state.snapshot:
        # A newer one has been taken: the old file may be gone.
        begin(state, message.sender, progress)
    elif message.offset != progress.chunk_offset and message.offset < meta.size_bytes:
        _send_chunk(state, message.sender, progress, meta, message.offset)


def nudge(state: RaftState, to: MemberId, progress: Progress) -> None:
    """Leader: the follower is alive; send the chunk again if it has been silent about it."""
    meta = progress.snapshot
    if meta is None or progress.chunk_beats < _RESEND_BEATS:
        return
    if meta != state.snapshot:
        begin(state, to, progress)
    else:
        _send_chunk(state, to, progress, meta, progress.chunk_offset)


def receive(state: RaftState, message: InstallSnapshot) -> None:
    """Follower: take a chunk if it is the one that comes next, and say what is wanted then."""
    meta, log = message.meta, state.log
    if state.installing:
        return  # the answer follows when the log has been replaced
    if meta.index <= log.commit:
        _answer(state, message.sender, meta, 0, installed=True)
        return
    if log.term_at(meta.index) == meta.term:
        # Every entry of it is here already; only the news that they are committed was missing.
        log.commit_to(meta.index)
        abandon(state)
        _answer(state, message.sender, meta, 0, installed=True)
        return
    incoming = _incoming_for(state, message)
    if incoming is None:
        return
    offset, data = message.offset, message.data
    fits = offset == incoming.offset and offset + len(data) <= meta.size_bytes
    if not fits or len(data) != message.length or (not data and meta.size_bytes):
        _answer(state, message.sender, meta, incoming.offset)
        return
    incoming.offset += len(data)
    incoming.complete = incoming.offset == meta.size_bytes
    state.chunks.append(SnapshotChunk(meta, offset, data, done=incoming.complete))
    if not incoming.complete:
        _answer(state, message.sender, meta, incoming.offset)


def install(state: RaftState, meta: SnapshotMeta) -> None:
    """Follower: the snapshot is on disk and loaded; the log begins after it."""
    state.log.restore(meta.index, meta.term)
    state.snapshot = meta
    abandon(state)
    if state.leader_id not in (NO_MEMBER, state.id):
        _answer(state, state.leader_id, meta, 0, installed=True)


def abandon(state: RaftState) -> None:
    """Follower: forget a snapshot that was being received."""
    state.incoming = None
    state.chunks.clear()


def _send_chunk(
    state: RaftState, to: MemberId, progress: Progress, meta: SnapshotMeta, offset: int
) -> None:
    progress.chunk_offset = offset
    progress.chunk_beats = 0
    length = min(state.options.snapshot_chunk_bytes_max, meta.size_bytes - offset)
    state.send_now.append(
        InstallSnapshot(
            to=to, sender=state.id, term=state.term, meta=meta, offset=offset, length=length
        )
    )


def _incoming_for(state: RaftState, message: InstallSnapshot) -> IncomingSnapshot | None:
    """The transfer that a chunk belongs to; None if a newer one has taken its place."""
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


def _answer(
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
