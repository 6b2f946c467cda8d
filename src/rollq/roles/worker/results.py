"""The durable table of results that the grid has not taken, and the identity of the worker.

Two files are used alternately. Each is a run of records of one generation; a record is one batch:

    magic 4 | crc 4 | generation 8 | seq 8 | body_bytes 4 | body            all little-endian

The body is msgpack: [results stored, attempts forgotten]. Record 0 of a generation has all live
results of its start, so a file is complete by itself, and switching files is one write and one
sync. Files are zero-filled once and then overwritten: a sync has no new blocks to allocate. Reading
stops at the first record that does not follow: a torn tail was never acknowledged.

Compatibility: fields may be appended to the body with a default; a new layout takes a new magic.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import secrets
import struct
from collections.abc import Sequence
from pathlib import Path
from typing import Final
from zlib import crc32

import msgspec

from rollq.base.errors import DiskError, ErrorCode
from rollq.base.ids import GUID_BYTES, JobId, WorkerId
from rollq.base.jobs import AttemptRef
from rollq.base.limits import RESULT_TABLE_BYTES
from rollq.roles.worker.signals import StoredResult
from rollq.store.state_lock import (
    FILE_MODE,
    IDENTITY_NAME,
    StateOwner,
    lock_state,
    try_lock,
    unlock_state,
)

log = logging.getLogger("rollq.worker")

MAGIC: Final = b"RQT\x01"
_HEADER: Final = struct.Struct("<4sIQQI")
_CHECKED_FROM: Final = 8  # the checksum covers everything after itself
NAMES: Final = ("results.a", "results.b")


class ResultBatch(msgspec.Struct, array_like=True, frozen=True):
    """The body of a record."""

    stored: tuple[StoredResult, ...] = ()
    forgotten: tuple[AttemptRef, ...] = ()


class WorkerIdentity(msgspec.Struct, frozen=True):
    """The identity of a worker, as long as its state directory exists."""

    worker_id: str  # hex
    incarnation: int


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(ResultBatch).decode


class ResultTable:
    """The table in one state directory. Calls block and must not overlap; `commit` belongs on a
    thread unless the disk is fast."""

    def __init__(self, directory: Path, table_bytes: int = RESULT_TABLE_BYTES) -> None:
        self._directory = directory
        self._table_bytes = table_bytes
        self._lock_fd = -1
        self._old_lock_fd = -1
        self._fds = [-1, -1]
        self._turn = 0  # the file in use
        self._generation = 0
        self._seq = 0
        self._offset = 0
        self._base_bytes = 0
        # By job: the older one of two attempts was superseded, and its result is not needed.
        self._alive: dict[JobId, StoredResult] = {}

    def open(self) -> tuple[WorkerId, int, tuple[StoredResult, ...]]:
        """Lock and read the directory: worker id, incarnation of this start, live results.

        Raises:
            LocalError: BAD_SETUP if it is the directory of a member.
            DiskError: another process uses it, or it cannot be read or written.
        """
        try:
            self._directory.mkdir(parents=True, exist_ok=True)
            self._lock()
            identity = self._next_identity()
            self._fds = [
                os.open(self._directory / name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
                for name in NAMES
            ]
            self._recover()
            self._begin_generation()
        except OSError as error:
            self.close()
            raise _disk_failed(self._directory, error) from None
        except BaseException:
            self.close()
            raise
        return (
            bytes.fromhex(identity.worker_id),
            identity.incarnation,
            tuple(self._alive.values()),
        )

    def commit(self, stored: Sequence[StoredResult], forgotten: Sequence[AttemptRef]) -> None:
        """Write a batch; returns when the stored results are durable. Forgotten ones may reappear.

        Raises:
            DiskError: nothing of the batch counts, and the table must not be used again.
        """
        self._account(stored, forgotten)
        try:
            if self.is_full:
                self._begin_generation()
            else:
                self._append(ResultBatch(tuple(stored), tuple(forgotten)))
                if stored:
                    os.fdatasync(self._fds[self._turn])
        except OSError as error:
            raise _disk_failed(self._directory, error) from None

    @property
    def is_full(self) -> bool:
        """Whether the next `commit` rewrites all live results, which takes long."""
        return self._offset > max(self._table_bytes, 3 * self._base_bytes)

    def close(self) -> None:
        """Unlock the directory."""
        for fd in (self._old_lock_fd, self._lock_fd):
            if fd >= 0:
                unlock_state(fd)
        for fd in self._fds:
            if fd >= 0:
                os.close(fd)
        self._fds = [-1, -1]
        self._lock_fd = self._old_lock_fd = -1

    # --- opening

    def _lock(self) -> None:
        self._lock_fd = lock_state(self._directory, StateOwner.WORKER)
        # Earlier versions lock this file alone, and such a worker may still be draining.
        self._old_lock_fd = os.open(self._directory / "lock", os.O_RDWR | os.O_CREAT, FILE_MODE)
        if not try_lock(self._old_lock_fd):
            raise DiskError(
                ErrorCode.DISK_BUSY,
                f"another worker uses the state directory {self._directory}",
                "stop it, or give this worker a directory of its own",
            )

    def _next_identity(self) -> WorkerIdentity:
        path = self._directory / IDENTITY_NAME
        try:
            old = msgspec.json.decode(path.read_bytes(), type=WorkerIdentity)
            if len(bytes.fromhex(old.worker_id)) != GUID_BYTES:
                raise ValueError("not a worker id")
            identity = WorkerIdentity(old.worker_id, old.incarnation + 1)
        except FileNotFoundError:
            identity = WorkerIdentity(secrets.token_hex(GUID_BYTES), 1)
        except ValueError as error:  # msgspec's errors are ValueErrors too
            raise DiskError(
                ErrorCode.DISK_CORRUPT,
                f"{path} cannot be understood: {error}",
                "if no job of this worker matters any more, remove its state directory",
            ) from None
        self._replace(path, msgspec.json.encode(identity))
        return identity

    def _replace(self, path: Path, data: bytes) -> None:
        temporary = path.with_suffix(".new")
        with open(temporary, "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        os.rename(temporary, path)
        directory = os.open(self._directory, os.O_RDONLY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)

    def _recover(self) -> None:
        """Use the newest generation whose record 0 is complete."""
        for turn, fd in enumerate(self._fds):
            generation, batches = _read_run(fd, self._directory / NAMES[turn])
            if generation > self._generation:
                self._generation, self._turn = generation, turn
                self._alive = {}
                for batch in batches:
                    self._account(batch.stored, batch.forgotten)
        for fd in self._fds:
            missing = self._table_bytes - os.fstat(fd).st_size
            if missing > 0:
                os.pwrite(fd, bytes(missing), os.fstat(fd).st_size)
                os.fsync(fd)

    # --- writing

    def _account(self, stored: Sequence[StoredResult], forgotten: Sequence[AttemptRef]) -> None:
        alive = self._alive
        alive.update([(record.ref.job_id, record) for record in stored])
        for ref in forgotten:
            record = alive.get(ref.job_id)
            if record is not None and record.ref.fence == ref.fence and record.ref == ref:
                del alive[ref.job_id]

    def _begin_generation(self) -> None:
        """Write all live results to the other file, and continue there."""
        self._turn = 1 - self._turn
        self._generation += 1
        self._seq = 0
        self._offset = 0
        self._append(ResultBatch(tuple(self._alive.values())))
        self._base_bytes = self._offset
        os.fdatasync(self._fds[self._turn])

    def _append(self, batch: ResultBatch) -> None:
        body = _encode(batch)
        fixed = _HEADER.pack(MAGIC, 0, self._generation, self._seq, len(body))[_CHECKED_FROM:]
        crc = crc32(body, crc32(fixed))
        data = b"".join((MAGIC, crc.to_bytes(4, "little"), fixed, body))
        view = memoryview(data)
        while view:
            written = os.pwrite(self._fds[self._turn], view, self._offset)
            self._offset += written
            view = view[written:]
        self._seq += 1


def _read_run(fd: int, path: Path) -> tuple[int, list[ResultBatch]]:
    """The consecutive records of one file: generation (0: none), batches."""
    generation, offset = 0, 0
    batches: list[ResultBatch] = []
    size = os.fstat(fd).st_size
    while True:
        header = os.pread(fd, _HEADER.size, offset)
        if len(header) < _HEADER.size:
            break
        magic, crc, record_generation, seq, body_bytes = _HEADER.unpack(header)
        follows = not batches or record_generation == generation
        # Only the file bounds a record: record 0 has all live results, however large they are.
        fits = offset + _HEADER.size + body_bytes <= size
        if magic != MAGIC or seq != len(batches) or not follows or not fits:
            break
        body = os.pread(fd, body_bytes, offset + _HEADER.size)
        if crc32(body, crc32(header[_CHECKED_FROM:])) != crc:
            log.warning("%s: record %d is torn or corrupt; ignoring it and what follows", path, seq)
            break
        with contextlib.suppress(msgspec.DecodeError):
            batches.append(_decode(body))
            generation = record_generation
            offset += _HEADER.size + body_bytes
            continue
        raise DiskError(
            ErrorCode.DISK_VERSION,
            f"{path}: record {seq} was written by another rollq",
            "start the rollq that wrote it, or a newer one",
        )
    return generation, batches


def _disk_failed(directory: Path, error: OSError) -> DiskError:
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return DiskError(
        ErrorCode.DISK_FULL if full else ErrorCode.DISK_FAILED,
        f"the worker's state directory {directory}: {error.strerror or error}",
        "make room, then start the worker again" if full else "check the disk and its permissions",
    )
