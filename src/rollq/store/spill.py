"""Bodies of waiting jobs that do not fit into memory: the log, scratch files, and the snapshot of
the start.

A large body stays in the log (`log_bodies`): it is written nowhere else, and snapshots refer to it.
Any other beyond the hot window is appended to a scratch file; its token encodes position and
length. The log and the snapshots are authoritative, so nothing here is synced, and scratch files
are removed when the member starts. Bodies that came with a snapshot stay in its file. A file is
removed as a whole when the last of its bodies is dropped.

Jobs leave about in the order in which they came, so reads go through a few cached blocks.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, repeat
from typing import Final
from zlib import crc32

from rollq.base.limits import (
    HOT_BODIES_BYTES_MAX,
    INLINE_BYTES_MAX,
    SPILL_BLOCKS_MAX,
    SPILL_FILE_BYTES,
)
from rollq.base.sealed import SEAL_BYTES, seal, seal_all, sealed_bytes, unseal
from rollq.store.disk import Disk
from rollq.store.log_bodies import (
    FIRST_TOKEN,
    SIZE_BITS,
    BodyLog,
    LogBodies,
    corrupt_body,
    large_of,
)
from rollq.store.snapshot_layout import LargeBody, SnapshotLayout

FOLDER: Final = "spill"
SIZE_MASK: Final = (1 << SIZE_BITS) - 1
BLOCK_BYTES: Final = 64 * 1024
STRETCH_BYTES: Final = 1024 * 1024  # read at once for a snapshot
HOT_AT_ONCE: Final = 1_024  # bodies in memory that go into one piece of a snapshot
TAIL_BYTES_MAX: Final = 256 * 1024  # gathered before it is written


@dataclass(frozen=True, slots=True)
class SpillSizes:
    """What a spill writes and reads at once, and keeps in memory."""

    file_bytes: int = SPILL_FILE_BYTES  # of positions; places of bodies are looked up by it
    block_bytes: int = BLOCK_BYTES
    blocks_max: int = SPILL_BLOCKS_MAX  # cached of what is read back
    tail_bytes_max: int = TAIL_BYTES_MAX  # gathered before it is written


SIZES: Final = SpillSizes()


def clear_spill(disk: Disk) -> None:
    """Delete the scratch files of an earlier process."""
    for name in disk.names(FOLDER):
        disk.remove(f"{FOLDER}/{name}")


class Spill:
    """The bodies of one state (`rollq.grid.bodies.Bodies`). Used by one thread."""

    def __init__(
        self,
        disk: Disk,
        label: str,
        *,
        hot_bytes_max: int = HOT_BODIES_BYTES_MAX,
        log: BodyLog | None = None,
        sizes: SpillSizes = SIZES,
    ) -> None:
        """Nothing is written before it is needed.

        Args:
            disk: where the scratch files go.
            label: in their names; no two spills of a process have the same.
            hot_bytes_max: how many bytes of bodies stay in memory.
            log: where large bodies are left; if there is none, they are like all others.
            sizes: of files and blocks.
        """
        self._disk = disk
        self._sizes = sizes
        self._label = label
        self._hot_bytes_max = hot_bytes_max
        self._hot_bytes = 0
        self._places: dict[int, _Place] = {}  # by number: position // `file_bytes`
        self._base: _Place | None = None
        self._layout = SnapshotLayout(0)  # of the snapshot there
        self._adopted = 0  # how many of its large bodies were
        self._log = LogBodies(log) if log is not None else None
        self._large_bytes_min = log.bytes_min if log is not None else INLINE_BYTES_MAX + 1
        self._hot: dict[int, bytes] = {}  # bodies in the log that are in memory too, by token
        self._moved: dict[int, int] = {}  # bodies that are not in the log any more: where they are
        self._next_number = 0
        self._file: _Place | None = None  # that is written to
        self._written = 0  # position up to which it is written
        self._tail = bytearray()  # what follows, still in memory
        self._blocks: OrderedDict[int, bytes] = OrderedDict()  # least recently used first

    # --- the Bodies protocol

    def entering(self, index: int, data: bytes) -> None:
        """The bodies that are kept next came with this entry of the log."""
        if self._log is not None:
            self._log.entering(index, data)

    def keep(self, body: bytes) -> bytes | int:
        """The body itself while there is room in the hot window, else a number; always a number if
        it is large and in the log."""
        size = len(body)
        token = self._log_bodies.keep(body) if size >= self._large_bytes_min else 0
        if self._hot_bytes + size <= self._hot_bytes_max:
            self._hot_bytes += size
            if not token:
                return body
            self._hot[token] = body
        return token or self._append(body)

    def keep_all(self, bodies: Sequence[bytes]) -> Sequence[bytes | int]:
        """The bodies themselves if none is large and there is room for all, else each
        separately."""
        size = sum(map(len, bodies))
        if self._hot_bytes + size > self._hot_bytes_max or (
            size >= self._large_bytes_min and max(map(len, bodies)) >= self._large_bytes_min
        ):
            return [self.keep(body) for body in bodies]
        self._hot_bytes += size
        return bodies

    def load_all(self, tokens: Sequence[bytes | int]) -> Sequence[bytes]:
        """Load several bodies. Raises DiskError DISK_CORRUPT if one is corrupt."""
        return [token if isinstance(token, bytes) else self.load(token) for token in tokens]

    def load(self, token: bytes | int) -> bytes:
        """Load a body. Raises DiskError DISK_CORRUPT if it is corrupt."""
        if isinstance(token, bytes):
            return token
        if token >= FIRST_TOKEN:
            body = self._hot.get(token)
            if body is not None:
                return body
            token = self._moved.get(token, token)
            if token >= FIRST_TOKEN:
                return self._log_bodies.load(token)
        position, length = token >> SIZE_BITS, sealed_bytes(token & SIZE_MASK)
        begin = position - self._written
        if begin >= 0 and self._file is not None and position < self._file.end:
            data = bytes(self._tail[begin : begin + length])
        else:
            data = self._read(position, length)
        body = unseal(data)
        if body is None or len(data) != length:
            raise corrupt_body(self._places[position // self._sizes.file_bytes].name)
        return body

    def sealed(self, tokens: Sequence[bytes | int]) -> Iterator[bytes]:
        """Bodies with their checksums, concatenated. Raises DiskError DISK_CORRUPT."""
        for piece in self.referred(tokens):
            yield self._log_bodies.read(piece) if isinstance(piece, LargeBody) else piece

    def referred(self, tokens: Sequence[bytes | int]) -> Iterator[bytes | LargeBody]:
        """The same for a snapshot, which does not copy what is in the log. Most of the others
        stand so on disk already: a stretch of them is read at once, and checked."""
        begin = end = 0
        sizes: list[int] = []
        hot: list[bytes] = []  # in memory, not given yet; then there are no `sizes`
        if self._moved:
            moved = self._moved
            tokens = [moved.get(one, one) if isinstance(one, int) else one for one in tokens]
        for token in tokens:
            if isinstance(token, bytes):
                if sizes:
                    yield self._stretch(begin, sizes)
                    sizes = []
                hot.append(token)
                if len(hot) == HOT_AT_ONCE:
                    yield seal_all(hot)
                    hot = []
                continue
            if hot:
                yield seal_all(hot)
                hot = []
            if token >= FIRST_TOKEN:
                if sizes:
                    yield self._stretch(begin, sizes)
                    sizes = []
                large = large_of(token)
                yield large
                yield large.crc.to_bytes(SEAL_BYTES, "little")
                continue
            position, size = token >> SIZE_BITS, token & SIZE_MASK
            if sizes and (
                position != end
                or end - begin >= STRETCH_BYTES
                or position // self._sizes.file_bytes != begin // self._sizes.file_bytes
            ):
                yield self._stretch(begin, sizes)
                sizes = []
            if not sizes:
                begin = position
            sizes.append(size)
            end = position + size + SEAL_BYTES
        if sizes:
            yield self._stretch(begin, sizes)
        if hot:
            yield seal_all(hot)

    def size(self, token: bytes | int) -> int:
        """The length of a body."""
        return len(token) if isinstance(token, bytes) else token & SIZE_MASK

    def drop_all(self, tokens: Sequence[bytes | int]) -> None:
        """Delete several bodies; with the last one of a file, the file."""
        for token in tokens:
            if isinstance(token, bytes):
                self._hot_bytes -= len(token)
            else:
                self._drop(token)

    # --- snapshots

    def segments(self) -> list[int]:
        """Segments of the log with live bodies."""
        return self._log.segments() if self._log is not None else []

    def tidy(self) -> None:
        """Copy the last bodies of sparse segments, so that these can be deleted."""
        if self._log is not None:
            for token in self._log.sparse():
                self._moved[token] = self._append(self.load(token))
                self._log.drop(token)

    def attach(
        self, name: str, start: int, layout: SnapshotLayout, on_drained: Callable[[], None]
    ) -> None:
        """Bodies will be adopted from this file, whose snapshot begins at `start`.

        Args:
            name: the file; it must stay until `on_drained` is called.
            start: where the snapshot begins in it.
            layout: of the snapshot.
            on_drained: called when the last of its bodies is dropped, or by `close`.
        """
        self._base = self._add_place(name, start, layout.file_bytes)
        self._base.on_drained = on_drained
        self._layout, self._adopted = layout, 0

    def adopt(self, offset: int, sizes: list[int]) -> list[bytes | int]:
        """Tokens for bodies that stand one behind another in the attached snapshot, or would if it
        did not refer to the log."""
        base = self._base
        assert base is not None, "no snapshot is attached"
        layout = self._layout
        tokens: list[bytes | int] = []
        for size, same in groupby(sizes):  # a million are mostly alike
            count = len(list(same))
            end = offset + count * sealed_bytes(size)
            if not size:
                tokens.extend(repeat(b"", count))
            elif self._adopted < len(layout.bodies) and layout.offsets[self._adopted] < end:
                tokens.extend(self._adopt_each(base, offset, size, count))
            else:
                first = base.begin + layout.file_offset(offset) << SIZE_BITS | size
                step = sealed_bytes(size) << SIZE_BITS
                tokens.extend(range(first, first + count * step, step))
                base.live += count
            offset = end
        return tokens

    def adopted(self) -> None:
        """The snapshot has been read completely."""
        if self._base is not None and not self._base.live:
            self._release(self._base)

    def close(self) -> None:
        """The state is discarded with all of its bodies."""
        for place in dict.fromkeys(self._places.values()):
            self._release(place)
        self._file = None
        self._tail.clear()
        self._hot.clear()
        self._moved.clear()
        if self._log is not None:
            self._log.close()

    # --- helpers

    @property
    def _log_bodies(self) -> LogBodies:
        assert self._log is not None, "a token of a body in a log that is not known"
        return self._log

    def _drop(self, token: int) -> None:
        if token >= FIRST_TOKEN:
            self._hot_bytes -= len(self._hot.pop(token, b""))
            if token not in self._moved:
                self._log_bodies.drop(token)
                return
            token = self._moved.pop(token)
        place = self._places[(token >> SIZE_BITS) // self._sizes.file_bytes]
        place.live -= 1
        if not place.live and place is not self._file:
            self._release(place)

    def _adopt_each(self, base: _Place, offset: int, size: int, count: int) -> Iterator[int]:
        """As `adopt`, where some of them are in the log."""
        layout = self._layout
        for _ in range(count):
            at = self._adopted
            if at < len(layout.offsets) and offset == layout.offsets[at]:
                self._adopted += 1
                yield self._log_bodies.adopt(layout.bodies[at])
            else:
                base.live += 1
                yield base.begin + layout.file_offset(offset) << SIZE_BITS | size
            offset += sealed_bytes(size)

    def _append(self, body: bytes) -> int:
        """Put a body into the scratch file."""
        size = len(body)
        file = self._file
        if file is None or self._written + len(self._tail) + sealed_bytes(size) > file.end:
            self._flush()
            file = self._begin_file()
        position = self._written + len(self._tail)
        self._tail += seal(body)
        file.live += 1
        if len(self._tail) >= self._sizes.tail_bytes_max:
            self._flush()
        return position << SIZE_BITS | size

    def _begin_file(self) -> _Place:
        if self._file is not None and not self._file.live:
            self._release(self._file)
        name = f"{FOLDER}/{self._label}-{self._next_number:08d}.tmp"
        self._file = self._add_place(name, 0, self._sizes.file_bytes)
        self._written = self._file.begin
        return self._file

    def _add_place(self, name: str, start: int, size: int) -> _Place:
        begin = self._next_number * self._sizes.file_bytes
        place = _Place(name, begin, begin + size, start)
        first = self._next_number
        self._next_number += max(1, -(-size // self._sizes.file_bytes))
        for number in range(first, self._next_number):
            self._places[number] = place
        return place

    def _flush(self) -> None:
        file = self._file
        if file is not None and self._tail:
            self._disk.write(file.name, self._written - file.begin, bytes(self._tail))
            self._written += len(self._tail)
            self._tail.clear()

    def _read(self, position: int, length: int) -> bytes:
        """From the blocks if it is within one that is complete, else from the file."""
        place = self._places[position // self._sizes.file_bytes]
        block_bytes = self._sizes.block_bytes
        number, within = divmod(position, block_bytes)
        block_end = (number + 1) * block_bytes
        if within + length > block_bytes or (place is self._file and block_end > self._written):
            return self._disk.read(place.name, place.start + position - place.begin, length)
        block = self._blocks.get(number)
        if block is None:
            at = place.start + number * block_bytes - place.begin
            block = self._blocks[number] = self._disk.read(place.name, at, block_bytes)
            if len(self._blocks) > self._sizes.blocks_max:
                self._blocks.popitem(last=False)
        else:
            self._blocks.move_to_end(number)
        return block[within : within + length]

    def _stretch(self, begin: int, sizes: list[int]) -> bytes:
        """Sealed bodies that stand one behind another from a position on."""
        length = sum(sizes) + SEAL_BYTES * len(sizes)
        place = self._places[begin // self._sizes.file_bytes]
        written = length
        if place is self._file:
            written = max(0, min(length, self._written - begin))
        data = b""
        if written:
            data = self._disk.read(place.name, place.start + begin - place.begin, written)
        if written < length:
            at = max(0, begin - self._written)
            data += self._tail[at : at + length - written]
        at = 0
        for size in sizes:
            end = at + size
            if data[end : end + SEAL_BYTES] != crc32(data[at:end]).to_bytes(SEAL_BYTES, "little"):
                raise corrupt_body(place.name)
            at = end + SEAL_BYTES
        return data

    def _release(self, place: _Place) -> None:
        for number in range(
            place.begin // self._sizes.file_bytes,
            max(place.begin + 1, place.end - 1) // self._sizes.file_bytes + 1,
        ):
            self._places.pop(number, None)
        if place.on_drained is not None:
            place.on_drained()
            self._base = None
        else:
            self._disk.remove(place.name)


class _Place:
    """A file with bodies. Positions begin..end are its bytes from `start` on."""

    __slots__ = ("begin", "end", "live", "name", "on_drained", "start")

    def __init__(self, name: str, begin: int, end: int, start: int) -> None:
        self.name = name
        self.begin = begin
        self.end = end
        self.start = start
        self.live = 0
        self.on_drained: Callable[[], None] | None = None
