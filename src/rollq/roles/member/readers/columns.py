"""Arrow copies of sealed segments (`history.arrow_cache`), made in a process that may load
Arrow."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final
from zlib import crc32

import msgspec

from rollq.base.limits import COLUMNS_BYTES_MIN, COLUMNS_PACKED_BYTES_MIN, COLUMNS_PIECE_BYTES
from rollq.history import arrow_cache, packed_file
from rollq.history.arrow_cache import ArrowCopy, RowBatch
from rollq.history.columns import EVENTS
from rollq.history.cutting import SegmentFile
from rollq.history.segments import (
    COLUMNS_FOLDER,
    Segments,
    columns_name,
    name_of,
    packed_name,
)
from rollq.roles.member.readers.lines import has_room
from rollq.store.disk import Disk
from rollq.store.look import LookDisk

if TYPE_CHECKING:
    import pyarrow as pa

FILE_MODE: Final = 0o600


def make_all(state: Path, group: str) -> int:
    """Make all missing copies, and remove useless ones; returns how many were missing."""
    disk = LookDisk(state)
    (state / COLUMNS_FOLDER).mkdir(mode=0o700, exist_ok=True)
    for name in stale(disk):
        (state / COLUMNS_FOLDER / name).unlink(missing_ok=True)
    ranges = missing(disk, group)
    for first, last in ranges:
        if has_room(state) and Segments(disk).is_sound(first, last):
            make_copy(state, disk, (first, last), group)
    return len(ranges)


def missing(disk: Disk, group: str) -> list[tuple[int, int]]:
    """Segments that are worth a copy and have no readable one."""
    return [
        ends
        for ends in Segments(disk).ranges()
        if is_worth(disk, *ends) and arrow_cache.read_copy(disk, *ends, group) is None
    ]


def is_worth(disk: Disk, first: int, last: int) -> bool:
    """Whether a segment is large enough for a copy."""
    return (
        disk.size(packed_name(first, last)) >= COLUMNS_PACKED_BYTES_MIN
        or disk.size(name_of(first, last)) >= COLUMNS_BYTES_MIN
    )


def stale(disk: Disk) -> list[str]:
    """Files whose segments are gone, and partial ones."""
    kept = dict.fromkeys(Segments(disk).ranges())
    return [name for name in disk.names(COLUMNS_FOLDER) if arrow_cache.copy_range(name) not in kept]


def make_copy(state: Path, disk: Disk, ends: tuple[int, int], group: str) -> None:
    """Make the copy of a segment, which must be verified."""
    temporary = state / f"{columns_name(*ends)}{arrow_cache.TEMPORARY}"
    schema_bytes, batches = _write_stream(temporary, disk, ends, group)
    with temporary.open("rb+") as file:
        schema_crc = crc32(file.read(schema_bytes))
        for number, batch in enumerate(batches):
            file.seek(batch.offset)
            batches[number] = msgspec.structs.replace(batch, crc=crc32(file.read(batch.size)))
        file.seek(0, os.SEEK_END)
        copy = ArrowCopy(arrow_cache.VERSION, group, *ends, schema_bytes, schema_crc, batches)
        file.write(arrow_cache.encode_footer(copy))
    temporary.chmod(FILE_MODE)
    if ends in Segments(disk).ranges():
        temporary.rename(state / columns_name(*ends))
    else:  # the segment was removed meanwhile
        temporary.unlink()


def _write_stream(
    path: Path, disk: Disk, ends: tuple[int, int], group: str
) -> tuple[int, list[RowBatch]]:
    """Write the rows of a segment; returns the bytes of the schema, and the batches."""
    # Imported late: `missing` does not need it.
    import pyarrow as pa  # noqa: PLC0415

    from rollq.history.arrow import arrow_schema  # noqa: PLC0415

    schema = arrow_schema(EVENTS)
    schema_bytes = schema.serialize().size
    options = pa.ipc.IpcWriteOptions(compression="lz4")
    batches: list[RowBatch] = []
    with (
        pa.OSFile(str(path), "wb") as sink,
        pa.ipc.new_stream(sink, schema, options=options) as writer,
    ):
        for first, last, table in _tables(disk, ends, group):
            offset = max(sink.tell(), schema_bytes)  # the schema is written with the first batch
            for batch in table.combine_chunks().to_batches():
                writer.write_batch(batch)
            size = max(sink.tell() - offset, 0)
            batches.append(RowBatch(first, last, offset=offset, size=size, rows=len(table), crc=0))
    return schema_bytes, batches


def _tables(disk: Disk, ends: tuple[int, int], group: str) -> Iterator[tuple[int, int, pa.Table]]:
    """First index, last index and rows of consecutive pieces without gaps."""
    from rollq.history.arrow import from_lines, from_packed  # noqa: PLC0415

    footer = Segments(disk).packed(*ends)
    if footer is None:
        for first, last, lines in SegmentFile(disk, *ends).pieces(*ends, COLUMNS_PIECE_BYTES):
            yield first, last, from_lines(lines, EVENTS, group)
        return
    for block in footer.blocks:
        data = disk.read(packed_name(*ends), block.offset, block.size)
        yield block.first, block.last, from_packed(packed_file.indexes_in(data), EVENTS, group)
