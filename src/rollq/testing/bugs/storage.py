"""Bugs of the log, snapshots and history on disk."""

from __future__ import annotations

from typing import Any

import msgspec

from rollq.base.errors import DiskError
from rollq.roles.member import snapshot_order
from rollq.store import body_files, snapshots, wal, walk
from rollq.store.record import HEADER_BYTES
from rollq.testing.bugs.registry import CRASHES, mutant


@mutant("crc_not_checked", walk, "decode_body", faults=("rot", *CRASHES), fault_ms_max=400)
def _crc_not_checked(old: Any) -> Any:
    def decode_body(header: Any, data: bytes, offset: int) -> bytes | None:
        begin = offset + HEADER_BYTES
        body = data[begin : begin + header.body_bytes]
        return body if len(body) == header.body_bytes else None

    return decode_body


@mutant(
    "rot_taken_for_torn_tail",
    walk._Walker,
    "_resume",
    faults=("rot", "crash_power", "isolate_leader", "crash_kill", "partition"),
    fault_ms_max=300,
    chaos_ms=16_000,
    members=3,
)
def _rot_as_torn(old: Any) -> Any:
    def resume(self: Any, *arguments: Any) -> Any:
        found = old(self, *arguments)
        if self.walk.corrupt:
            self.walk.corrupt, self.walk.torn = False, True
        return found

    return resume


@mutant(
    "segment_recycled_under_large_bodies",
    body_files.BodyFiles,
    "is_held",
    faults=CRASHES,
    large_bytes_min=8,
    hot_bytes_max=0,
    snapshot_entries=12,
    segment_bytes=4 * 1024,
)
def _recycled_under_bodies(old: Any) -> Any:
    return lambda self, segment: False


@mutant("retry_after_failed_fsync", wal.Wal, "sync", faults=("sync_fails", *CRASHES))
def _retry_fsync(old: Any) -> Any:
    def sync(self: Any) -> None:
        try:
            old(self)
        except DiskError:
            self._failed = False
            old(self)

    return sync


@mutant(
    "snapshot_rename_without_dir_sync",
    snapshots.Snapshots,
    "_publish",
    faults=CRASHES,
    snapshot_entries=12,
)
def _no_dir_sync(old: Any) -> Any:
    def publish(self: Any, *given: Any) -> None:
        self._disk.sync_dir = lambda _: None
        try:
            old(self, *given)
        finally:
            del self._disk.sync_dir

    return publish


@mutant(
    "snapshot_without_position",
    snapshots.Snapshots,
    "write",
    faults=CRASHES,
    snapshot_entries=12,
)
def _snapshot_without_position(old: Any) -> Any:
    def write(self: Any, meta: Any, pieces: Any, *, refers: bool) -> Any:
        meta = msgspec.structs.replace(meta, index=meta.index - 1)
        return old(self, meta, pieces, refers=refers)

    return write


@mutant(
    "snapshot_chunk_off_by_one",
    snapshots.Snapshots,
    "read",
    faults=("empty_disk", "partition", "crash_power"),
    snapshot_entries=12,
)
def _chunk_off_by_one(old: Any) -> Any:
    def read(self: Any, meta: Any, offset: int, length: int) -> Any:
        return old(self, meta, offset + (1 if offset else 0), length)

    return read


@mutant("history_not_sealed", snapshot_order, "parts_of", faults=CRASHES, snapshot_entries=12)
def _history_not_sealed(old: Any) -> Any:
    return lambda unsealed: []
