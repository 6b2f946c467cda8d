"""A backup: one file with the state of a group at one log index, and digests of all of it.

    magic 8 | version 2 | zeros 6
    parts, one behind another, in the order of the manifest
    manifest (JSON, `Manifest`)
    length of the manifest 8 | its sha256 32 | sha256 of all before this 32 | magic of the end 8

Numbers are little-endian. The last digest covers every byte, so every change is detected; each part
has its own digest in the manifest, to locate the change. Format changes: fields of the manifest may
be added with a default; anything else takes a new version, and this reader stays.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, Self, TypeAlias

import msgspec

from rollq.base.errors import DiskError, ErrorCode, LocalError
from rollq.store.blobs import failures
from rollq.store.descriptors import read_all, write_all

MAGIC: Final = b"RQBACKUP"
MAGIC_END: Final = b"RQBK-END"
VERSION: Final = 1
FILE_MODE: Final = 0o600
READ_BYTES: Final = 1024 * 1024
MANIFEST_BYTES_MAX: Final = 4 * 1024**3  # of some million blobs
PARTIAL: Final = ".partial"

# Kinds of parts.
SNAPSHOT: Final = "snapshot"  # the state, as sent to a peer
HISTORY: Final = "history"  # log indexes FIRST-LAST in a form of `wire.reader_messages`
BLOB: Final = "blob"  # named by its digest

_HEADER: Final = struct.Struct("<8sH6x")
_TRAILER: Final = struct.Struct("<Q32s32s8s")

# Called with the number of bytes done, and of all.
Progress: TypeAlias = Callable[[int, int | None], None]


class BackupPart(msgspec.Struct, frozen=True):
    """One part of the file."""

    kind: str
    name: str
    size_bytes: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True):
    """The content of a backup."""

    rollq_version: str  # that made it
    group: str
    cluster_id: str  # of the group that it was taken from
    source: str  # the member, or the state directory
    begun_ms: int  # everything accepted before this time is in it
    # Of the snapshot: see `raft.types.SnapshotMeta`.
    index: int
    term: int
    sha256: str
    large_count: int
    # The log indexes of its history; first beyond last: none.
    history_first: int
    history_last: int
    has_blobs: bool = True  # those that the state refers to
    parts: tuple[BackupPart, ...] = ()


class BackupWriter:
    """Writes a file under a temporary name, which is removed unless `publish` renames it."""

    def __init__(self, path: Path) -> None:
        """Begin.

        Raises:
            DiskError: DISK_BUSY if somebody writes it just now; DISK_FAILED, DISK_FULL.
            LocalError: BAD_OPTIONS, if there is such a file.
        """
        self.path = path
        self.partial = path.with_name(path.name + PARTIAL)
        self._parts: list[BackupPart] = []
        self._fd = -1
        self._size = 0
        self._published = False
        _check_free(path)
        with _explained(f"write {self.partial}"):
            self._fd = os.open(self.partial, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                os.close(self._fd)
                raise DiskError(
                    ErrorCode.DISK_BUSY,
                    f"another process writes {self.partial}",
                    "wait for it, or choose another file",
                ) from None
            os.ftruncate(self._fd, 0)
        self._digest = hashlib.sha256()
        self._write(_HEADER.pack(MAGIC, VERSION))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        if not self._published:
            with contextlib.suppress(OSError):
                self.partial.unlink()
        os.close(self._fd)

    @property
    def size_bytes(self) -> int:
        """Bytes written so far."""
        return self._size

    @property
    def parts(self) -> tuple[BackupPart, ...]:
        """The parts written so far."""
        return tuple(self._parts)

    @contextlib.contextmanager
    def part(self, kind: str, name: str) -> Iterator[Callable[[bytes], None]]:
        """Write a part from these pieces. If that fails, there is no such part."""
        before, begin = self._digest.copy(), self._size
        digest = hashlib.sha256()

        def write(data: bytes) -> None:
            digest.update(data)
            self._write(data)

        try:
            yield write
        except BaseException:
            self._digest, self._size = before, begin
            with contextlib.suppress(OSError):
                os.ftruncate(self._fd, begin)
                os.lseek(self._fd, begin, os.SEEK_SET)
            raise
        self._parts.append(BackupPart(kind, name, self._size - begin, digest.hexdigest()))

    def read_back(self, offset: int, length: int) -> bytes:
        """Some bytes of the first part."""
        length = min(length, self._parts[0].size_bytes - offset)
        with _explained(f"read {self.partial}"):
            return read_all(self._fd, _HEADER.size + offset, length)

    def finish(self, manifest: Manifest) -> None:
        """Write the end, and sync all of it. It can be opened under its temporary name then.

        Args:
            manifest: without parts.
        """
        data = _encode(msgspec.structs.replace(manifest, parts=tuple(self._parts)))
        self._write(data)
        length, own = len(data).to_bytes(8, "little"), hashlib.sha256(data).digest()
        self._write(length + own)
        self._write(self._digest.digest() + MAGIC_END)
        with _explained(f"write {self.partial}"):
            os.fsync(self._fd)

    def publish(self) -> None:
        """Rename it to its final name; durable when it returns."""
        _check_free(self.path)
        with _explained(f"rename {self.partial} to {self.path}"):
            os.rename(self.partial, self.path)
            self._published = True
            folder = os.open(self.path.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def _write(self, data: bytes) -> None:
        self._digest.update(data)
        self._size += len(data)
        with _explained(f"write {self.partial}"):
            write_all(self._fd, data)


class BackupFile:
    """A backup that is read. Opening it checks its ends and its manifest; `verify` checks all.

    Attributes:
        manifest: what it holds.
    """

    def __init__(self, path: Path) -> None:
        """Raises OSError if the path cannot be opened, which is no fault of the disk; DiskError:
        BACKUP_CORRUPT, DISK_VERSION, DISK_FAILED."""
        self.path = path
        self._fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            with _explained(f"read {path}"):
                self.size_bytes = os.fstat(self._fd).st_size
                self.manifest = self._read_manifest()
        except BaseException:
            os.close(self._fd)
            raise
        self._offsets: dict[BackupPart, int] = {}
        at = _HEADER.size
        for part in self.manifest.parts:
            self._offsets[part] = at
            at += part.size_bytes

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        os.close(self._fd)

    def parts(self, kind: str) -> Iterator[BackupPart]:
        """Those of a kind, in order."""
        return (part for part in self.manifest.parts if part.kind == kind)

    def read(self, part: BackupPart, offset: int, length: int) -> bytes:
        """Some bytes of a part, not checked: after `verify`."""
        length = min(length, part.size_bytes - offset)
        with _explained(f"read {self.path}"):
            return read_all(self._fd, self._offsets[part] + offset, length)

    def pieces(self, part: BackupPart) -> Iterator[bytes]:
        """All bytes of a part, in order.

        Raises:
            DiskError: BACKUP_CORRUPT, after the last piece, if the digest does not match.
        """
        digest = hashlib.sha256()
        for offset in range(0, part.size_bytes, READ_BYTES):
            data = self.read(part, offset, READ_BYTES)
            digest.update(data)
            yield data
        if digest.hexdigest() != part.sha256:
            raise self._corrupt(f"its part {f'{part.kind} {part.name}'.strip()} is damaged")

    def verify(self, progress: Progress = lambda done, total: None) -> None:
        """Read all of it.

        Raises:
            DiskError: BACKUP_CORRUPT, and says what of it is.
        """
        digest = hashlib.sha256()
        end = self.size_bytes - hashlib.sha256().digest_size - len(MAGIC_END)
        for offset in range(0, end, READ_BYTES):
            with _explained(f"read {self.path}"):
                digest.update(read_all(self._fd, offset, min(READ_BYTES, end - offset)))
            progress(min(offset + READ_BYTES, end), end)
        with _explained(f"read {self.path}"):
            written = read_all(self._fd, end, digest.digest_size)
        if digest.digest() == written:
            return
        for part in self.manifest.parts:  # find the damaged part
            for _ in self.pieces(part):
                pass
        raise self._corrupt("it does not match its checksum")

    def _read_manifest(self) -> Manifest:
        size = self.size_bytes
        if size < _HEADER.size or read_all(self._fd, 0, len(MAGIC)) != MAGIC:
            raise DiskError(
                ErrorCode.BACKUP_CORRUPT,
                f"{self.path} is not a backup of rollq",
                "name a file that `rollq backup` has written",
            )
        header = read_all(self._fd, 0, _HEADER.size)
        version = _HEADER.unpack(header)[1]
        if version != VERSION and header == _HEADER.pack(MAGIC, version):
            raise DiskError(
                ErrorCode.DISK_VERSION,
                f"{self.path} is of version {version}, and this rollq reads {VERSION}",
                "use the rollq that wrote it, or a newer one",
            )
        if size < _HEADER.size + _TRAILER.size or header != _HEADER.pack(MAGIC, VERSION):
            raise self._corrupt("it ends too early, or its first bytes are damaged")
        length, own, _, end = _TRAILER.unpack(
            read_all(self._fd, size - _TRAILER.size, _TRAILER.size)
        )
        begin = size - _TRAILER.size - length
        if end != MAGIC_END or length > MANIFEST_BYTES_MAX or begin < _HEADER.size:
            raise self._corrupt("its end is missing or damaged: perhaps it was cut off")
        data = read_all(self._fd, begin, length)
        if hashlib.sha256(data).digest() != own:
            raise self._corrupt("its manifest is damaged")
        try:
            manifest = _decode(data)
        except msgspec.MsgspecError as error:
            raise self._corrupt(f"its manifest cannot be read: {error}") from None
        if sum(part.size_bytes for part in manifest.parts) != begin - _HEADER.size:
            raise self._corrupt("its parts do not have the size that its manifest says")
        return manifest

    def _corrupt(self, reason: str) -> DiskError:
        return DiskError(
            ErrorCode.BACKUP_CORRUPT,
            f"the backup {self.path} is damaged: {reason}",
            "use another backup; nothing of this one was used",
        )


@contextlib.contextmanager
def _explained(what: str) -> Iterator[None]:
    try:
        with failures.explained(what):
            yield
    except DiskError as error:
        if error.code is ErrorCode.DISK_FULL:
            error.hint = "make room, or choose another place for the backup"
        raise


def _check_free(path: Path) -> None:
    if path.exists() or path.is_symlink():
        raise LocalError(
            ErrorCode.BAD_OPTIONS,
            f"{path} exists, and a backup does not overwrite anything",
            "choose another name, or remove it first",
        )


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Manifest).decode
