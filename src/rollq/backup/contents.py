"""The contents of a backup: decoding of the state, and verification."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from functools import partial
from typing import Final
from zlib import crc32

import msgspec

from rollq.base.errors import DiskError, ErrorCode
from rollq.base.sealed import SEAL_BYTES
from rollq.grid.bodies import Token
from rollq.grid.snapshot import PREFACE_BYTES, decode_snapshot, head_bytes
from rollq.grid.state import GridState, JobState
from rollq.store.backup_file import BLOB, HISTORY, SNAPSHOT, BackupFile, BackupPart, Progress
from rollq.store.snapshot_layout import ROW_BYTES, SnapshotLayout, decode_layout

READ_BYTES: Final = 1024 * 1024
JOB_WORDS: Final = {
    JobState.QUEUED: "waiting",
    JobState.ASSIGNED: "running",
    JobState.DONE: "ended",
}


class Summary(msgspec.Struct, frozen=True):
    """Counts of what a backup holds."""

    jobs: dict[str, int]  # by state
    clients: int
    workers: int
    queues: int
    arrays: int
    caches: int
    accounts: int
    time_ms: int  # clock of the group
    blobs: int
    blob_bytes: int
    blobs_missing: list[str]  # digests that the state refers to and that are not in the backup
    history_bytes: int
    snapshot_bytes: int


def verify(file: BackupFile, progress: Progress = lambda done, total: None) -> Summary:
    """Verify the whole file, decode its state, and summarise it.

    Raises:
        DiskError: BACKUP_CORRUPT, or SNAPSHOT_CORRUPT, or DISK_VERSION.
        LocalError: UNSUPPORTED_VERSION, if a newer version made it.
    """
    file.verify(progress)
    _check_stream(file)
    state = state_of(file)
    present = {part.name: part.size_bytes for part in file.parts(BLOB)}
    return Summary(
        _job_counts(state),
        len(state.clients),
        len(state.workers),
        len(state.queues),
        len(state.arrays),
        len(state.caches),
        len(state.access.accounts),
        state.time_ms,
        len(present),
        sum(present.values()),
        [digest.hex() for digest in state.blobs if digest.hex() not in present],
        sum(part.size_bytes for part in file.parts(HISTORY)),
        snapshot_part(file).size_bytes,
    )


def snapshot_part(file: BackupFile) -> BackupPart:
    """The part with the snapshot. Raises DiskError BACKUP_CORRUPT if there is none."""
    part = next(file.parts(SNAPSHOT), None)
    if part is None:
        raise _corrupt(file, "it has no state")
    return part


def state_of(file: BackupFile) -> GridState:
    """The decoded state, without the bodies of jobs."""
    part = snapshot_part(file)
    return state_in(partial(file.read, part), file.manifest.index)


def state_in(read: Callable[[int, int], bytes], index: int) -> GridState:
    """The state of a snapshot that is read by offset and length; it must be of this index."""
    size = head_bytes(read(0, PREFACE_BYTES))
    state = decode_snapshot(read(0, size), adopt=_no_bodies)
    if state.applied_index != index:
        raise DiskError(
            ErrorCode.BACKUP_CORRUPT,
            f"the state in the backup is of index {state.applied_index}, not {index}",
        )
    return state


def _no_bodies(_offset: int, sizes: list[int]) -> list[Token]:
    return [b""] * len(sizes)


def _check_stream(file: BackupFile) -> None:
    """Verify the snapshot: against the member's digest, which leaves large bodies out, and against
    the checksums of those."""
    part = snapshot_part(file)
    table_bytes = ROW_BYTES * file.manifest.large_count
    table = file.read(part, part.size_bytes - table_bytes, table_bytes)
    layout = decode_layout(part.size_bytes, table)
    if layout is None or not _is_sound(file, part, layout):
        raise _corrupt(file, "its state does not match the digest that it was sent with")


def _is_sound(file: BackupFile, part: BackupPart, layout: SnapshotLayout) -> bool:
    digest = hashlib.sha256()
    seal = b""  # checksum of the large body before this span
    for span in layout.spans():
        if span.body >= 0:
            crc = 0
            for data in _read(file, part, span.begin, span.end):
                crc = crc32(data, crc)
            seal = crc.to_bytes(SEAL_BYTES, "little")
            continue
        for data in _read(file, part, span.begin, span.end):
            if not data.startswith(seal):
                return False
            seal = b""
            digest.update(data)
    return digest.hexdigest() == file.manifest.sha256


def _read(file: BackupFile, part: BackupPart, begin: int, end: int) -> Iterator[bytes]:
    for at in range(begin, end, READ_BYTES):
        yield file.read(part, at, min(READ_BYTES, end - at))


def _job_counts(state: GridState) -> dict[str, int]:
    counts = dict.fromkeys(map(_word_of, JobState), 0)
    for queue in state.queues.values():
        for one in JobState:
            counts[_word_of(one)] += queue.counts[one]
        counts["waiting"] += queue.tasks_waiting
    return counts


def _word_of(state: JobState) -> str:
    """The word of people for a state; how ended jobs ended is in their results."""
    return JOB_WORDS.get(state, state.name.lower())


def _corrupt(file: BackupFile, reason: str) -> DiskError:
    return DiskError(
        ErrorCode.BACKUP_CORRUPT,
        f"the backup {file.path} is damaged: {reason}",
        "use another backup; nothing of this one was used",
    )
