"""Snapshots on disk: written atomically, two generations, verified by a digest.

A file is `snapshots/<index>-<term>.snap`:

    header (`snapshot_header`: position, configuration, size and digest of the body)
    body

Large bodies of jobs are not copied into a snapshot: it refers to them in the log, whose segments it
holds (`body_files`). A peer is sent them in their places (`snapshot_layout`).

It is written under a temporary name, synced, renamed, and the folder synced. What does not verify
is moved under `broken/`, and the older generation is used; the log is kept from there
(`oldest_index`).
"""

from __future__ import annotations

import hashlib
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
from rollq.base.sealed import SEAL_BYTES
from rollq.raft.types import Config, SnapshotMeta
from rollq.store.body_files import BodyFiles
from rollq.store.disk import BROKEN, Disk, prune_broken
from rollq.store.snapshot_header import (
    HEADER_BYTES,
    PLAIN,
    REFERRING,
    WHOLE,
    SnapshotHeader,
    decode_header,
    encode_header,
    needed_bytes,
)
from rollq.store.snapshot_layout import (
    ROW_BYTES,
    BodySpan,
    LargeBody,
    SnapshotLayout,
    decode_layout,
    encode_places,
    encode_table,
    places_bytes,
)

FOLDER: Final = "snapshots"
SUFFIX: Final = ".snap"
SAVING: Final = f"{FOLDER}/saving.tmp"
INCOMING: Final = f"{FOLDER}/incoming.tmp"
READ_BYTES: Final = 1024 * 1024
WRITE_BYTES: Final = 1024 * 1024
READ_FIRST_BYTES: Final = 4096  # nearly every header fits
NO_DIGEST: Final = bytes(hashlib.sha256().digest_size)


class Snapshots:
    """The snapshots of one member."""

    def __init__(self, disk: Disk, files: BodyFiles | None = None) -> None:
        """Look at what is there.

        Args:
            disk: where they are.
            files: the segments of the log that they refer to; if it is not given nothing else holds
                any.
        """
        self._disk = disk
        self._body_files = files or BodyFiles(disk)
        self._held: dict[str, set[int]] = {}  # by name: the segments that a snapshot refers to
        self._pinned: dict[str, int] = {}
        self._sent: tuple[SnapshotMeta, SnapshotLayout] | None = (
            None  # the last one that a peer requested
        )
        self.corrupt: list[str] = []  # names of files that did not verify and are now under broken/

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

    def claim(self) -> None:
        """At the start: hold the segments that snapshots refer to, verified or not."""
        for name in self._files():
            header = self._header(name)
            layout = self._layout(name, header) if header is not None else None
            if layout is not None:
                self._hold(name, layout.segments)

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

    def write(
        self, meta: SnapshotMeta, pieces: Iterable[bytes | LargeBody], *, refers: bool = False
    ) -> SnapshotMeta:
        """Write a body of `meta.size_bytes` and sync it.

        Args:
            meta: without a digest.
            pieces: of the body.
            refers: whether there may be bodies among them that stay in the log.

        Returns:
            The meta with its digest, and with the size of what a peer is sent.
        """
        version = REFERRING if refers else PLAIN
        begin = offset = len(encode_header(meta, version))  # as long as it will be in the end
        digest = hashlib.sha256()
        found = _Found()
        unsynced_bytes = 0
        for piece in gather(found.sift(pieces), WRITE_BYTES):
            self._disk.write(SAVING, offset, piece)
            digest.update(piece)
            offset += len(piece)
            unsynced_bytes += len(piece)
            if unsynced_bytes >= SYNC_BYTES:
                self._disk.sync(SAVING)
                unsynced_bytes = 0
        if found.size_bytes != meta.size_bytes:
            raise LocalError(
                ErrorCode.BUG,
                f"a snapshot of {found.size_bytes} bytes was declared as {meta.size_bytes}",
            )
        table = encode_table(found.offsets, [body.size for body in found.bodies])
        digest.update(table)
        meta = msgspec.structs.replace(
            meta,
            size_bytes=meta.size_bytes + len(table),
            sha256=digest.digest(),
            large_count=len(found.bodies),
        )
        if refers:
            self._disk.write(SAVING, offset, table + encode_places(found.bodies))
        self._disk.write(SAVING, 0, encode_header(meta, version, length=begin))
        self._disk.sync(SAVING)
        return meta

    def publish(self, meta: SnapshotMeta, segments: Iterable[int] = ()) -> None:
        """Give what was written its name; durable when it returns. Older generations go.

        Args:
            meta: of what was written.
            segments: of the log, that it refers to; somebody still holds them.
        """
        self._publish(SAVING, meta, segments)

    def save(self, index: int, term: int, config: Config, body: bytes) -> SnapshotMeta:
        """Store a snapshot that is at hand; durable when it returns."""
        self.begin()
        meta = self.write(
            SnapshotMeta(index, term, config=config, size_bytes=len(body), sha256=NO_DIGEST),
            (body,),
        )
        self.publish(meta)
        return meta

    def pin(self, meta: SnapshotMeta) -> tuple[str, int, SnapshotLayout]:
        """Keep the file of a snapshot, whatever its age, until `unpin`: bodies are read from it.

        Returns:
            Its name, the offset of its body, and its layout.
        """
        name = name_of(meta)
        header = self._header(name)
        layout = self._layout(name, header) if header is not None else None
        if header is None or header.meta != meta or layout is None:
            raise _corrupt(name, "it is gone, or another one has its name")
        self._pinned[name] = self._pinned.get(name, 0) + 1
        return name, header.length, layout

    def open(self, meta: SnapshotMeta) -> OpenSnapshot:
        """A snapshot for reading on any thread, also after it is deleted."""
        return OpenSnapshot(self, *self.pin(meta))

    def read_spans(
        self, name: str, start: int, layout: SnapshotLayout, ends: tuple[int, int]
    ) -> bytes:
        """Bytes of a stream, whose file is pinned."""
        spans = layout.spans(*ends)
        return b"".join([self._span(name, start, layout, span) for span in spans])

    def file_bytes(self, meta: SnapshotMeta) -> int:
        """The size of a snapshot on disk, without the bodies it refers to; also the estimate for
        the next one."""
        return max(self._disk.size(name_of(meta)), 0)

    def unpin(self, name: str) -> None:
        """The file is not read any more; it is deleted with the next snapshot if it is old."""
        self._pinned[name] -= 1
        if not self._pinned[name]:
            del self._pinned[name]

    def load(self, meta: SnapshotMeta) -> bytes:
        """The whole stream, verified. Raises DiskError SNAPSHOT_CORRUPT."""
        name = name_of(meta)
        if self._verified(name) != meta:
            raise _corrupt(name, "its content does not match its digest")
        chunks = range(0, meta.size_bytes, SNAPSHOT_CHUNK_BYTES_MAX)
        return b"".join([self.read(meta, at, SNAPSHOT_CHUNK_BYTES_MAX) for at in chunks])

    def read(self, meta: SnapshotMeta, offset: int, length: int) -> bytes:
        """A piece of the stream, to be sent to a peer, who verifies the whole."""
        name = name_of(meta)
        header = self._header(name)
        if header is None or header.meta != meta:
            raise _corrupt(name, "it is gone, or another one has its name")
        if self._sent is None or self._sent[0] != meta:
            layout = self._layout(name, header)
            if layout is None:
                raise _corrupt(name, "its table of large bodies is damaged")
            self._sent = (meta, layout)
        layout = self._sent[1]
        end = offset + min(length, SNAPSHOT_CHUNK_BYTES_MAX, max(meta.size_bytes - offset, 0))
        try:
            return self.read_spans(name, header.length, layout, (offset, end))
        except DiskError:
            if self._disk.size(name) >= 0:
                raise
            raise _corrupt(name, "a newer one has just taken its place") from None

    def received(self, meta: SnapshotMeta) -> int:
        """Received bytes of this body: where an interrupted transfer may resume."""
        header = self._header(INCOMING)
        if header is None or header.meta != meta:
            return 0
        return self._disk.size(INCOMING) - header.length

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
            self._disk.write(INCOMING, 0, _incoming_header(meta))
        have = self.received(meta)
        if offset > have:
            raise LocalError(
                ErrorCode.BUG, f"a snapshot piece at {offset} leaves a hole after {have}"
            )
        self._disk.write(INCOMING, len(_incoming_header(meta)) + offset, data)
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
        """The meta of a file whose header and body are valid, and whose large bodies are."""
        header = self._header(name)
        layout = self._layout(name, header) if header is not None else None
        if header is None or layout is None or not self._body_files.has_all(layout.segments):
            return None
        digest = hashlib.sha256()
        crc = b""  # of the body before, if it was large
        for span in layout.spans():
            if span.body >= 0:
                body = self._span(name, header.length, layout, span)
                crc = crc32(body).to_bytes(SEAL_BYTES, "little")
                continue
            begin = header.length + layout.file_offset(span.begin)
            end = begin + span.end - span.begin
            for at in range(begin, end, READ_BYTES):
                data = self._disk.read(name, at, min(READ_BYTES, end - at))
                if not data.startswith(crc):
                    return None
                crc = b""
                digest.update(data)
        return header.meta if digest.digest() == header.meta.sha256 else None

    def _span(self, name: str, start: int, layout: SnapshotLayout, span: BodySpan) -> bytes:
        length = span.end - span.begin
        if span.body >= 0 and layout.bodies:
            body = layout.bodies[span.body]
            within = span.begin - layout.offsets[span.body]
            return self._body_files.read(body.segment, body.offset + within, length)
        return self._disk.read(name, start + layout.file_offset(span.begin), length)

    def _header(self, name: str) -> SnapshotHeader | None:
        """The header of the file; None if it is not valid."""
        if self._disk.size(name) < HEADER_BYTES:
            return None
        data = self._disk.read(name, 0, READ_FIRST_BYTES)
        if len(data) == READ_FIRST_BYTES and needed_bytes(data) > READ_FIRST_BYTES:
            data = self._disk.read(name, 0, HEADER_BYTES + SNAPSHOT_META_BYTES_MAX)
        return decode_header(data, name)

    def _layout(self, name: str, header: SnapshotHeader) -> SnapshotLayout | None:
        """The layout of the body; None if it does not have the length in the header."""
        meta, size = header.meta, self._disk.size(name) - header.length
        if header.version == PLAIN:
            return SnapshotLayout(meta.size_bytes) if size == meta.size_bytes else None
        table_bytes = ROW_BYTES * meta.large_count
        behind = places_bytes(meta.large_count) if header.version == REFERRING else 0
        table_at = size - behind - table_bytes
        if table_at < 0:
            return None
        data = self._disk.read(name, header.length + table_at, table_bytes + behind)
        places = data[table_bytes:] if header.version == REFERRING else None
        layout = decode_layout(meta.size_bytes, data[:table_bytes], places)
        return layout if layout is not None and layout.file_bytes + behind == size else None

    def _hold(self, name: str, segments: Iterable[int]) -> None:
        before = self._held.pop(name, ())  # one of the same position had its name
        self._held[name] = set(segments)
        self._body_files.snapshots.hold(self._held[name])
        self._body_files.snapshots.release(before)

    def _publish(self, temporary: str, meta: SnapshotMeta, segments: Iterable[int] = ()) -> None:
        self._disk.sync(temporary)
        self._disk.rename(temporary, name_of(meta))
        self._disk.sync_dir(FOLDER)
        self._hold(name_of(meta), segments)
        # Only now: until the new name is durable the old generations are all there is.
        old = [name for name in self._files()[:-SNAPSHOTS_KEPT] if name not in self._pinned]
        for name in old:
            self._disk.remove(name)
        self._disk.sync_dir(FOLDER)
        for name in old:
            self._body_files.snapshots.release(self._held.pop(name, ()))

    def _put_aside(self, name: str) -> None:
        self.corrupt.append(name)
        self._disk.rename(name, f"{BROKEN}/{name.removeprefix(FOLDER + '/')}")
        prune_broken(self._disk, SUFFIX)
        self._disk.sync_dir(BROKEN)
        self._disk.sync_dir(FOLDER)


class OpenSnapshot:
    """The stream of a snapshot, as sent to a peer."""

    def __init__(self, snapshots: Snapshots, name: str, start: int, layout: SnapshotLayout) -> None:
        self._snapshots = snapshots
        self._name = name
        self._start = start
        self._layout = layout

    def read(self, offset: int, length: int) -> bytes:
        """Some bytes of it; fewer only at its end."""
        ends = (offset, min(offset + length, self._layout.size_bytes))
        return self._snapshots.read_spans(self._name, self._start, self._layout, ends)

    def close(self) -> None:
        """Close it, once, on the thread that opened it."""
        self._snapshots.unpin(self._name)


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


class _Found:
    """Separates large bodies from the pieces of a snapshot, and records their offsets."""

    def __init__(self) -> None:
        self.size_bytes = 0
        self.offsets: list[int] = []
        self.bodies: list[LargeBody] = []

    def sift(self, pieces: Iterable[bytes | LargeBody]) -> Iterator[bytes]:
        """All pieces that are not in the log."""
        for piece in pieces:
            if isinstance(piece, LargeBody):
                self.offsets.append(self.size_bytes)
                self.bodies.append(piece)
                self.size_bytes += piece.size
            else:
                self.size_bytes += len(piece)
                yield piece


def _incoming_header(meta: SnapshotMeta) -> bytes:
    return encode_header(meta, WHOLE if meta.large_count else PLAIN)


def _corrupt(name: str, reason: str) -> DiskError:
    return DiskError(
        ErrorCode.SNAPSHOT_CORRUPT,
        f"snapshot {name} cannot be used: {reason}",
        "nothing needs to be done if the group has other members: it is fetched from them",
    )
