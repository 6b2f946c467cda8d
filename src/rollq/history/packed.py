"""The events of a log index as held in memory and sealed: packed, with their runs as columns.

Jobs of a run are never handled one by one: the events of an entry are encoded once, when it is
applied, and the same bytes are held in memory, sealed and sent to readers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec
import zstandard

from rollq.base.limits import INFLATED_BYTES_MAX, SEALED_PACKED_BYTES_MAX
from rollq.grid.events import Event, each_of
from rollq.history.schema import to_lines, to_text

# Some hundred events of one kind are much alike; what is larger could not be inflated by readers.
SHRINK_BYTES: Final = range(16 * 1024, INFLATED_BYTES_MAX + 1)
ZSTD_LEVEL: Final = 1  # on the loop: the next levels cost twice as much for a tenth less


class PackedIndex(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """The events of one log index. They wait by the hundred thousand, and are sealed and sent as
    they are here: a field may be appended with a default."""

    index: int
    stamp_ms: int
    packed: bytes  # a msgpack array of `Event`, compressed by zstd if it has not `packed_bytes`
    packed_bytes: int

    def events(self) -> list[Event]:
        """As they were made, with runs."""
        return _unpack(self.plain().packed) if self.packed else []

    def lines(self) -> list[bytes]:
        """As JSON, one row a fact, without line ends."""
        return to_lines(self.index, self.stamp_ms, self.events())

    def text(self) -> bytes:
        """As JSON, one row a fact, each with its line end."""
        return to_text(self.index, self.stamp_ms, self.events())

    def plain(self) -> PackedIndex:
        """The same, not compressed."""
        if len(self.packed) == self.packed_bytes:
            return self
        packed = zstandard.ZstdDecompressor().decompress(self.packed, allow_extra_data=False)
        return PackedIndex(self.index, self.stamp_ms, packed, self.packed_bytes)

    def without_runs(self) -> PackedIndex:
        """The same facts for a reader that may not know runs."""
        events = self.events()
        if all(event.run is None for event in events):
            return self
        return pack(self.index, self.stamp_ms, list(each_of(events)))


def pack(index: int, stamp_ms: int, events: Sequence[Event]) -> PackedIndex:
    """Pack the events of an entry."""
    packed = _encode(events) if events else b""
    size = len(packed)
    if size in SHRINK_BYTES:
        small = zstandard.ZstdCompressor(level=ZSTD_LEVEL).compress(packed)
        packed = small if len(small) < size else packed
    return PackedIndex(index, stamp_ms, packed, size)


def parts_of(unsealed: list[PackedIndex]) -> Iterator[list[PackedIndex]]:
    """Split unsealed events into parts for segments that are small enough to read as a whole."""
    part: list[PackedIndex] = []
    size = 0
    for recent in unsealed:
        if part and size + recent.packed_bytes > SEALED_PACKED_BYTES_MAX:
            yield part
            part, size = [], 0
        part.append(recent)
        size += recent.packed_bytes
    if part:
        yield part


_encode = msgspec.msgpack.Encoder().encode
_unpack = msgspec.msgpack.Decoder(list[Event]).decode
encode_indexes = _encode
decode_indexes = msgspec.msgpack.Decoder(list[PackedIndex]).decode
