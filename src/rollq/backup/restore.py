"""Creates the state directory of the first member of a new group from a backup.

The new group has its own cluster id, member id and cluster key, so that it can neither join the old
group nor be mistaken for it. It has one member; others join empty and catch up. Restoring several
members at once is not supported: they would have to agree on their first configuration, and nothing
would prove that they were restored from the same file.

The old group may have issued fences after the backup, which are not known here. The counter is
advanced by FENCE_LEAP, so that their results are refused by the new group.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import msgspec

from rollq.backup.contents import snapshot_part
from rollq.backup.pieces import seal_pieces
from rollq.base.digests import digest_from_text
from rollq.base.errors import DiskError, ErrorCode, LocalError, RemoteError
from rollq.base.ids import GUID_BYTES, NIL_ID
from rollq.base.limits import LARGE_BODY_BYTES_MIN, SEGMENT_BYTES, SNAPSHOT_CHUNK_BYTES_MAX
from rollq.grid.snapshot import snapshot_pieces
from rollq.history.segments import Segments
from rollq.raft.types import Config, Member, SnapshotMeta
from rollq.roles.member.states import States
from rollq.security.cluster_key import KEY_BYTES
from rollq.store.backup_file import BLOB, BackupFile, Progress
from rollq.store.blobs.failures import explained
from rollq.store.blobs.local import FOLDER as BLOBS
from rollq.store.blobs.local import LocalBlobs, Use
from rollq.store.body_files import BodyFiles
from rollq.store.disk import Disk
from rollq.store.identity import ClusterKey, Identity
from rollq.store.log_bodies import BodyLog
from rollq.store.real_disk import RealDisk
from rollq.store.restoring import MARK
from rollq.store.snapshots import NO_DIGEST, Snapshots
from rollq.store.spill import clear_spill
from rollq.store.state_lock import LOCK_NAME
from rollq.store.wal import Wal

FENCE_LEAP: Final = 1 << 32  # more than any group issues after a backup of it
MEMBER_ID_BYTES: Final = 7  # fits every language's signed 64-bit integer
HOT_BYTES_MAX: Final = 64 * 1024 * 1024


class Restored(msgspec.Struct, frozen=True):
    """The new member."""

    member_id: int
    cluster_id: str
    group: str
    address: str
    index: int


def restore(
    file: BackupFile,
    state_dir: Path,
    address: str,
    *,
    group: str = "",
    progress: Progress = lambda done, total: None,
) -> Restored:
    """Create a state directory from a verified backup; durable when it returns.

    Args:
        file: The backup.
        state_dir: Must be missing or empty.
        address: Under which other members will reach this one.
        group: The name of the new group; empty: that of the old one.
        progress: Called with the bytes done.

    Raises:
        LocalError: BAD_OPTIONS, if the directory is not empty.
        DiskError: a write failed. The directory stays marked as incomplete, and no member starts on
            it.
    """
    _check_empty(state_dir)
    with _marked(state_dir) as disk:
        me = Member(int.from_bytes(secrets.token_bytes(MEMBER_ID_BYTES), "big") or 1, address)
        wal, _ = Wal.open(disk, None)
        wal.create_identity(Identity(NIL_ID, me.id, address))
        wal.bump_boot(group=group or file.manifest.group)
        meta = _put_snapshot(disk, file, Config(voters=(me,)), progress)
        wal.install(meta)
        _put_history(disk, file)
        _put_blobs(file, state_dir, progress)
        cluster_id = secrets.token_bytes(GUID_BYTES)
        wal.join_cluster(
            cluster_id, (me,), ClusterKey(secrets.token_bytes(KEY_BYTES), is_sure=True)
        )
        wal.note_admitted()
        wal.close()
    return Restored(
        me.id, cluster_id.hex(), group or file.manifest.group, address, file.manifest.index
    )


def _check_empty(state_dir: Path) -> None:
    with explained(f"look at {state_dir}"):
        if not state_dir.exists():
            return
        names = [name for name in os.listdir(state_dir) if name != LOCK_NAME]
    if MARK in names:
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            f"{state_dir} holds a part of a group from a restore that did not come to its end",
            "remove the directory, then restore again",
        )
    if names:
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            f"{state_dir} is not empty: it holds {names[0][:64]!a}",
            "restore into a directory of its own; a member that has data is never overwritten",
        )


@contextmanager
def _marked(state_dir: Path) -> Iterator[RealDisk]:
    """The directory, marked as incomplete until the block is left without an error."""
    disk = RealDisk(state_dir)
    try:
        mark = state_dir / MARK
        with explained(f"write {mark}"):
            mark.touch(mode=0o600)
            _sync_folder(state_dir)
        yield disk
        with explained(f"remove {mark}"):
            _sync_folder(state_dir)
            mark.unlink()
            _sync_folder(state_dir)
    finally:
        disk.close()


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _put_snapshot(
    disk: RealDisk, file: BackupFile, config: Config, progress: Progress
) -> SnapshotMeta:
    """Store the snapshot as if received from a peer, which verifies it; then rewrite it with the
    advanced fence counter, and with large bodies inline."""
    snapshots = Snapshots(disk)
    part = snapshot_part(file)
    manifest = file.manifest
    meta = SnapshotMeta(
        manifest.index,
        manifest.term,
        config,
        part.size_bytes,
        bytes.fromhex(manifest.sha256),
        manifest.large_count,
    )
    step = SNAPSHOT_CHUNK_BYTES_MAX
    for offset in range(0, part.size_bytes, step):
        data = file.read(part, offset, step)
        snapshots.receive(meta, offset, data, offset + step >= part.size_bytes)
        progress(offset + len(data), file.size_bytes)
    log = BodyLog(BodyFiles(disk), lambda _: None, LARGE_BODY_BYTES_MIN, SEGMENT_BYTES)
    states = States(disk, snapshots, log, HOT_BYTES_MAX)
    state = states.load(meta)
    state.last_fence += FENCE_LEAP
    size_bytes, pieces = snapshot_pieces(state, state.bodies.sealed)
    snapshots.begin()
    meta = snapshots.write(
        SnapshotMeta(manifest.index, manifest.term, config, size_bytes, NO_DIGEST), pieces
    )
    snapshots.publish(meta)
    states.retire(state)
    clear_spill(disk)
    return meta


def _put_history(disk: Disk, file: BackupFile) -> None:
    segments = Segments(disk)
    seal_pieces(segments, file)
    if file.manifest.history_first > 1:
        segments.forget(file.manifest.history_first - 1)


def _put_blobs(file: BackupFile, state_dir: Path, progress: Progress) -> None:
    parts = list(file.parts(BLOB))
    if not parts:
        return
    store = LocalBlobs(state_dir / BLOBS, Use.ALONE)
    done = file.size_bytes - sum(part.size_bytes for part in parts)
    try:
        for part in parts:
            try:
                digest = digest_from_text(part.name)
            except RemoteError as error:
                raise DiskError(ErrorCode.BACKUP_CORRUPT, error.message) from None
            with store.begin(digest, part.size_bytes) as incoming:
                for data in file.pieces(part):
                    incoming.write(data)
                    done += len(data)
                    progress(done, file.size_bytes)
                incoming.commit()
    finally:
        store.close()
