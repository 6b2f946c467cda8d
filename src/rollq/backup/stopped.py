"""Backup of the state directory of a stopped member. The directory is not changed.

It contains the whole log on that disk. In a group of one that is everything that was accepted. A
member of a larger group may lack the last entries: back up the one with the longest log.
"""

from __future__ import annotations

import hashlib
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Final

from rollq.backup.pieces import put_piece, recent_piece, sealed_pieces
from rollq.base.errors import DiskError, ErrorCode
from rollq.base.limits import LARGE_BODY_BYTES_MIN, SEGMENT_BYTES
from rollq.grid.snapshot import snapshot_pieces
from rollq.grid.state import GridState
from rollq.history.segments import Segments
from rollq.raft.types import Position
from rollq.roles.member.history_log import HistoryLog
from rollq.roles.member.replica import Replica
from rollq.roles.member.snapshot_order import SnapshotPace
from rollq.roles.member.states import States
from rollq.store.backup_file import BLOB, SNAPSHOT, BackupWriter, Manifest
from rollq.store.blobs.local import FOLDER as BLOBS
from rollq.store.blobs.local import LocalBlobs, Use
from rollq.store.body_files import BodyFiles
from rollq.store.identity import IdentityHead, identity_lost
from rollq.store.log_bodies import BodyLog
from rollq.store.look import LookDisk
from rollq.store.repair import SnapshotRelation, link
from rollq.store.restoring import check_restored
from rollq.store.snapshots import Snapshots
from rollq.store.walk import Walk, read_log

BLOB_READ_BYTES: Final = 1024 * 1024
NEVER: Final = sys.maxsize


def take_stopped(
    state_dir: Path, writer: BackupWriter, *, with_history: bool = True, with_blobs: bool = True
) -> None:
    """Write a complete backup.

    Raises:
        DiskError: DISK_BUSY if a member uses the directory; DISK_CORRUPT if log entries
            that may have been accepted are damaged.
    """
    begun_ms = time.time_ns() // 1_000_000
    disk = LookDisk(state_dir)
    check_restored(state_dir)
    holder = disk.holder()
    if holder:
        raise DiskError(
            ErrorCode.DISK_BUSY,
            f"{holder} uses the state directory {state_dir}",
            "back up the running group: leave --state out; or stop the member first",
        )
    head, position, replica = replayed(disk)
    state = replica.state
    digest = hashlib.sha256()
    with writer.part(SNAPSHOT, "") as put:
        for piece in snapshot_pieces(state, state.bodies.sealed)[1]:
            digest.update(piece)
            put(piece)
    first = state.applied_index + 1
    if with_history:
        first = _put_history(disk, replica.history, state.applied_index, writer)
    if with_blobs:
        _put_blobs(state_dir, state, writer)
    writer.finish(
        Manifest(
            version("rollq"),
            head.group,
            head.identity.cluster_id.hex(),
            str(state_dir),
            begun_ms,
            state.applied_index,
            position.term,
            digest.hexdigest(),
            0,
            first,
            state.applied_index,
            with_blobs,
        )
    )


def replayed(disk: LookDisk) -> tuple[IdentityHead, Position, Replica]:
    """The identity on a disk, the end of its log, and the state replayed from it, as at the start
    of a member."""
    files = BodyFiles(disk)
    snapshots = Snapshots(disk, files)
    newest = snapshots.newest()
    base = Position(newest.term, newest.index) if newest is not None else Position()
    walk = read_log(disk, base.index)
    if walk.head is None:
        raise identity_lost("no valid copy is left in the log")
    relation = _checked_link(walk, base)
    log = BodyLog(files, walk.places.data_of, LARGE_BODY_BYTES_MIN, SEGMENT_BYTES)
    states = States(disk, snapshots, log, NEVER)
    replica = Replica(
        states.empty() if newest is None else states.load(newest),
        HistoryLog(Segments(disk)),
        SnapshotPace(NEVER, 0),
        "least-load",
        NEVER,  # nothing is dispatched here
    )
    if relation is SnapshotRelation.JOINED:
        for entry in walk.log.entries[base.index - walk.log.base.index :]:
            replica.apply(entry)
            base = Position(entry.term, entry.index)
    return walk.head, base, replica


def _checked_link(walk: Walk, base: Position) -> SnapshotRelation:
    relation = link(walk.log, base)
    suspect = walk.head is not None and walk.head.suspect is not None
    if walk.corrupt or walk.hole or suspect or relation is SnapshotRelation.GAP:
        raise DiskError(
            ErrorCode.DISK_CORRUPT,
            "the log is damaged where it may hold accepted jobs",
            "back up another member; `rollq doctor --state` says more",
        )
    return relation


def _put_history(disk: LookDisk, history: HistoryLog, last: int, writer: BackupWriter) -> int:
    """Write the last run of history without a gap; returns its first index."""
    segments = history.segments
    recent = history.unsealed(last)
    sealed_to = recent[0].index - 1 if recent else last
    gaps = segments.gaps(sealed_to)
    first = gaps[-1][1] + 1 if gaps else segments.floor() + 1
    for piece in sealed_pieces(disk, segments, first, sealed_to):
        put_piece(writer, piece)
    if recent:
        put_piece(writer, recent_piece(recent[0].index, last, recent))
    return first


def _put_blobs(state_dir: Path, state: GridState, writer: BackupWriter) -> None:
    """Write the blobs that the state refers to and that are intact here."""
    if not state.blobs or not (state_dir / BLOBS).is_dir():
        return
    store = LocalBlobs(state_dir / BLOBS, Use.LOOK)
    for digest in state.blobs:
        if store.size(digest) is None or not store.check(digest):
            continue
        reader = store.open(digest)
        try:
            with writer.part(BLOB, digest.hex()) as put:
                for at in range(0, reader.size, BLOB_READ_BYTES):
                    put(reader.read(at, BLOB_READ_BYTES))
        finally:
            reader.close()
