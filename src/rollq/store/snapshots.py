"""Snapshots on disk: written atomically, two generations, verified by a digest.

A file is `snapshots/<index>-<term>.snap`:

    magic 4 | version 2 | zero 2 | meta_bytes 4 | crc 4 (of all before it and of the meta)
    meta (msgpack `SnapshotMeta`: position, configuration, size and sha256 of the body)
    body

It is written under a temporary name, synced, renamed, and the folder synced. Format changes: a new
layout takes a new VERSION and this reader stays. What does not verify is moved under `broken/`,
and the older generation is used; the log is kept from there (`oldest_index`).
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable, Iterator
from typing import Final
from zlib import crc32

import msgspec

from rollq.base.errors import DiskError, ErrorCode, LocalError
from rollq.base.limits import (
    SNAPSHOT_CHUNK_BYTES_MAX,
    SNAPSHOT_META_BYTES_MAX,
    SNAPSHOTS_KEPT,
    SYNC_BYTES,
)
from rollq.raft.types import Config, SnapshotMeta
from rollq.store.disk import BROKEN, Disk, prune_broken

FOLDER: Final = "snapshots"
SUFFIX: Final = ".snap"
SAVING: Final = f"{FOLDER}/saving.tmp"
INCOMING: Final = f"{FOLDER}/incoming.tmp"
MAGIC: Final = b"RQS\x01"
VERSION: Final = 1
READ_BYTES: Final = 1024 * 1024
WRITE_BYTES: Final = 1024 * 1024
READ_FIRST_BYTES: Final = 4096  # nearly every header fits
NO_DIGEST: Final = bytes(hashlib.sha256().digest_size)

_FIXED: Final = struct.Struct("<4sHHI")
_CRC: Final = struct.Struct("<I")
HEADER_BYTES: Final = _FIXED.size + _CRC.size

_encoder = msgspec.msgpack.Encoder()
_decoder = msgspec.msgpack.Decoder(SnapshotMeta)


class Snapshots:
    """The snapshots of one member."""

    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        self._pinned: dict[str, int] = {}
        self.corrupt: list[str] = []  # names of what did not verify and is now under broken/

    def newest(self) -> SnapshotMeta | None:
        """The newest snapshot that verifies, header and body; None if there is none.

        Raises:
            DiskError: DISK_VERSION, if a newer rollq wrote it.
        """
        for name in reversed(self._files()):
            meta = self._verified(name)
            if meta is not None:
                return meta
            self._put_aside(name)
        return None

    def oldest_index(self) -> int:
        """The log may be compacted up to here: the oldest of all generations that we want to
        have, 0 while there are fewer."""
        files = self._files()
        return _index_of(files[-SNAPSHOTS_KEPT]) if len(files) >= SNAPSHOTS_KEPT else 0

    def begin(self) -> None:
        """Make an empty file for the first of three steps to a snapshot: begin, write, publish.
        Only the second takes long; it may be done by a forked child."""
        self._disk.remove(SAVING)
        self._disk.write(SAVING, 0, b"")

    def write(self, meta: SnapshotMeta, pieces: Iterable[bytes]) -> SnapshotMeta:
        """Write a body of `meta.size_bytes` and sync it; returns the meta with its digest."""
        offset = len(encode_header(meta))  # a digest has one length, so the header has
        end = offset + meta.size_bytes
        digest = hashlib.sha256()
        unsynced_bytes = 0
        for piece in gather(pieces, WRITE_BYTES):
            self._disk.write(SAVING, offset, piece)
            digest.update(piece)
            offset += len(piece)
            unsynced_bytes += len(piece)
            if unsynced_bytes >= SYNC_BYTES:
                self._disk.sync(SAVING)
                unsynced_bytes = 0
        if offset != end:
            raise LocalError(
                ErrorCode.BUG, f"a snapshot is {offset - end} bytes longer than declared"
            )
        meta = msgspec.structs.replace(meta, sha256=digest.digest())
        self._disk.write(SAVING, 0, encode_header(meta))
        self._disk.sync(SAVING)
        return meta

    def publish(self, meta: SnapshotMeta) -> None:
        """Give what was written its name; durable when it returns. Older generations go."""
        self._publish(SAVING, meta)

    def save(self, index: int, term: int, config: Config, body: bytes) -> SnapshotMeta:
        """Store a snapshot that is at hand; durable when it returns."""
        self.begin()
        meta = self.write(
            SnapshotMeta(index, term, config=config, size_bytes=len(body), sha256=NO_DIGEST),
            (body,),
        )
        self.publish(meta)
        return meta

    def pin(self, meta: SnapshotMeta) -> tuple[str, int]:
        """Keep the file of a snapshot, whatever its age, until `unpin`: bodies are read from it.

        Returns:
            Its name, and where the body starts.
        """
        name = name_of(meta)
        stored, start = self._header(name)
        if stored != meta:
            raise _corrupt(name, "it is gone, or another one has its name")
        self._pinned[name] = self._pinned.get(name, 0) + 1
        return name, start

    def unpin(self, name: str) -> None:
        """Nobody reads from it any more; it goes with the next snapshot if it is old."""
        self._pinned[name] -= 1
        if not self._pinned[name]:
            del self._pinned[name]

    def load(self, meta: SnapshotMeta) -> bytes:
        """The whole body, verified. Raises DiskError SNAPSHOT_CORRUPT."""
        name = name_of(meta)
        stored, start = self._header(name)
        body = self._disk.read(name, start, meta.size_bytes) if stored == meta else b""
        if hashlib.sha256(body).digest() != meta.sha256:
            raise _corrupt(name, "its content does not match its digest")
        return body

    def read(self, meta: SnapshotMeta, offset: int, length: int) -> bytes:
        """A piece of the body, to be sent to a peer, who verifies the whole."""
        name = name_of(meta)
        stored, start = self._header(name)
        if stored != meta:
            raise _corrupt(name, "it is gone, or another one has its name")
        length = min(length, SNAPSHOT_CHUNK_BYTES_MAX, max(meta.size_bytes - offset, 0))
        try:
            return self._disk.read(name, start + offset, length)
        except DiskError:
            if self._disk.size(name) >= 0:
                raise
            raise _corrupt(name, "a newer one has just taken its place") from None

    def received(self, meta: SnapshotMeta) -> int:
        """How many bytes of this body already came in: where a cut transfer may go on."""
        stored, start = self._header(INCOMING)
        return self._disk.size(INCOMING) - start if stored == meta else 0

    def receive(
        self, meta: SnapshotMeta, offset: int, data: bytes, done: bool
    ) -> SnapshotMeta | None:
        """Take in a piece of the body; with the last one, verify and store it durably.

        Returns:
            The meta once the snapshot is in place, else None.

        Raises:
            DiskError: SNAPSHOT_CORRUPT if the whole does not match its digest; all pieces are
                discarded then, and the transfer must start anew.
        """
        if offset == 0:
            self._disk.remove(INCOMING)
            self._disk.write(INCOMING, 0, encode_header(meta))
        have = self.received(meta)
        if offset > have:
            raise LocalError(
                ErrorCode.BUG, f"a snapshot piece at {offset} leaves a hole after {have}"
            )
        self._disk.write(INCOMING, len(encode_header(meta)) + offset, data)
        if not done:
            return None
        if self._verified(INCOMING) is None:
            self._disk.remove(INCOMING)
            raise _corrupt(INCOMING, "what came in does not match the digest it was sent with")
        self._publish(INCOMING, meta)
        return meta

    def _files(self) -> list[str]:
        return [f"{FOLDER}/{name}" for name in self._disk.names(FOLDER) if name.endswith(SUFFIX)]

    def is_sound(self, meta: SnapshotMeta) -> bool:
        """Whether the file of a snapshot is still what was written; reads all of it."""
        return self._verified(name_of(meta)) == meta

    def _verified(self, name: str) -> SnapshotMeta | None:
        """The meta of a file whose header and body are valid."""
        meta, start = self._header(name)
        if meta is None or self._disk.size(name) != start + meta.size_bytes:
            return None
        digest = hashlib.sha256()
        for offset in range(start, start + meta.size_bytes, READ_BYTES):
            digest.update(self._disk.read(name, offset, READ_BYTES))
        return meta if digest.digest() == meta.sha256 else None

    def _header(self, name: str) -> tuple[SnapshotMeta | None, int]:
        """The meta, or None, and where the body starts."""
        if self._disk.size(name) < HEADER_BYTES:
            return None, 0
        data = self._disk.read(name, 0, READ_FIRST_BYTES)
        if len(data) == READ_FIRST_BYTES and needed_bytes(data) > READ_FIRST_BYTES:
            data = self._disk.read(name, 0, HEADER_BYTES + SNAPSHOT_META_BYTES_MAX)
        return decode_header(data, name)

    def _publish(self, temporary: str, meta: SnapshotMeta) -> None:
        self._disk.sync(temporary)
        self._disk.rename(temporary, name_of(meta))
        self._disk.sync_dir(FOLDER)
        # Only now: until the new name is durable the old generations are all there is.
        for name in self._files()[:-SNAPSHOTS_KEPT]:
            if name not in self._pinned:
                self._disk.remove(name)
        self._disk.sync_dir(FOLDER)

    def _put_aside(self, name: str) -> None:
        self.corrupt.append(name)
        self._disk.rename(name, f"{BROKEN}/{name.removeprefix(FOLDER + '/')}")
        prune_broken(self._disk, SUFFIX)
        self._disk.sync_dir(BROKEN)
        self._disk.sync_dir(FOLDER)


def name_of(meta: SnapshotMeta) -> str:
    """The file of a snapshot; names sort by index."""
    return f"{FOLDER}/{meta.index:020d}-{meta.term:020d}{SUFFIX}"


def _index_of(name: str) -> int:
    stem = name.removeprefix(f"{FOLDER}/").partition("-")[0]
    return int(stem) if stem.isdecimal() else 0


def gather(pieces: Iterable[bytes], size: int) -> Iterator[bytes]:
    """The same bytes in pieces of at least `size`, but for the last."""
    gathered: list[bytes] = []
    length = 0
    for piece in pieces:
        gathered.append(piece)
        length += len(piece)
        if length >= size:
            yield b"".join(gathered)
            gathered, length = [], 0
    if gathered:
        yield b"".join(gathered)


def encode_header(meta: SnapshotMeta) -> bytes:
    """Everything before the body."""
    body = _encoder.encode(meta)
    fixed = _FIXED.pack(MAGIC, VERSION, 0, len(body))
    return fixed + _CRC.pack(crc32(body, crc32(fixed))) + body


def needed_bytes(data: bytes) -> int:
    """How long the header is that begins like this, if it is one."""
    return HEADER_BYTES + int(_FIXED.unpack_from(data)[3])


def decode_header(data: bytes, name: str) -> tuple[SnapshotMeta | None, int]:
    """The meta, or None if it is not valid, and the length of the header.

    Raises:
        DiskError: DISK_VERSION, if a newer rollq wrote it.
    """
    magic, version, _, size = _FIXED.unpack_from(data)
    (crc,) = _CRC.unpack_from(data, _FIXED.size)
    end = HEADER_BYTES + size
    body = data[HEADER_BYTES:end]
    is_valid = (
        magic == MAGIC and len(body) == size and crc32(body, crc32(data[: _FIXED.size])) == crc
    )
    if not is_valid:
        return None, 0
    if version != VERSION:
        raise DiskError(
            ErrorCode.DISK_VERSION,
            f"snapshot {name} is of version {version}, and this rollq reads only {VERSION}",
            "start the rollq that wrote it, or a newer one",
        )
    try:
        return _decoder.decode(body), end
    except msgspec.MsgspecError:
        return None, 0


def _corrupt(name: str, reason: str) -> DiskError:
    return DiskError(
        ErrorCode.SNAPSHOT_CORRUPT,
        f"snapshot {name} cannot be used: {reason}",
        "nothing needs to be done if the group has other members: it is fetched from them",
    )
